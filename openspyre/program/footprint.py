"""Which bytes of its symbols a program touches: how large arguments must be, and which of them it reads before it writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from openspyre.program.model import (
    Contract,
    Gather,
    LoopNest,
    Node,
    Operand,
    OperandKind,
    Program,
    Relayout,
    Repeat,
    Scatter,
    Space,
    Step,
)
from openspyre.program.reach import itemsize
from openspyre.spec.formats import STICK_BYTES


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
    for node in program.body:
        written: list[_Access] = []
        for step, loops in _in_loops((node,), ()):
            for operand in step.inputs:
                if (access := _access(step, operand, loops)) is not None:
                    touched = _widened(found, operand.symbol, access.span())
                    touched.read = True
                    touched.read_first |= not (touched.covers(access.span()) or _covered(access, written))
            written += [a for o in step.outputs if (a := _access(step, o, loops)) is not None]
        for access in written:
            _widened(found, access.operand.symbol, access.span()).write(access.span())
    return found


class _Loop(NamedTuple):
    place: tuple[int, ...]  # of the repeat in the tree
    times: int


class _Access(NamedTuple):
    """Bytes of an operand in the first iteration, and how they move with the repeats around."""

    operand: Operand
    first: tuple[int, int]
    loops: tuple[_Loop, ...]
    advance: tuple[int, ...]  # bytes, of each loop

    def span(self, common: int = 0) -> tuple[int, int]:
        """Over all iterations of all loops but the outer `common` ones."""
        reaches = [(loop.times - 1) * by for loop, by in zip(self.loops[common:], self.advance[common:], strict=True)]
        return self.first[0] + sum(min(0, r) for r in reaches), self.first[1] + sum(max(0, r) for r in reaches)


def _in_loops(
    body: tuple[Node, ...], loops: tuple[_Loop, ...], path: tuple[int, ...] = ()
) -> Iterator[tuple[Step, tuple[_Loop, ...]]]:
    for number, node in enumerate(body):
        match node:
            case Repeat(count, inner):
                yield from _in_loops(inner, (*loops, _Loop((*path, number), count)), (*path, number))
            case step:
                yield step, loops


def _access(step: Step, operand: Operand, loops: tuple[_Loop, ...]) -> _Access | None:
    span = byte_span(step, operand)
    if span is None:
        return None
    bytes_each = itemsize(operand.data_format)
    advance = (*(by * bytes_each for by in operand.advance), *(0,) * len(loops))[: len(loops)]
    return _Access(operand, span, loops, advance)


def _covered(read: _Access, written: list[_Access]) -> bool:
    """Whether steps before it in the same repeat write all that a step reads, in the same iteration of what is around both."""
    groups: dict[int, Footprint] = {}  # by how many loops are around both
    for write in written:
        loops = list(zip(read.loops, write.loops, strict=False))
        shared = next((k for k, (mine, other) in enumerate(loops) if mine != other), len(loops))
        if write.operand.symbol == read.operand.symbol and write.advance[:shared] == read.advance[:shared]:
            groups.setdefault(shared, Footprint(0, 0)).write(write.span(shared))
    return any(group.covers(read.span(shared)) for shared, group in groups.items())


def _widened(found: dict[int, Footprint], symbol: int, span: tuple[int, int]) -> Footprint:
    known = found.setdefault(symbol, Footprint(*span))
    known.first, known.end = min(known.first, span[0]), max(known.end, span[1])
    return known


def byte_span(step: Step, operand: Operand, counts: tuple[int, ...] = ()) -> tuple[int, int] | None:
    """First byte and the one behind the last that a step can touch of an operand in memory, by all cores and in all iterations
    of repeats of so many."""
    if not operand.kind.in_memory or operand.space is not Space.MEMORY:
        return None
    bytes_each = itemsize(operand.data_format)
    if isinstance(step, Relayout):
        view = step.source if operand is step.inputs[0] else step.target
        reaches = [view.layout.device_bytes // bytes_each - 1]
    else:
        reaches = _reaches(step, operand, STICK_BYTES // bytes_each)
    first = last = operand.offset
    for reach in (*reaches, *((count - 1) * by for count, by in zip(counts, operand.advance, strict=False))):
        first, last = first + min(reach, 0), last + max(reach, 0)
    return first * bytes_each, (last + 1) * bytes_each


def _reaches(step: LoopNest, operand: Operand, per_stick: int) -> list[int]:
    """Elements from the first to the last place along each dim, and below the dims: lanes, rows of a second operand, a table."""
    lane = step.lane
    along, lanes, extent = lane.block_dim, lane.lanes, lane.extent
    found = []
    rows = -1  # the dim over blocks of rows of a second operand
    is_a, is_b = (len(step.inputs) > n and operand is step.inputs[n] for n in (0, 1))
    if isinstance(step, Contract) and (is_a or is_b):
        k = len(step.dims) - 1
        if is_a or step.b_along_k:
            along, lanes, rows = k, step.k_lanes, lane.block_dim if is_b else -1
            extent, count = step.k_extent, lane.extent
        else:
            rows, count = k, step.k_extent
        if is_b:
            found.append((count - 1) * step.b_row_stride)
    vector = operand.kind is OperandKind.VECTOR
    for number, (dim, stride) in enumerate(zip(step.dims, operand.strides, strict=True)):
        if number != rows and not (operand.kind in (OperandKind.VECTOR, OperandKind.STRIDED) and number == along):
            found.append((dim.extent - 1) * stride)
    if vector:
        block, tile = divmod(-(-max(extent, 1) // per_stick) - 1, max(1, lanes // per_stick))
        stride = operand.strides[along] if along >= 0 else 0
        found += [block * stride + tile * operand.tile_stride, min(lanes, per_stick) - 1]
    if operand.kind is OperandKind.STRIDED:
        # The farthest is in the last block, or in the last whole one before a shorter one.
        blocks, stride = -(-max(extent, 1) // lanes), operand.strides[along] if along >= 0 else 0
        ends = [(blocks - 1) * stride + (extent - (blocks - 1) * lanes - 1) * operand.tile_stride]
        ends += [(blocks - 2) * stride + (lanes - 1) * operand.tile_stride] if blocks > 1 else []
        found.append(max(ends, key=abs))
    match step:
        case Gather(inputs=(table, *_)) | Scatter(outputs=(table, *_)) if operand is table:
            chosen = max(1, step.index_bound) - 1
            if step.index_stride or step.inputs[1].kind is not OperandKind.VECTOR:
                found.append(chosen * step.index_stride)
            else:
                found += [chosen // per_stick * operand.tile_stride, min(chosen, per_stick - 1)]
    return found
