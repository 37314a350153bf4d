"""Gives the dims of every op the user's names, from the tensors it reads on, so that hints can speak of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Buffer, NamedDim, Op, Program
from openspyre.compiler.named_dims import Parts, walked, written

Named = Mapping[str, tuple[NamedDim, ...]]


@dataclass(frozen=True, slots=True)
class NameDims:
    """`ignored`: names and hints are dropped."""

    ignored: bool = False

    def run(self, program: Program) -> Program:
        if not any(buffer.named for buffer in program.buffers) and not any(op.hints for op in program.ops):
            return program
        if self.ignored:
            plain = tuple(replace(buffer, named=()) for buffer in program.buffers)
            return replace(program, buffers=plain, body=tuple(replace(op, hints=()) for op in program.ops))
        buffers = {buffer.name: buffer for buffer in program.buffers}
        named = {name: buffer.named for name, buffer in buffers.items()}
        return replace(program, body=tuple(_name(op, buffers, named) for op in program.ops))


def _name(op: Op, buffers: Mapping[str, Buffer], named: dict[str, tuple[NamedDim, ...]]) -> Op:
    """Outputs get the names of the dims that are written; where an op reads no named tensor, its output may have been given names."""
    parts = _parts(op, op.accesses, named)
    for output in op.outputs:
        if not named[output.buffer]:
            named[output.buffer] = tuple(written(output, op.dims, parts, buffers[output.buffer]))
    names: dict[int, dict[str, None]] = {}
    for _, by_dim in parts:
        for d, found in by_dim.items():
            names.setdefault(d, {}).update(dict.fromkeys(part.name for part in found))
    return replace(op, dims=tuple(replace(dim, named=tuple(names.get(d, ()))) for d, dim in enumerate(op.dims)))


def _parts(op: Op, accesses: tuple[Access, ...], named: Named) -> list[tuple[Access, Parts]]:
    return [(access, walked(access, op.dims, named[access.buffer]).parts) for access in accesses]
