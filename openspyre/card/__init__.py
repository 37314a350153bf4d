"""The virtual card, for Python without torch: memory, streams, events, and arrays that live on it.

Nothing starts at import. The first use reads the environment's switches, unless `configure` was called before.
The torch half uses the same cards of the same process.
"""

from openspyre.card._card import Buffer, Card, Event, Stream, cards_started, in_bad_fork
from openspyre.card.arrays import DeviceArray, to_card
from openspyre.card.cards import configure, count, get, host_memory_bytes, synchronize, worker_threads

__all__ = [
    "Buffer",
    "Card",
    "DeviceArray",
    "Event",
    "Stream",
    "cards_started",
    "configure",
    "count",
    "get",
    "host_memory_bytes",
    "in_bad_fork",
    "synchronize",
    "to_card",
    "worker_threads",
]
