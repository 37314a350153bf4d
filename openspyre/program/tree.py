"""Programs as trees: steps, and counted loops around them. Walks, rewrites, and what a loop does to the operands in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from openspyre.program.model import Node, Operand, Program, Repeat, Step
from openspyre.spec.formats import DataFormats


def steps_of(body: Iterable[Node], counts: tuple[int, ...] = ()) -> Iterator[tuple[Step, tuple[int, ...]]]:
    """Every step once, as the text has them, with the counts of the repeats around it, outermost first."""
    for node in body:
        match node:
            case Repeat(count, inner):
                yield from steps_of(inner, (*counts, count))
            case step:
                yield step, counts


def mapped(body: Iterable[Node], change: Callable[[Step], Step]) -> tuple[Node, ...]:
    """The same tree of other steps."""
    return tuple(
        replace(node, body=mapped(node.body, change)) if isinstance(node, Repeat) else change(node) for node in body
    )


def unrolled(program: Program) -> Program:
    """The same program without repeats: every iteration has steps of its own."""
    return replace(program, body=tuple(_unrolled(program.body, ())))


def _unrolled(body: Iterable[Node], iterations: tuple[int, ...]) -> Iterator[Step]:
    for node in body:
        match node:
            case Repeat(count, inner):
                for index in range(count):
                    yield from _unrolled(inner, (*iterations, index))
            case step:
                yield in_iteration(step, iterations)


def in_iteration(step: Step, iterations: Sequence[int]) -> Step:
    """A step as it is in one iteration of the repeats around it."""
    return _operands(step, lambda operand: _moved(operand, iterations))


def _moved(operand: Operand, iterations: Sequence[int]) -> Operand:
    if not operand.advance:
        return operand
    by = sum(step * index for step, index in zip(operand.advance, iterations, strict=False))
    return replace(operand, offset=operand.offset + by, advance=())


def _operands(step: Step, change: Callable[[Operand], Operand]) -> Step:
    return replace(step, inputs=tuple(map(change, step.inputs)), outputs=tuple(map(change, step.outputs)))


def rolled(lower: Callable[[tuple[int, ...]], Sequence[Step]], counts: tuple[int, ...]) -> tuple[Step, ...] | None:
    """Steps for the inside of repeats, from what they are in single iterations; None if they differ in more than where operands lie."""
    nowhere = (0,) * len(counts)
    first = tuple(lower(nowhere))
    if not counts:
        return first
    nexts = [lower(_along(nowhere, k, min(1, count - 1))) for k, count in enumerate(counts)]
    if any(len(steps) != len(first) for steps in nexts):
        return None
    found = tuple(_advancing(step, [steps[place] for steps in nexts]) for place, step in enumerate(first))
    if not all(_by_sticks(operand) for step in found for operand in (*step.inputs, *step.outputs)):
        return None
    last = tuple(count - 1 for count in counts)
    for ends in dict.fromkeys([*(_along(nowhere, k, last[k]) for k in range(len(counts))), last]):
        if tuple(in_iteration(step, ends) for step in found) != tuple(lower(ends)):
            return None
    return found


def _along(iterations: tuple[int, ...], loop: int, index: int) -> tuple[int, ...]:
    return (*iterations[:loop], index, *iterations[loop + 1 :])


def _by_sticks(operand: Operand) -> bool:
    """Whether it lies in its sticks alike in all iterations: otherwise a step may be another one in between."""
    return all(by % DataFormats[operand.data_format].elems_per_stick() == 0 for by in operand.advance)


def _advancing(step: Step, nexts: Sequence[Step]) -> Step:
    def with_advance(here: tuple[Operand, ...], others: list[tuple[Operand, ...]]) -> tuple[Operand, ...]:
        found = []
        for operand, later in zip(here, zip(*others, strict=True), strict=True):
            advance = tuple(other.offset - operand.offset for other in later)
            found.append(replace(operand, advance=advance if any(advance) else ()))
        return tuple(found)

    if any((len(s.inputs), len(s.outputs)) != (len(step.inputs), len(step.outputs)) for s in nexts):
        return step
    inputs = with_advance(step.inputs, [other.inputs for other in nexts])
    return replace(step, inputs=inputs, outputs=with_advance(step.outputs, [other.outputs for other in nexts]))
