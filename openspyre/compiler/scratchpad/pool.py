"""The pool of a bundle as the documents plan it: a free list, first block that is large enough, no merging."""

from __future__ import annotations

from collections.abc import Iterable

from openspyre.spec.resting_pool import Life


def planned_pool(lives: Iterable[Life]) -> tuple[dict[str, int], int]:
    """The first byte of each, and how many there are in all."""
    places: dict[str, int] = {}
    free: list[tuple[int, int]] = []  # first byte and bytes
    living: list[Life] = []
    extent = 0
    for life in sorted(lives, key=lambda life: (life.first, life.last, life.name)):
        free += [(places[other.name], other.bytes) for other in living if other.last < life.first]
        living = [other for other in living if other.last >= life.first]
        found = next((block for block in free if block[1] >= life.bytes), None)
        if found is None:
            places[life.name], extent = extent, extent + life.bytes
        else:
            free.remove(found)
            places[life.name] = found[0]
            if found[1] > life.bytes:
                free.append((found[0] + life.bytes, found[1] - life.bytes))
        living.append(life)
    return places, extent
