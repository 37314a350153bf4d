"""Which elements of an operand a step touches: boxes of runs, exact but for what an index chooses."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from openspyre.program.model import Contract, Gather, LaneBlock, LoopNest, Operand, OperandKind, Relayout, Scatter
from openspyre.program.relayout_nest import elements_of
from openspyre.spec.formats import STICK_BYTES, DataFormats


class Piece(NamedTuple):
    """Runs of elements, each `first + sum(index * stride)` behind the operand's offset, for every index below the counts."""

    first: int
    grid: tuple[tuple[int, int], ...]  # count and stride; the dims come first
    run: int = 1

    def with_axis(self, count: int, stride: int, run: int = 1) -> Piece:
        return Piece(self.first, (*self.grid, (count, stride)), run)

    def cut(self, dim: int) -> tuple[Piece | None, Piece]:
        """All but the last pass of a dim, and the last."""
        count, stride = self.grid[dim]
        before, behind = self.grid[:dim], self.grid[dim + 1 :]
        most = None if count == 1 else Piece(self.first, (*before, (count - 1, stride), *behind), self.run)
        return most, Piece(self.first + (count - 1) * stride, (*before, (1, stride), *behind), self.run)


@lru_cache(maxsize=64)
def itemsize(data_format: str) -> int:
    """Bytes of an element."""
    return STICK_BYTES // DataFormats[data_format].elems_per_stick()


def pieces(step: LoopNest | Relayout, place: int, *, output: bool) -> tuple[Piece, ...]:
    """What a step touches of an operand in memory. Padding lanes are loaded as well, but nothing comes of them."""
    operand = (step.outputs if output else step.inputs)[place]
    if isinstance(step, Relayout):
        view = step.target if output else step.source
        elements = elements_of(view)
        if elements is not None:
            return (_with_run(*elements),)
        size = view.layout.device_bytes  # any of the buffer's, as far as this goes
        return (Piece(0, (), size // itemsize(operand.data_format)),)
    whole = Piece(0, tuple((dim.extent, stride) for dim, stride in zip(step.dims, operand.strides, strict=True)))
    if isinstance(step, Contract) and not output:
        return tuple(_contracted(step, operand, place, whole))
    padded = output and step.lane.store_padding
    found = _along_lanes([whole], operand, replace(step.lane, extent=_all_lanes(step)) if padded else step.lane)
    match step, place, output:
        case (Gather() as indexed, 0, False) | (Scatter() as indexed, 0, True):
            found = _indexed(indexed, operand, found)
    return tuple(found)


def _with_run(first: int, grid: tuple[tuple[int, int], ...]) -> Piece:
    """The elements of a view; a dim that goes from element to element is a run."""
    run = next((axis for axis in grid if axis[1] == 1), None)
    return Piece(first, tuple(axis for axis in grid if axis is not run), 1 if run is None else run[0])


def bounds(found: tuple[Piece, ...]) -> tuple[int, int]:
    """The first element of some pieces, and the one behind the last."""
    if not found:
        return 0, 0
    first = min(piece.first + sum(min(0, (n - 1) * stride) for n, stride in piece.grid) for piece in found)
    end = max(piece.first + sum(max(0, (n - 1) * stride) for n, stride in piece.grid) + piece.run for piece in found)
    return first, end


def lanes_of(piece: Piece, offset: int, stick: int) -> tuple[int, int]:
    """Which elements of every stick a piece stays within: all of them, unless it goes from stick to stick."""
    low = (offset + piece.first) % stick
    if low + piece.run > stick or any(stride % stick for count, stride in piece.grid if count > 1):
        return 0, stick
    return low, low + piece.run


def _all_lanes(step: LoopNest) -> int:
    blocks = 1 if step.lane.block_dim < 0 else step.dims[step.lane.block_dim].extent
    return blocks * step.lane.lanes


def _along_lanes(found: list[Piece], operand: Operand, lane: LaneBlock) -> list[Piece]:
    """Sticks of every block; of the last one as many elements as there are."""
    if operand.kind is OperandKind.STRIDED:
        return [part for piece in found for part in _rows(piece, lane, operand.tile_stride)]
    if operand.kind is not OperandKind.VECTOR:
        return found
    stick = DataFormats[operand.data_format].elems_per_stick()
    sticks, tile = lane.lanes // stick, operand.tile_stride
    made: list[Piece] = []
    for piece in found:
        valid = _in_last(piece, lane)
        if valid == lane.lanes:
            made.append(piece.with_axis(sticks, tile, stick))
            continue
        most, last = (None, piece) if lane.block_dim < 0 else piece.cut(lane.block_dim)
        full, rest = divmod(valid, stick)
        if most is not None:
            made.append(most.with_axis(sticks, tile, stick))
        if full:
            made.append(last.with_axis(full, tile, stick))
        if rest:
            made.append(Piece(last.first + full * tile, last.grid, rest))
    return [piece for piece in made if all(count for count, _ in piece.grid)]


def _in_last(piece: Piece, lane: LaneBlock) -> int:
    blocks = 1 if lane.block_dim < 0 else piece.grid[lane.block_dim][0]
    return lane.extent - lane.lanes * (blocks - 1)


def _contracted(step: Contract, operand: Operand, place: int, whole: Piece) -> list[Piece]:
    blocks = max((k for k, dim in enumerate(step.dims) if dim.reduced), default=-1)
    along_k = LaneBlock(step.k_lanes, step.k_extent, blocks)
    if place == 0:
        return _along_lanes([whole], operand, along_k)
    lane, rows = (along_k, step.lane) if step.b_along_k else (step.lane, along_k)
    return _along_lanes(_rows(whole, rows, step.b_row_stride), operand, lane)


def _rows(piece: Piece, rows: LaneBlock, stride: int) -> list[Piece]:
    valid = _in_last(piece, rows)
    most, last = (None, piece) if rows.block_dim < 0 or valid == rows.lanes else piece.cut(rows.block_dim)
    found = [last.with_axis(valid, stride)]
    return found if most is None else [most.with_axis(rows.lanes, stride), *found]


def _indexed(step: Gather | Scatter, operand: Operand, found: list[Piece]) -> list[Piece]:
    """Rows of the table `index_stride` apart, or without one the elements along its sticks."""
    if step.index_stride or step.inputs[1].kind is not OperandKind.VECTOR:
        return _chosen(found, step.index_bound, step.index_stride)
    bound, stick = max(1, step.index_bound), DataFormats[operand.data_format].elems_per_stick()
    return [piece.with_axis(-(-bound // stick), operand.tile_stride, min(bound, stick)) for piece in found]


def _chosen(found: list[Piece], bound: int, stride: int) -> list[Piece]:
    """All that an index can choose."""
    return [piece.with_axis(max(1, bound), stride, piece.run) for piece in found]
