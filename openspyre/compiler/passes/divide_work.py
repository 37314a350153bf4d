"""Divides each op over the cores, by the planner's rules: `openspyre/compiler/planner`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from openspyre.compiler.hints import asked_division
from openspyre.compiler.ir import Buffer, Dim, Op, Program
from openspyre.compiler.loops import expanded
from openspyre.compiler.planner import documented
from openspyre.compiler.planner.op_space import op_space
from openspyre.compiler.planner.span_reduction import check_spans
from openspyre.compiler.spans import widest
from openspyre.compiler.structure import per_structure
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops import TABLE


@dataclass(frozen=True, slots=True)
class DivideWork:
    """`cores` to plan for, `limit` in bytes of a tensor that one core may reach."""

    cores: int = SPYRE.cores
    limit: int = SPYRE.max_span_bytes_per_core_and_tensor

    def run(self, program: Program) -> Program:
        buffers = {buffer.name: buffer for buffer in program.buffers}
        divided = per_structure(self._divided)
        return replace(program, body=expanded(program.body, lambda op: [_with_dims(op, divided(op, buffers))]))

    def _divided(self, op: Op, buffers: Mapping[str, Buffer]) -> tuple[Dim, ...]:
        splits = self.splits(op, buffers)
        if widest(op, buffers, splits)[0] > self.limit:
            found = op_space(op, buffers)
            check_spans(found.space, tuple(splits[d] for d in found.dims), self.limit)
        return tuple(replace(dim, split=split) for dim, split in zip(op.dims, splits, strict=True))

    def splits(self, op: Op, buffers: Mapping[str, Buffer]) -> list[int]:
        """Slices per dim."""
        splits = [1] * len(op.dims)
        if TABLE[op.row].by_view and not TABLE[op.row].documented:
            return splits
        found = op_space(op, buffers)
        divided = documented.divide(found.space, self.cores, self.limit, asked_division(op))
        for d, split in zip(found.dims, divided, strict=True):
            splits[d] = split
        return splits


def _with_dims(op: Op, dims: tuple[Dim, ...]) -> Op:
    return Op(op.name, op.row, dims, op.inputs, op.outputs, op.attributes, op.origin, op.hints)
