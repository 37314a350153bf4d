"""Drops ops whose results nobody reads, and buffers nobody touches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Op, Program, Role


@dataclass(frozen=True, slots=True)
class DropDead:
    """No options."""

    def run(self, program: Program) -> Program:
        wanted = {buffer.name for buffer in program.buffers if buffer.role not in (Role.TEMP, Role.CONSTANT)}
        touched = set(wanted)
        kept: list[Op] = []
        for op in reversed(program.ops):
            if any(output.buffer in wanted for output in op.outputs):
                kept.append(op)
                wanted |= {operand.buffer for operand in op.inputs if isinstance(operand, Access)}
                touched |= {access.buffer for access in op.accesses}
        return replace(
            program,
            body=tuple(reversed(kept)),
            buffers=tuple(buffer for buffer in program.buffers if buffer.name in touched),
        )
