"""What this process has counted of its cards, whoever reads it; `openspyre smi` reads the same memory from outside."""

from __future__ import annotations

from typing import Literal

from openspyre.card import _card
from openspyre.spec.counters import CardCounts, CardReading, Head, ProcessCounts, Reading, StreamCounts, read


def reading() -> Reading:
    """All counts as they stand now; without cards as long as none is in use."""
    return read(_card.counters()) or Reading(Head(), ProcessCounts(), ())


def since(now: Reading, before: Reading) -> Reading:
    """What was counted after `before`."""
    known = {card.index: card for card in before.cards}
    nothing = CardReading(0, CardCounts(), {})
    return Reading(
        now.head,
        now.process.since(before.process),
        tuple(_card_since(card, known.get(card.index, nothing)) for card in now.cards),
    )


def _card_since(now: CardReading, before: CardReading) -> CardReading:
    streams = {
        number: counts.since(before.streams.get(number, StreamCounts())) for number, counts in now.streams.items()
    }
    return CardReading(now.index, now.own.since(before.own), streams)


def count(name: Literal["graph_compiles", "text_cache_hits", "retiled_weights"], times: int = 1) -> None:
    """One more of what Python counts."""
    for _ in range(times):
        _card.count(name)
