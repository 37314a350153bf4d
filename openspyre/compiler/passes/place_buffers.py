"""Places temps in the program's pool: first fit by lifetime, so that temps that never live together share memory.

Bytes are left alone for some ops before another temp takes them: what was in them can then be computed later, by whoever reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.compiler.ir import Buffer, Program, Role
from openspyre.spec.formats import STICK_BYTES


@dataclass(frozen=True, slots=True)
class PlaceBuffers:
    """`alignment` of every temp, in bytes. Bytes rest for `rest` ops, unless the pool then has more than `roomy_bytes`."""

    alignment: int = STICK_BYTES
    rest: int = 16
    roomy_bytes: int = 1 << 30

    def run(self, program: Program) -> Program:
        placed = self._placed(program, self.rest)
        return placed if placed.pool_bytes <= self.roomy_bytes or not self.rest else self._placed(program, 0)

    def _placed(self, program: Program, rest: int) -> Program:
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for when, op in enumerate(program.ops):
            for access in op.accesses:
                first.setdefault(access.buffer, when)
                last[access.buffer] = when
        # What begins as whatever lies there gets memory that nobody has written in this launch: else no one could tell.
        first |= {buffer.name: 0 for buffer in program.buffers if buffer.unset and buffer.name in first}
        placed: list[Buffer] = []
        alive: list[Buffer] = []
        temps = [buffer for buffer in program.buffers if buffer.role is Role.TEMP and buffer.name in first]
        for buffer in sorted(temps, key=lambda b: first[b.name]):
            alive = [other for other in alive if last[other.name] + rest >= first[buffer.name]]
            alive.append(replace(buffer, place=self._gap(alive, self._bytes(buffer))))
            placed.append(alive[-1])
        by_name = {buffer.name: buffer for buffer in placed}
        return replace(
            program,
            buffers=tuple(
                by_name.get(b.name, b) for b in program.buffers if b.role is not Role.TEMP or b.name in by_name
            ),
            pool_bytes=max((b.place + self._bytes(b) for b in placed if b.place is not None), default=0),
        )

    def _bytes(self, buffer: Buffer) -> int:
        if buffer.layout is None:
            raise ValueError(f"temp {buffer.name!r} has no layout yet")
        return -(-buffer.layout.device_bytes // self.alignment) * self.alignment

    def _gap(self, busy: list[Buffer], needed: int) -> int:
        start = 0
        for buffer in sorted(busy, key=lambda b: b.place or 0):
            place = buffer.place or 0
            if start + needed <= place:
                break
            start = max(start, place + self._bytes(buffer))
        return start
