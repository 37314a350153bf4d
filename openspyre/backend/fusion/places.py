"""Temps in the pool again, after fusion has made some needless: first fit by lifetime."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.memory import itemsize, touched
from openspyre.program.model import Operand, Step, View
from openspyre.spec.formats import STICK_BYTES


def placed(steps: tuple[Step, ...], arguments: int, sizes: dict[int, int]) -> tuple[tuple[Step, ...], int]:
    """Steps whose temps are places of the pool, the symbol behind the arguments; and the pool's bytes."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for when, step in enumerate(steps):
        spans = touched(step)
        for span in (*spans.reads, *spans.writes):
            if span.symbol >= arguments:
                first.setdefault(span.symbol, when)
                last[span.symbol] = when
    places: dict[int, int] = {}
    for symbol in first:
        busy = [(places[t], sizes[t]) for t in places if last[t] >= first[symbol]]
        places[symbol] = _gap(busy, sizes[symbol])
    pool_bytes = max((places[symbol] + _whole_sticks(sizes[symbol]) for symbol in places), default=0)
    return tuple(_moved(step, arguments, places) for step in steps), pool_bytes


def _whole_sticks(size: int) -> int:
    return -(-size // STICK_BYTES) * STICK_BYTES


def _gap(busy: list[tuple[int, int]], size: int) -> int:
    start = 0
    for place, taken in sorted(busy):
        if start + _whole_sticks(size) <= place:
            break
        start = max(start, place + _whole_sticks(taken))
    return start


def _moved(step: Step, pool: int, places: dict[int, int]) -> Step:
    def operand_in_pool(operand: Operand) -> Operand:
        if operand.symbol not in places or operand.kind in ("iota", "scalar"):
            return operand
        begin = places[operand.symbol] // itemsize(operand.data_format)
        return replace(operand, symbol=pool, offset=operand.offset + begin)

    def view_in_pool(view: View) -> View:
        return replace(view, symbol=pool) if view.symbol in places else view

    return replace(
        step,
        inputs=tuple(map(operand_in_pool, step.inputs)),
        outputs=tuple(map(operand_in_pool, step.outputs)),
        views=tuple(map(view_in_pool, step.views)),
    )
