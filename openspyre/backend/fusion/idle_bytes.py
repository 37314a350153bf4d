"""The pool without the bytes that no step touches any more: values that stay in registers, tables that are read where they lie."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from openspyre.program.footprint import byte_span
from openspyre.program.model import Node, Operand, Program, Repeat, Step
from openspyre.program.reach import itemsize
from openspyre.program.tree import steps_of
from openspyre.spec.formats import STICK_BYTES


@dataclass(frozen=True, slots=True)
class _Region:
    """Bytes of the pool that are touched, and where they go."""

    begin: int
    end: int
    to: int


def without_idle_bytes(program: Program) -> Program:
    """What is touched moves together, by whole sticks; what shares bytes, or touches, stays side by side."""
    regions = _regions(program)
    end = regions[-1].to + regions[-1].end - regions[-1].begin if regions else 0
    closed = replace(program, pool_bytes=min(end, program.pool_bytes))
    if all(region.begin == region.to for region in regions):
        return closed
    return replace(closed, body=_moved(program.body, regions, len(program.symbols), ()))


def _regions(program: Program) -> list[_Region]:
    pool = len(program.symbols)
    spans = sorted(
        span
        for step, counts in steps_of(program.body)
        for operand in (*step.inputs, *step.outputs)
        if operand.symbol == pool and (span := byte_span(step, operand, counts)) is not None
    )
    found: list[_Region] = []
    for first, last in spans:
        begin, end = first // STICK_BYTES * STICK_BYTES, -(-last // STICK_BYTES) * STICK_BYTES
        if found and begin <= found[-1].end:
            found[-1] = replace(found[-1], end=max(found[-1].end, end))
        else:
            to = found[-1].to + found[-1].end - found[-1].begin if found else 0
            found.append(_Region(begin, end, to))
    return found


def _moved(body: Sequence[Node], regions: list[_Region], pool: int, counts: tuple[int, ...]) -> tuple[Node, ...]:
    return tuple(
        replace(node, body=_moved(node.body, regions, pool, (*counts, node.count)))
        if isinstance(node, Repeat)
        else _moved_step(node, regions, pool, counts)
        for node in body
    )


def _moved_step(step: Step, regions: list[_Region], pool: int, counts: tuple[int, ...]) -> Step:
    def moved(operand: Operand) -> Operand:
        span = byte_span(step, operand, counts) if operand.symbol == pool else None
        if span is None:
            return operand
        region = regions[bisect_right(regions, span[0], key=lambda region: region.begin) - 1]
        by = (region.begin - region.to) // itemsize(operand.data_format)
        return replace(operand, offset=operand.offset - by) if by else operand

    inputs, outputs = tuple(map(moved, step.inputs)), tuple(map(moved, step.outputs))
    same = all(new is old for new, old in zip((*inputs, *outputs), (*step.inputs, *step.outputs), strict=True))
    return step if same else replace(step, inputs=inputs, outputs=outputs)
