"""`torch.spyre.counters()`: what was launched, moved, computed, compiled. Counted always; the work is in reading it.

The same numbers that `openspyre smi` shows of this process from outside, which a reset here does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from threading import Lock

from openspyre.card import counters as card_counters
from openspyre.spec.counters import CardReading, Reading, StreamCounts


@dataclass(frozen=True, slots=True)
class StreamCounters(Mapping[str, int]):
    """Counts of one stream, or of several together; also by name, as a dictionary has them."""

    launches: int
    steps: int
    macs: int
    memory_read_bytes: int
    memory_written_bytes: int
    scratchpad_read_bytes: int
    scratchpad_written_bytes: int
    ring_bytes: int
    to_card_bytes: int
    from_card_bytes: int
    within_bytes: int
    copies_to_card: int
    copies_from_card: int
    copies_within: int
    relayouts: int
    extension_ops: int
    fallbacks: int
    queue_depth: int
    predicted_ns: int
    array_ns: int

    def __getitem__(self, name: str) -> int:
        if name not in _NAMES[type(self)]:
            raise KeyError(name)
        return int(getattr(self, name))

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES[type(self)])

    def __len__(self) -> int:
        return len(_NAMES[type(self)])

    @property
    def pt_utilisation(self) -> float:
        """Share of the time a real card would be busy that its PT arrays would need for the products at their best."""
        return self.array_ns / self.predicted_ns if self.predicted_ns else 0.0

    @property
    def memory_bytes_per_second(self) -> float:
        """What a real card would read and write, on average while it is busy."""
        moved = self.memory_read_bytes + self.memory_written_bytes
        return moved / self.predicted_ns * 1e9 if self.predicted_ns else 0.0


@dataclass(frozen=True, slots=True)
class CardCounters(StreamCounters):
    """Counts of one card; `streams` are those that were ever used."""

    streams: Mapping[int, StreamCounters]


@dataclass(frozen=True, slots=True)
class Counters(StreamCounters):
    """Counts of this process; `cards` are those that were used, by index."""

    plan_hits: int
    plan_misses: int
    compiles: int
    text_cache_hits: int
    retiled_weights: int
    cards: Mapping[int, CardCounters]


_NAMES: dict[type, tuple[str, ...]] = {
    of: tuple(row.name for row in fields(of) if row.name not in ("streams", "cards"))
    for of in (StreamCounters, CardCounters, Counters)
}
_lock = Lock()
_before: Reading | None = None  # where counting began anew


def counters() -> Counters:
    """All counts since the process began or `reset_counters()`."""
    now = card_counters.reading()
    with _lock:
        now = now if _before is None else card_counters.since(now, _before)
    process, total = now.process, now.total()
    misses = process.eager_compiles + process.graph_plans
    compiled = {
        "plan_hits": max(0, total.launches - misses),  # launches whose program was at hand
        "plan_misses": misses,
        "compiles": process.eager_compiles + process.graph_compiles,
        "text_cache_hits": process.text_cache_hits,
        "retiled_weights": process.retiled_weights,
    }
    return Counters(**_words(total), **compiled, cards={card.index: _card(card) for card in now.cards})


def reset_counters() -> None:
    """Start counting anew; queues and memory stay what they are."""
    global _before
    with _lock:
        _before = card_counters.reading()


def _card(card: CardReading) -> CardCounters:
    streams = {number: StreamCounters(**_words(counts)) for number, counts in card.streams.items()}
    return CardCounters(**_words(card.total()), streams=streams)


def _words(counts: StreamCounts) -> dict[str, int]:
    found = {name: getattr(counts, name) for name in _NAMES[StreamCounters]}
    return found | {"relayouts": counts.relayouts + counts.relayout_copies}
