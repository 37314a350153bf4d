"""Gives the dims of every op the user's names, from the tensors it reads on, so that hints can speak of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

from openspyre.compiler.hint_checks import check_hints
from openspyre.compiler.ir import Access, Buffer, NamedDim, Op, Program
from openspyre.compiler.named_dims import Parts, walked, written
from openspyre.spec.errors import HintWarning


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
        named = replace(program, body=Names(program).ops)
        check_hints(named.ops)
        return named


@dataclass(slots=True)
class Names:
    """Names on their way through a program: its `ops` with them, and those of every buffer."""

    program: Program
    ops: tuple[Op, ...] = ()
    by_buffer: dict[str, tuple[NamedDim, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        buffers = {buffer.name: buffer for buffer in self.program.buffers}
        self.by_buffer = {name: buffer.named for name, buffer in buffers.items()}
        self.ops = tuple([self._named(op, buffers) for op in self.program.ops])

    def _named(self, op: Op, buffers: dict[str, Buffer]) -> Op:
        """Outputs get the names of the dims that are written; where an op reads no named tensor, its output may have been given names."""
        parts = [(access, self._parts(op, access)) for access in op.accesses]
        for output in op.outputs:
            if not self.by_buffer[output.buffer]:
                self.by_buffer[output.buffer] = tuple(written(output, op.dims, parts, buffers[output.buffer]))
        names: dict[int, dict[str, None]] = {}
        for _, by_dim in parts:
            for d, found in by_dim.items():
                names.setdefault(d, {}).update(dict.fromkeys(part.name for part in found))
        return replace(op, dims=tuple(replace(dim, named=tuple(names.get(d, ()))) for d, dim in enumerate(op.dims)))

    def _parts(self, op: Op, access: Access) -> Parts:
        found = walked(access, op.dims, self.by_buffer[access.buffer])
        for named in found.partial if op.hints else ():
            warnings.warn(
                f"{op.name}: of the {named.size} elements of dim {named.name!r} of {access.buffer!r} it works on a part, which "
                "has not its name: hints cannot speak of it",
                HintWarning,
                stacklevel=2,
            )
        return found.parts
