"""Places temps in the program's pool: first fit by lifetime, so that temps that never live together share memory.

Bytes rest before another temp takes them, as long as there is room: a run of ops without a contraction may then be computed as one,
from what was there at its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from openspyre.compiler.ir import Buffer, InPool, InScratchpad, Program, Role
from openspyre.compiler.loops import lifetimes, listed
from openspyre.compiler.scratchpad.pool import planned_pool
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.ops import TABLE, Kind
from openspyre.spec.resting_pool import RESTING_BYTES, RESTING_PERCENT, Life, resting_pool


@dataclass(frozen=True, slots=True)
class PlaceBuffers:
    """`alignment` of every temp, in bytes. `shared`: those that never live together may have the same bytes. `documented`: as the documents
    plan a pool, in which no byte rests. Else as much may rest as `resting_percent` of the pool without rest, or `resting_bytes`."""

    alignment: int = STICK_BYTES
    resting_percent: int = RESTING_PERCENT
    resting_bytes: int = RESTING_BYTES
    shared: bool = True
    documented: bool = False

    def run(self, program: Program) -> Program:
        alive = lifetimes(program)
        first = {name: begin for name, (begin, _) in alive.items()}
        last = {name: end for name, (_, end) in alive.items()}
        # What begins as whatever lies there gets memory that nobody has written in this launch: else no one could tell.
        first |= {buffer.name: 0 for buffer in program.buffers if buffer.unset and buffer.name in first}
        temps = [buffer for buffer in program.buffers if _is_open(buffer) and buffer.name in first]
        ends = _ends_of_runs(program)
        lives = [Life(b.name, first[b.name], last[b.name], ends[last[b.name]], self._bytes(b)) for b in temps]
        if not self.shared:
            lives = [replace(life, first=0, last=len(ends), rests=len(ends)) for life in lives]
        if self.documented:
            places, pool_bytes = planned_pool([*_rewritten(program, lives), *lives])
        else:
            pool = resting_pool(lives, self.resting_percent, self.resting_bytes)
            places, pool_bytes = pool.places, pool.bytes
        return replace(
            program,
            buffers=tuple(
                replace(b, place=InPool(places[b.name])) if _is_open(b) else b
                for b in program.buffers
                if not _is_open(b) or b.name in places
            ),
            pool_bytes=pool_bytes,
        )

    def _bytes(self, buffer: Buffer) -> int:
        if buffer.layout is None:
            raise ValueError(f"temp {buffer.name!r} has no layout yet")
        return -(-buffer.layout.device_bytes // self.alignment) * self.alignment


def _rewritten(program: Program, lives: Sequence[Life]) -> Iterator[Life]:
    """In the documents' pool a tensor that several ops write into has room for what each of them leaves to the next."""
    writers: dict[str, list[int]] = {}
    for when, (op, _) in enumerate(listed(program.body)):
        for access in op.outputs:
            writers.setdefault(access.buffer, []).append(when)
    for life in lives:
        for first, last in pairwise(writers.get(life.name, [])):
            if first != last:
                yield replace(life, name=f"{life.name}.{first}", first=first, last=last)


def _is_open(buffer: Buffer) -> bool:
    """Whether its place is still to be found."""
    return buffer.role is Role.TEMP and not isinstance(buffer.place, InScratchpad)


def _ends_of_runs(program: Program) -> list[int]:
    """Of each op, the next contraction at or behind it: what comes before may become one step."""
    ops = [op for op, _ in listed(program.body)]
    ends = [len(ops)] * len(ops)
    for when in reversed(range(len(ops))):
        contracts = TABLE[ops[when].row].kind is Kind.CONTRACTION
        ends[when] = when if contracts or when + 1 == len(ops) else ends[when + 1]
    return ends
