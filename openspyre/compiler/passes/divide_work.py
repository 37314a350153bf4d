"""Divides each op over the cores: the default distribution of the documents.

Output dims in order of decreasing size take the largest divisor the remaining cores allow; then at most one reduced dim
does. Lane dims are counted in blocks, because a core works on whole sticks. Splits are even. Where a core would reach too far
into a tensor, the dims that take it furthest come first instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Buffer, Dim, Op, Program
from openspyre.compiler.loops import expanded
from openspyre.compiler.spans import positions, whole_positions, widest
from openspyre.compiler.structure import per_structure
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops import TABLE, Kind


@dataclass(frozen=True, slots=True)
class DivideWork:
    """`cores` to plan for, `split_reductions` whether a reduced dim may be divided (that changes bits: contract N9)."""

    cores: int = SPYRE.cores
    split_reductions: bool = False
    limit: int = SPYRE.max_span_bytes_per_core_and_tensor

    def run(self, program: Program) -> Program:
        buffers = {buffer.name: buffer for buffer in program.buffers}
        divided = per_structure(self._divided)
        return replace(program, body=expanded(program.body, lambda op: [_with_dims(op, divided(op, buffers))]))

    def _divided(self, op: Op, buffers: Mapping[str, Buffer]) -> tuple[Dim, ...]:
        splits = self.splits(op, buffers)
        return tuple(replace(dim, split=split) for dim, split in zip(op.dims, splits, strict=True))

    def splits(self, op: Op, buffers: Mapping[str, Buffer], *, last_resort: bool = True) -> list[int]:
        """Slices per dim; as a last resort a reduced dim is divided too (contract N9: it stands in the bundle)."""
        if TABLE[op.row].by_view and not TABLE[op.row].documented:
            return [1] * len(op.dims)
        counts = whole_positions(op, buffers) if op.row == "restickify" else positions(op, buffers)
        # Where outputs do not move, cores would meet in one place: the rows of a scatter.
        kept = [
            d for d, dim in enumerate(op.dims) if not dim.reduced and all(output.strides[d] for output in op.outputs)
        ]
        reduced = [d for d, dim in enumerate(op.dims) if dim.reduced] if self.split_reductions else []
        order = (*sorted(kept, key=lambda d: -counts[d]), *sorted(reduced, key=lambda d: -counts[d])[:1])
        splits = self._shares(counts, order)
        if any((b := buffers[a.buffer]).layout and b.layout.device_bytes > self.limit for a in op.accesses):
            reach, steps = widest(op, buffers, splits)
            if reach > self.limit:
                splits = self._shares(counts, sorted(kept, key=lambda d: -steps[d]))
                reach, steps = widest(op, buffers, splits)
            if reach > self.limit and last_resort and TABLE[op.row].kind in (Kind.REDUCTION, Kind.CONTRACTION):
                largest = sorted((d for d, dim in enumerate(op.dims) if dim.reduced), key=lambda d: -counts[d])[:1]
                splits = self._shares(counts, sorted([*kept, *largest], key=lambda d: -steps[d]))
        return splits

    def _shares(self, counts: list[int], order: tuple[int, ...] | list[int]) -> list[int]:
        splits, left = [1] * len(counts), self.cores
        for d in order:
            splits[d] = _largest_divisor(counts[d], left)
            left //= splits[d]
        return splits


def _with_dims(op: Op, dims: tuple[Dim, ...]) -> Op:
    return Op(op.name, op.row, dims, op.inputs, op.outputs, op.attributes, op.origin)


def _largest_divisor(count: int, limit: int) -> int:
    return next((n for n in range(min(count, limit), 1, -1) if count % n == 0), 1)
