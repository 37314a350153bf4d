"""The card's allocator: the cost of a cached block, and what a long random life leaves behind."""

from __future__ import annotations

import random
from functools import cache

from bench.cases.creation import plain_empty
from bench.registry import ONE, case
from bench.timing import Effort, Measurement, Pair
from openspyre import card as cards

EVENTS = 100_000


@case(
    "allocate + free of {} cached bytes", asked=2.0, baseline="torch.empty(64)", threads=ONE, over=(128, 65536, 1 << 24)
)
def cached_block(size: int, effort: Effort) -> Pair:
    """The block of every round but the first comes from the cache."""
    card = cards.get()
    names = {"allocate": card.allocate, "size": size}
    return Pair("allocate(size).release()", "empty(64)", names, {"empty": plain_empty()})


def _random_size(source: random.Random) -> int:
    return int(2 ** source.uniform(6, 22))  # 64 B to 4 MiB, every magnitude equally often


@cache
def _random_life() -> dict[str, float]:
    """100,000 random allocations and frees around 512 live blocks: bytes and percentages of what they leave."""
    source, card = random.Random(2), cards.get()
    card.synchronize()
    card.empty_cache()
    card.reset_peak_memory()
    before = card.memory_statistics()
    live: list[object] = []
    for _ in range(EVENTS):
        if source.random() < len(live) / 1024:
            live.pop(source.randrange(len(live))).release()
        else:
            live.append(card.allocate(_random_size(source)))
    held = card.memory_statistics()
    for block in live:
        block.release()
    card.synchronize()
    after = card.memory_statistics()
    card.empty_cache()
    emptied = card.memory_statistics()

    def spare(statistics: dict, which: str) -> float:
        allocated, reserved = (statistics[name][which] for name in ("allocated_bytes", "reserved_bytes"))
        return 100 * (1 - allocated / reserved)

    return {
        "leak": after["allocated_bytes"]["current"] - before["allocated_bytes"]["current"],
        "pages": emptied["reserved_bytes"]["current"] - before["reserved_bytes"]["current"],
        "scattered": 100 * (1 - after["largest_free_block"] / after["free_bytes"]),
        "peak": spare(held, "peak"),
    }


def _exactly(value: float) -> Measurement:
    return Measurement(value, value, value, rounds=1)


@case("leak after 100,000 random allocations", asked=0, goal=0, unit="bytes", baseline="before", threads=ONE)
def leaked(effort: Effort) -> Measurement:
    """Bytes handed out and never taken back."""
    return _exactly(_random_life()["leak"])


@case("host pages kept after that, cache emptied", asked=0, goal=0, unit="bytes", baseline="before", threads=ONE)
def pages_kept(effort: Effort) -> Measurement:
    """Committed host memory that the emptied cache did not give back."""
    return _exactly(_random_life()["pages"])


@case("free memory outside its largest block, after", asked=10, goal=0, unit="%", baseline="of it", threads=ONE)
def scattered(effort: Effort) -> Measurement:
    """How far the card's free memory has been cut into pieces."""
    return _exactly(_random_life()["scattered"])


@case("reserved but not allocated, at the peak", asked=10, unit="%", baseline="reserved", threads=ONE)
def reserved_in_vain(effort: Effort) -> Measurement:
    """Host memory that fragmentation costs while the card is fullest."""
    return _exactly(_random_life()["peak"])
