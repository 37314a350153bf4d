"""Places temps in the program's pool: first fit by lifetime, so that temps that never live together share memory.

Bytes rest before another temp takes them, as long as there is room: a run of ops without a contraction may then be computed as one,
from what was there at its beginning.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Buffer, Program, Role
from openspyre.compiler.loops import lifetimes, listed
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.ops import TABLE, Kind


@dataclass(frozen=True, slots=True)
class PlaceBuffers:
    """`alignment` of every temp, in bytes. As much may rest as `resting_percent` of the pool without rest, or `resting_bytes`."""

    alignment: int = STICK_BYTES
    resting_percent: int = 100
    resting_bytes: int = 1 << 20

    def run(self, program: Program) -> Program:
        alive = lifetimes(program)
        first = {name: begin for name, (begin, _) in alive.items()}
        last = {name: end for name, (_, end) in alive.items()}
        # What begins as whatever lies there gets memory that nobody has written in this launch: else no one could tell.
        first |= {buffer.name: 0 for buffer in program.buffers if buffer.unset and buffer.name in first}
        temps = [buffer for buffer in program.buffers if buffer.role is Role.TEMP and buffer.name in first]
        ends = _ends_of_runs(program)
        lives = [_Life(b.name, first[b.name], last[b.name], ends[last[b.name]], self._bytes(b)) for b in temps]
        lives.sort(key=lambda life: life.first)
        tight = _Pool(0).placed(lives)
        resting = max(self.resting_bytes, tight.bytes * self.resting_percent // 100)
        pool = _Pool(resting).placed(lives)
        return replace(
            program,
            buffers=tuple(
                replace(b, place=pool.places[b.name]) if b.role is Role.TEMP else b
                for b in program.buffers
                if b.role is not Role.TEMP or b.name in pool.places
            ),
            pool_bytes=pool.bytes,
        )

    def _bytes(self, buffer: Buffer) -> int:
        if buffer.layout is None:
            raise ValueError(f"temp {buffer.name!r} has no layout yet")
        return -(-buffer.layout.device_bytes // self.alignment) * self.alignment


def _ends_of_runs(program: Program) -> list[int]:
    """Of each op, the next contraction at or behind it: what comes before may become one step."""
    ops = [op for op, _ in listed(program.body)]
    ends = [len(ops)] * len(ops)
    for when in reversed(range(len(ops))):
        contracts = TABLE[ops[when].row].kind is Kind.CONTRACTION
        ends[when] = when if contracts or when + 1 == len(ops) else ends[when + 1]
    return ends


@dataclass(frozen=True, slots=True)
class _Life:
    """A temp, the ops that first and last touch it, the op until which it may rest, and its bytes."""

    name: str
    first: int
    last: int
    rests: int
    bytes: int


class _Pool:
    """Temps are placed in the order of their first op. The bytes of those that died last rest, up to so many of them."""

    def __init__(self, resting: int) -> None:
        self.resting, self.bytes = resting, 0
        self.places: dict[str, int] = {}
        self._taken: list[tuple[int, int]] = []  # first byte and end of what lives or rests, in order

    def placed(self, lives: Sequence[_Life]) -> _Pool:
        alive: list[tuple[int, _Life]] = []  # by their last op
        dead: deque[_Life] = deque()
        rested = 0
        for life in lives:
            while alive and alive[0][0] < life.first:
                dead.append(alive.pop(0)[1])
                rested += dead[-1].bytes
            while dead and (rested > self.resting or dead[0].rests < life.first):
                gone = dead.popleft()
                rested -= gone.bytes
                self._taken.remove((self.places[gone.name], self.places[gone.name] + gone.bytes))
            place = self.places[life.name] = self._gap(life.bytes)
            insort(self._taken, (place, place + life.bytes))
            insort(alive, (life.last, life), key=lambda pair: pair[0])
            self.bytes = max(self.bytes, place + life.bytes)
        return self

    def _gap(self, needed: int) -> int:
        start = 0
        for place, end in self._taken:
            if start + needed <= place:
                break
            start = max(start, end)
        return start
