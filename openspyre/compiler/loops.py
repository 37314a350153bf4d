"""Programs of the IR as trees: ops, and counted loops around them. Walks, rewrites, and what a loop does to the accesses in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from openspyre.compiler.ir import Access, Loop, Node, Op, Program


def listed(body: Iterable[Node], counts: tuple[int, ...] = ()) -> Iterator[tuple[Op, tuple[int, ...]]]:
    """Every op once, as the text has them, with the counts of the loops around it, outermost first."""
    for node in body:
        match node:
            case Op():
                yield node, counts
            case Loop(count, inner):
                yield from listed(inner, (*counts, count))


def expanded(body: Iterable[Node], change: Callable[[Op], Iterable[Op]]) -> tuple[Node, ...]:
    """The same tree with others in the place of each op."""
    return expanded_in_loops(body, lambda op, _: change(op))


def expanded_in_loops(
    body: Iterable[Node], change: Callable[[Op, tuple[int, ...]], Iterable[Op]], counts: tuple[int, ...] = ()
) -> tuple[Node, ...]:
    """The same, for those who ask how often the loops around an op run."""
    found: list[Node] = []
    for node in body:
        match node:
            case Op():
                found += change(node, counts)
            case Loop(count, inner):
                found.append(Loop(count, expanded_in_loops(inner, change, (*counts, count))))
    return tuple(found)


def unrolled(program: Program) -> Program:
    """The same program without loops: every iteration has ops of its own, named by it."""
    return replace(program, body=tuple(_unrolled(program.body, ())))


def _unrolled(body: Iterable[Node], iterations: tuple[int, ...]) -> Iterator[Op]:
    for node in body:
        match node:
            case Op():
                name = ".".join([node.name, *map(str, iterations)])
                yield replace(in_iteration(node, iterations), name=name)
            case Loop(count, inner):
                for index in range(count):
                    yield from _unrolled(inner, (*iterations, index))


def in_iteration(op: Op, iterations: Sequence[int]) -> Op:
    """An op as it is in one iteration of the loops around it."""
    inputs = tuple(moved(operand, iterations) if isinstance(operand, Access) else operand for operand in op.inputs)
    return replace(op, inputs=inputs, outputs=tuple(moved(access, iterations) for access in op.outputs))


def moved(access: Access, iterations: Sequence[int]) -> Access:
    if not access.advance:
        return access
    by = sum(step * index for step, index in zip(access.advance, iterations, strict=False))
    return replace(access, offset=access.offset + by, advance=())


def moving(found: Mapping[tuple[int, ...], Op], counts: tuple[int, ...]) -> Op | None:
    """The op in loops that is each of these in its iteration (those of `ends`); None if they differ in more than evenly moved offsets."""
    first = found[(0,) * len(counts)]
    if any(len(other.accesses) != len(first.accesses) for other in found.values()):
        return None
    seconds = [tuple(min(1, n - 1) if k == loop else 0 for k, n in enumerate(counts)) for loop in range(len(counts))]

    def advancing(access: Access, place: int) -> Access:
        steps = tuple(found[second].accesses[place].offset - access.offset for second in seconds)
        return replace(access, advance=steps if any(steps) else ())

    places = itertools.count()
    inputs = tuple(advancing(each, next(places)) if isinstance(each, Access) else each for each in first.inputs)
    op = replace(first, inputs=inputs, outputs=tuple(advancing(access, next(places)) for access in first.outputs))
    return op if all(in_iteration(op, where) == other for where, other in found.items()) else None


def ends(counts: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Iterations that tell all others of what moves evenly: the first, the second of each loop, its last, and the last of all."""
    first, last = (0,) * len(counts), tuple(count - 1 for count in counts)
    along = [
        (*first[:k], index, *first[k + 1 :])
        for k, count in enumerate(counts)
        for index in (min(1, count - 1), count - 1)
    ]
    return list(dict.fromkeys([first, *along, last]))


def lifetimes(program: Program) -> dict[str, tuple[int, int]]:
    """First and last op that touches each buffer, ops counted as the text has them. In a loop it lives as long as the loop runs."""
    found: dict[str, tuple[int, int]] = {}
    when = 0
    for node in program.body:
        ops = [op for op, _ in listed((node,))]
        for number, op in enumerate(ops, when):
            first, last = (number, number) if isinstance(node, Op) else (when, when + len(ops) - 1)
            for access in op.accesses:
                found[access.buffer] = (min(found.get(access.buffer, (first, last))[0], first), last)
        when += len(ops)
    return found
