"""Divides each op over the cores: the default distribution of the documents.

Output dims in order of decreasing size take the largest divisor the remaining cores allow; then at most one reduced dim
does. Lane dims are counted in blocks, because a core works on whole sticks. Splits are even.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.compiler.ir import Op, Program
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops import TABLE


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
        counts = [dim.size for dim in op.dims]
        for access in op.accesses:
            buffer = program.buffer(access.buffer)
            found = stick_access(access, op.dims, buffer)
            if isinstance(found, StickAccess) and found.lane_dim is not None and buffer.layout is not None:
                lanes = buffer.layout.elems_per_stick()
                counts[found.lane_dim] = min(counts[found.lane_dim], -(-op.dims[found.lane_dim].size // lanes))
        splits, left = [1] * len(counts), self.cores
        # Where outputs do not move, cores would meet in one place: the rows of a scatter.
        kept = [
            d for d, dim in enumerate(op.dims) if not dim.reduced and all(output.strides[d] for output in op.outputs)
        ]
        reduced = [d for d, dim in enumerate(op.dims) if dim.reduced] if self.split_reductions else []
        for d in (*sorted(kept, key=lambda d: -counts[d]), *sorted(reduced, key=lambda d: -counts[d])[:1]):
            splits[d] = _largest_divisor(counts[d], left)
            left //= splits[d]
        return replace(op, dims=tuple(replace(dim, split=split) for dim, split in zip(op.dims, splits, strict=True)))


def _largest_divisor(count: int, limit: int) -> int:
    return next((n for n in range(min(count, limit), 1, -1) if count % n == 0), 1)
