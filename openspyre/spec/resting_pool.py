"""Bytes of one memory for many tensors, first fit by lifetime. Bytes rest before another tensor takes them, as long as there is room:
a run of ops without a contraction may then be computed as one, from what was there at its beginning."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

RESTING_PERCENT, RESTING_BYTES = 100, 1 << 20


@dataclass(frozen=True, slots=True)
class Life:
    """A temp, the ops that first and last touch it, the op until which it may rest, and its bytes."""

    name: str
    first: int
    last: int
    rests: int
    bytes: int


class RestingPool:
    """Temps are placed in the order of their first op. The bytes of those that died last rest, up to so many of them."""

    def __init__(self, resting: int) -> None:
        self.resting, self.bytes = resting, 0
        self.places: dict[str, int] = {}
        self._taken: list[tuple[int, int]] = []  # first byte and end of what lives or rests, in order

    def placed(self, lives: Sequence[Life]) -> RestingPool:
        alive: list[tuple[int, Life]] = []  # by their last op
        dead: deque[Life] = deque()
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


def resting_pool(lives: Sequence[Life], percent: int = RESTING_PERCENT, bytes_: int = RESTING_BYTES) -> RestingPool:
    """As much rests as so many percent of what is needed without rest, or so many bytes."""
    ordered = sorted(lives, key=lambda life: life.first)
    tight = RestingPool(0).placed(ordered)
    return RestingPool(max(bytes_, tight.bytes * percent // 100)).placed(ordered)
