"""Temps in the pool again, after fusion has made some needless: first fit by lifetime."""

from __future__ import annotations

from collections.abc import Sequence

from openspyre.backend.fusion.forms import Bound
from openspyre.program.model import Step
from openspyre.spec.formats import STICK_BYTES


def placed(steps: Sequence[Bound], arguments: int, sizes: dict[int, int]) -> tuple[tuple[Step, ...], int]:
    """Steps whose temps are places of the pool, the symbol behind the arguments; and the pool's bytes."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for when, step in enumerate(steps):
        for span in (*step.reads, *step.writes):
            if span.symbol >= arguments:
                first.setdefault(span.symbol, when)
                last[span.symbol] = when
    places: dict[int, int] = {}
    alive: list[int] = []
    for symbol in first:
        alive = [other for other in alive if last[other] >= first[symbol]]
        places[symbol] = _gap([(places[other], sizes[other]) for other in alive], sizes[symbol])
        alive.append(symbol)
    pool_bytes = max((places[symbol] + _whole_sticks(sizes[symbol]) for symbol in places), default=0)
    return tuple(step.step(arguments, places) for step in steps), pool_bytes


def _whole_sticks(size: int) -> int:
    return -(-size // STICK_BYTES) * STICK_BYTES


def _gap(busy: list[tuple[int, int]], size: int) -> int:
    start = 0
    for place, taken in sorted(busy):
        if start + _whole_sticks(size) <= place:
            break
        start = max(start, place + _whole_sticks(taken))
    return start
