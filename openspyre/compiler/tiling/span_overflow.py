"""Tiles without a hint: where one core would reach further into a tensor than it can, were the work not divided at all.

An op's result is cut along dims that lie outside in memory, into as few tiles as will do; ops next to each other that are cut alike
share a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from openspyre.compiler.ir import Buffer, Op, Role
from openspyre.compiler.planner.op_space import OpSpace, op_space
from openspyre.compiler.planner.space import Coordinate, Tensor
from openspyre.compiler.tiling.groups import Member, Tile, Untileable
from openspyre.spec.ops import TABLE, Kind

FIRST_HINT = 10_000  # levels that no hint asked for are numbered from here on
_MOST_TILES = 64
_MOST_DIMS = 3
_MOST_COUNTS = 16
_MOST_CHOICES = 512
_SUMS = (Kind.REDUCTION, Kind.CONTRACTION)
_PLANNED = (Kind.POINTWISE, *_SUMS)

Cuts = tuple[tuple[int, int], ...]  # dims of an op and the tiles of each, the outermost dim first


@dataclass(frozen=True, slots=True)
class SpanTiles:
    """Plans tiles for ops; `limit` in bytes of a tensor that one core may reach. `buffers` have layouts."""

    limit: int
    buffers: Mapping[str, Buffer]

    def members(self, given: Sequence[Member], can_share: Callable[[Sequence[Member]], bool]) -> list[Member]:
        """The ops with levels where they need them, and none of a hint. `can_share`: whether some may stand in one loop."""
        found: list[Member] = []
        run: list[Member] = []
        hint = FIRST_HINT
        for member in given:
            cuts = None if member.tiles else self.cuts(member.op)
            if cuts is None:
                found.append(member)
                run = []
                continue
            joined = self._joined(member.op, cuts, run)
            if joined is not None and can_share([*run, joined]):
                run.append(joined)
            else:
                run = [_with_tiles(member.op, cuts, hint)]
                hint += len(cuts)
            found.append(run[-1])
            if _sums(member.op) and len(run) > 1:
                run = []  # a sum closes the loop it has joined
        return found

    def _joined(self, op: Op, cuts: Cuts, run: Sequence[Member]) -> Member | None:
        """An op in the loop of those before it: cut as they are, though it would choose other cuts alone. A sum only if it would not."""
        if not run:
            return None
        first = run[0]
        same: Cuts = tuple((tile.dim, tile.count) for tile in first.tiles if tile.dim is not None)
        alike = len(op.dims) >= len(first.op.dims) and all(op.dims[d].size == first.op.dims[d].size for d, _ in same)
        if cuts != same and (_sums(op) or not alike or not self._is_legal(op, op_space(op, self.buffers), same)):
            return None
        return _with_tiles(op, same, first.tiles[0].hint)

    # --- one op
    def cuts(self, op: Op) -> Cuts | None:
        """None if it needs none, or is not planned; Untileable if there are none that help."""
        if TABLE[op.row].kind not in _PLANNED or not op.outputs or not any(op.outputs[0].strides):
            return None
        if any(self.buffers[access.buffer].role is Role.UPDATE for access in op.outputs):
            return None
        found = op_space(op, self.buffers)
        dims = self._dims_to_cut(op, found)
        if not dims:
            return self._sum_to_cut(op, found)
        choices = list(product(*(self._counts(op, found, d) for d in dims)))[:_MOST_CHOICES]
        for counts in sorted(choices, key=_order):
            cuts = tuple((d, count) for d, count in zip(dims, counts, strict=True) if count > 1)
            if self._is_legal(op, found, cuts):
                return cuts
        raise Untileable(self._no_cuts(op, found))

    def _dims_to_cut(self, op: Op, found: OpSpace) -> list[int]:
        """Dims of the result that move a tensor along a coordinate by which a core reaches too far, at most three."""
        reach: dict[int, int] = {}
        for tensor in self._watched(op, found):
            for place, coordinate in enumerate(tensor.coordinates):
                symbols = [term.symbol for term in coordinate.terms]
                bytes_ = _span(tensor, place, coordinate, [1] * len(found.dims))
                if bytes_ > self.limit and symbols and not any(op.dims[found.dims[s]].reduced for s in symbols):
                    for symbol in symbols:
                        reach[found.dims[symbol]] = max(reach.get(found.dims[symbol], 0), bytes_)
        furthest = sorted(reach, key=lambda d: -reach[d])[:_MOST_DIMS]
        return sorted(furthest)

    def _watched(self, op: Op, found: OpSpace) -> tuple[Tensor, ...]:
        return found.space.tensors if _sums(op) else found.space.writes

    def _counts(self, op: Op, found: OpSpace, dim: int) -> list[int]:
        """Even cuts that leave sticks whole: all, or the fewest, the most, and those around what is needed."""
        size = op.dims[dim].size
        lanes = found.space.symbols[found.dims.index(dim)].lanes
        least = 2 if _sums(op) else 1  # a sum keeps a dim along which its result moves
        able = [
            n
            for n in range(2, _MOST_TILES + 1)
            if size % n == 0 and (size // n) % lanes == 0 and size // n >= least * lanes
        ]
        if len(able) >= _MOST_COUNTS:
            widest = max(tensor.span([1] * len(found.dims)) for tensor in self._watched(op, found))
            needed = -(-widest // self.limit)
            near = sorted(able[1:-1], key=lambda n: (abs(n - needed), n))[: _MOST_COUNTS - 3]
            able = sorted({able[0], able[-1], *near})
        return [1, *able]

    def _is_legal(self, op: Op, found: OpSpace, cuts: Cuts) -> bool:
        splits = _splits(found, cuts)
        return all(span <= self.limit for span in self._spans(op, found, splits))

    def _spans(self, op: Op, found: OpSpace, splits: Sequence[int]) -> Iterator[int]:
        """What one core reaches along dims of the result: the first coordinate of each tensor in which it has several places."""
        for tensor in self._watched(op, found):
            for place, coordinate in enumerate(tensor.coordinates):
                if any(op.dims[found.dims[term.symbol]].reduced for term in coordinate.terms):
                    continue
                if coordinate.extent(splits) > 1:
                    yield _span(tensor, place, coordinate, splits)
                    break

    def _sum_to_cut(self, op: Op, found: OpSpace) -> Cuts | None:
        """Of a product that reaches too far along the summed dim alone, that one."""
        k = len(op.dims) - 1
        if TABLE[op.row].kind is not Kind.CONTRACTION or found.space.widest([1] * len(found.dims))[0] <= self.limit:
            return None
        for count in self._counts(op, found, k)[1:]:
            if found.space.widest(_splits(found, ((k, count),)))[0] <= self.limit:
                return ((k, count),)
        raise Untileable(self._no_cuts(op, found))

    def _no_cuts(self, op: Op, found: OpSpace) -> str:
        reach, name = found.space.widest([1] * len(found.dims))
        sizes = ", ".join(f"{dim.name} {dim.size}" for dim in op.dims)
        return (
            f"{op.name} ({op.row}): a core would reach {reach} bytes of {name!r}, the limit is {self.limit}, and no even tiles of "
            f"its dims ({sizes}), at most {_MOST_TILES} of each, keep within it; make the tensor smaller, or leave "
            "SPYRE_INDUCTOR_IGNORE_SPAN_OVERFLOW_HINTS at 1"
        )


def _span(tensor: Tensor, place: int, coordinate: Coordinate, splits: Sequence[int]) -> int:
    inner = prod(other.size for other in tensor.coordinates[place + 1 :])
    return coordinate.extent(splits) * inner * tensor.stick_bytes


def _splits(found: OpSpace, cuts: Cuts) -> list[int]:
    by_dim = dict(cuts)
    return [by_dim.get(d, 1) for d in found.dims]


def _sums(op: Op) -> bool:
    return TABLE[op.row].kind in _SUMS


def _order(counts: tuple[int, ...]) -> tuple[int, int, int, tuple[int, ...]]:
    return prod(counts), sum(count > 1 for count in counts), max(counts), counts


def _with_tiles(op: Op, cuts: Cuts, first: int) -> Member:
    return Member(op, tuple(Tile(first + level, d, count) for level, (d, count) in enumerate(cuts)))
