"""Which bytes a step touches, and which buffers may be the same memory: what decides whether a step may be moved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from openspyre.program.model import Operand, OperandKind, Step, StepKind, strided_lanes
from openspyre.spec.formats import STICK_BYTES, DataFormats


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a symbol that an operand stays within."""

    symbol: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Touched:
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """Symbols below `arguments` are given by the launch; those from there on are temps, each a buffer of its own.

    `shared` are arguments that are written and that a caller may pass as another argument, too.
    """

    arguments: int
    shared: frozenset[int] = frozenset()
    made: frozenset[int] = frozenset()  # arguments that are fresh: nothing else is in their memory

    def is_temp(self, symbol: int) -> bool:
        return symbol >= self.arguments

    def is_alone(self, symbol: int) -> bool:
        """Whether no other symbol can be the same memory."""
        return self.is_temp(symbol) or symbol in self.made

    def meet(self, one: Span, other: Span) -> bool:
        if one.symbol == other.symbol:
            return one.first < other.end and other.first < one.end
        if one.symbol not in self.shared and other.symbol not in self.shared:
            return False
        return not self.is_alone(one.symbol) and not self.is_alone(other.symbol)

    def any_meet(self, some: tuple[Span, ...], others: tuple[Span, ...]) -> bool:
        return any(self.meet(one, other) for one in some for other in others)


def in_memory(operand: Operand) -> bool:
    return operand.kind.in_memory


@lru_cache(maxsize=64)
def itemsize(data_format: str) -> int:
    return STICK_BYTES // DataFormats[data_format].elems_per_stick()


def touched(step: Step) -> Touched:
    """What a step may read and write; a scatter that adds reads its target as well."""
    if step.kind is StepKind.RELAYOUT:
        source, target = step.views
        reads = _buffer(step.inputs[0], source.layout.device_bytes)
        return Touched((reads,), (_buffer(step.outputs[0], target.layout.device_bytes),))
    reads_list = [_span(step, operand, place) for place, operand in enumerate(step.inputs) if in_memory(operand)]
    writes = tuple(_span(step, operand, -1) for operand in step.outputs)
    return Touched((*reads_list, *(writes if step.accumulate else ())), writes)


def input_span(step: Step, place: int) -> Span:
    return _span(step, step.inputs[place], place)


def output_span(step: Step, place: int) -> Span:
    return _span(step, step.outputs[place], -1)


def _buffer(operand: Operand, size: int) -> Span:
    first = operand.offset * itemsize(operand.data_format)
    return Span(operand.symbol, first, first + size)


def _span(step: Step, operand: Operand, place: int) -> Span:
    """`place` among the inputs, -1 for an output; as the card reckons it (csrc/card/core_slices.cpp)."""
    reach = [(loop.extent, stride) for loop, stride in zip(step.loops, operand.strides, strict=True)]
    lanes = 0 if step.lane is None else step.lane.lanes
    if (contraction := step.contraction) is not None and place in (0, 1):
        along_k = place == 0 or contraction.b_along_k
        if place == 1:
            reach.append((lanes if along_k else contraction.k_lanes, contraction.b_row_stride))
        lanes = contraction.k_lanes if along_k else lanes
    if (step.kind, place) in ((StepKind.GATHER, 0), (StepKind.SCATTER, -1)):
        reach.append((max(1, step.index_bound), step.index_stride))
    size = itemsize(operand.data_format)
    if operand.kind is OperandKind.VECTOR and lanes:
        stick = STICK_BYTES // size
        reach += [(max(1, lanes // stick), operand.tile_stride), (min(lanes, stick), 1)]
    if operand.kind is OperandKind.STRIDED:
        reach.append((strided_lanes(step), operand.tile_stride))
    first = operand.offset + sum(min(0, (count - 1) * stride) for count, stride in reach)
    last = operand.offset + sum(max(0, (count - 1) * stride) for count, stride in reach)
    return Span(operand.symbol, first * size, (last + 1) * size)
