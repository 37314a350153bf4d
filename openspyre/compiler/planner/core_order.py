"""Which core has which slices: the planner and the bundle go by this one function."""

from __future__ import annotations

from functools import lru_cache
from math import prod


@lru_cache(maxsize=1024)
def core_slices(splits: tuple[int, ...], *, last_fastest: bool = False) -> tuple[tuple[int, ...], ...]:
    """The slices of each core. Those of the first dim go round fastest, or of the last: then neighbours add up a product's sums."""
    order = list(range(len(splits)))
    if last_fastest:
        order = [order[-1], *order[:-1]]
    found = []
    for core in range(prod(splits)):
        chosen, rest = [0] * len(splits), core
        for place in order:
            rest, chosen[place] = divmod(rest, splits[place])
        found.append(tuple(chosen))
    return tuple(found)
