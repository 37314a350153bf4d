"""Which bytes of its symbols a program touches: how large arguments must be, and which of them it reads before it writes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from openspyre.program.model import Operand, OperandKind, Program, Space, Step, StepKind, strided_lanes
from openspyre.spec.formats import STICK_BYTES, DataFormats


@dataclass(slots=True)
class Footprint:
    """Bytes [first, end) of a symbol; `read_first`: a step reads where none before it has written, by their outer bounds."""

    first: int
    end: int
    read: bool = False
    writes: list[tuple[int, int]] = field(default_factory=list)  # apart and in order
    read_first: bool = False

    @property
    def written(self) -> bool:
        return bool(self.writes)

    def covers(self, span: tuple[int, int]) -> bool:
        return any(first <= span[0] and span[1] <= end for first, end in self.writes)

    def write(self, span: tuple[int, int]) -> None:
        merged: list[tuple[int, int]] = []
        for first, end in sorted([*self.writes, span]):
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((first, end))
        self.writes = merged


def footprints(program: Program) -> dict[int, Footprint]:
    found: dict[int, Footprint] = {}
    for step in program.steps:
        for operand in step.inputs:
            if (span := byte_span(step, operand)) is not None:
                touched = _widened(found, operand.symbol, span)
                touched.read = True
                touched.read_first |= not touched.covers(span)
        for operand in step.outputs:
            if (span := byte_span(step, operand)) is not None:
                _widened(found, operand.symbol, span).write(span)
    return found


def _widened(found: dict[int, Footprint], symbol: int, span: tuple[int, int]) -> Footprint:
    known = found.setdefault(symbol, Footprint(*span))
    known.first, known.end = min(known.first, span[0]), max(known.end, span[1])
    return known


def byte_span(step: Step, operand: Operand) -> tuple[int, int] | None:
    """First byte and the one behind the last that a step can touch of an operand in memory, by all cores."""
    if not operand.kind.in_memory or operand.space is not Space.MEMORY:
        return None
    per_stick = DataFormats[operand.data_format].elems_per_stick()
    first = last = operand.offset
    for loop, stride in zip(step.loops, operand.strides, strict=True):
        reach = (loop.extent - 1) * stride
        first, last = first + min(reach, 0), last + max(reach, 0)
    for extent, stride in _within_block(step, operand, per_stick):
        reach = (extent - 1) * stride
        first, last = first + min(reach, 0), last + max(reach, 0)
    itemsize = STICK_BYTES // per_stick
    return first * itemsize, (last + 1) * itemsize


def _within_block(step: Step, operand: Operand, per_stick: int) -> list[tuple[int, int]]:
    """Extents and strides below the loops: lanes, rows of a second operand, what an index chooses."""
    found: list[tuple[int, int]] = []
    lanes = step.lane.lanes if step.lane is not None else per_stick
    contraction = step.contraction
    is_a, is_b = (bool(contraction) and len(step.inputs) > n and operand is step.inputs[n] for n in (0, 1))
    if contraction is not None and (is_a or (is_b and contraction.b_along_k)):
        lanes = contraction.k_lanes
    if operand.kind is OperandKind.VECTOR:
        found += [(max(1, lanes // per_stick), operand.tile_stride), (min(lanes, per_stick), 1)]
    if operand.kind is OperandKind.STRIDED:
        found.append((strided_lanes(step), operand.tile_stride))
    if contraction is not None and is_b:
        rows = step.lane.lanes if contraction.b_along_k and step.lane is not None else contraction.k_lanes
        found.append((rows, contraction.b_row_stride))
    table = (
        step.inputs[0] if step.kind is StepKind.GATHER else step.outputs[0] if step.kind is StepKind.SCATTER else None
    )
    if operand is table:
        found.append((max(1, step.index_bound), step.index_stride))
    return found
