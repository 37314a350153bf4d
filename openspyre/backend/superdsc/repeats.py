"""Loops of a bundle as repeats of a program. A body that is not the same in all iterations but for its places is unrolled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from openspyre.artifact import bundle_function
from openspyre.artifact.bundle_function import Execute
from openspyre.program.model import Node, Repeat, Step
from openspyre.program.tree import rolled

Lower = Callable[[Execute, tuple[int, ...]], list[Step]]  # an execution in one iteration of the loops around it


class _Irregular(Exception):
    """An execution whose steps differ from iteration to iteration."""


def repeated(body: tuple[bundle_function.Node, ...], lower: Lower) -> tuple[Node, ...]:
    """The nodes of a function's body."""
    return tuple(_nodes(body, (), lower))


# Of each loop around: how often it runs, or (unrolled) the iteration that it is in.
_Around = tuple[tuple[int, int | None], ...]


def _nodes(body: tuple[bundle_function.Node, ...], around: _Around, lower: Lower) -> Iterator[Node]:
    for node in body:
        match node:
            case Execute():
                yield from _steps(node, around, lower)
            case bundle_function.Loop(count, inner):
                yield from _loop(count, inner, around, lower)


def _loop(count: int, body: tuple[bundle_function.Node, ...], around: _Around, lower: Lower) -> tuple[Node, ...]:
    try:
        inner = tuple(_nodes(body, (*around, (count, None)), lower)) if count else ()
        return (Repeat(count, inner),) if inner else ()
    except _Irregular:
        return tuple(node for index in range(count) for node in _nodes(body, (*around, (count, index)), lower))


def _steps(execute: Execute, around: _Around, lower: Lower) -> tuple[Step, ...]:
    def in_iteration(iterations: tuple[int, ...]) -> list[Step]:
        running = iter(iterations)
        return lower(execute, tuple(next(running) if at is None else at for _, at in around))

    found = rolled(in_iteration, tuple(count for count, at in around if at is None))
    if found is None:
        raise _Irregular
    return found
