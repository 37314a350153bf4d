"""Divides each op over the cores: the default distribution of the documents.

Output dims in order of decreasing size take the largest divisor the remaining cores allow; then at most one reduced dim
does. Lane dims are counted in blocks, because a core works on whole sticks. Splits are even. Where a core would reach
too far in a tensor that way, the dims whose steps are widest go first, and as a last resort a reduced one is split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.compiler.ir import Op, Program
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops import TABLE
from openspyre.spec.ops.row import Kind

_LIMIT = SPYRE.max_span_bytes_per_core_and_tensor


@dataclass(frozen=True, slots=True)
class DivideWork:
    """`cores` to plan for, `split_reductions` whether a reduced dim may be divided (that changes bits: contract N9)."""

    cores: int = SPYRE.cores
    split_reductions: bool = False

    def run(self, program: Program) -> Program:
        return replace(program, ops=tuple(self._divide(program, op) for op in program.ops))

    def _divide(self, program: Program, op: Op) -> Op:
        if TABLE[op.row].by_view:
            return op
        counts, reaches = [dim.size for dim in op.dims], []
        for access in op.accesses:
            buffer = program.buffer(access.buffer)
            found = stick_access(access, op.dims, buffer)
            if not isinstance(found, StickAccess) or buffer.layout is None:
                continue
            own = [dim.size for dim in op.dims]
            if found.lane_dim is not None:
                own[found.lane_dim] = -(-own[found.lane_dim] // buffer.layout.elems_per_stick())
                counts[found.lane_dim] = min(counts[found.lane_dim], own[found.lane_dim])
            itemsize = SPYRE.stick_bytes // buffer.layout.elems_per_stick()
            reaches.append(_Reach(tuple(own), tuple(abs(stride) * itemsize for stride in found.strides)))
        splits = self._choose(op, counts, reaches)
        return replace(op, dims=tuple(replace(dim, split=split) for dim, split in zip(op.dims, splits, strict=True)))

    def _choose(self, op: Op, counts: list[int], reaches: list[_Reach]) -> list[int]:
        # Where outputs do not move, cores would meet in one place: the rows of a scatter.
        kept = [
            d for d, dim in enumerate(op.dims) if not dim.reduced and all(output.strides[d] for output in op.outputs)
        ]
        reduced = [d for d, dim in enumerate(op.dims) if dim.reduced]
        width = [max((reach.step_bytes[d] for reach in reaches), default=0) for d in range(len(counts))]
        by_size, by_width = (lambda d: -counts[d]), (lambda d: -width[d])
        largest = sorted(reduced, key=by_size)[:1]
        orders = [
            [*sorted(kept, key=by_size), *(largest if self.split_reductions else [])],
            sorted(kept, key=by_width),
        ]
        if TABLE[op.row].kind in (Kind.REDUCTION, Kind.CONTRACTION):
            orders.append(sorted([*kept, *largest], key=by_width))
        candidates = [_take_in_turn(order, counts, self.cores) for order in orders]
        near = (splits for splits in candidates if all(reach.span_bytes(splits) <= _LIMIT for reach in reaches))
        return next(near, candidates[0])


@dataclass(frozen=True, slots=True)
class _Reach:
    """Steps of an access along each dim, and how far apart they are."""

    steps: tuple[int, ...]
    step_bytes: tuple[int, ...]

    def span_bytes(self, splits: list[int]) -> int:
        ways = zip(self.steps, self.step_bytes, splits, strict=True)
        return SPYRE.stick_bytes + sum((-(-steps // split) - 1) * wide for steps, wide, split in ways)


def _take_in_turn(order: list[int], counts: list[int], cores: int) -> list[int]:
    splits = [1] * len(counts)
    for d in order:
        splits[d] = _largest_divisor(counts[d], cores)
        cores //= splits[d]
    return splits


def _largest_divisor(count: int, limit: int) -> int:
    return next((n for n in range(min(count, limit), 1, -1) if count % n == 0), 1)
