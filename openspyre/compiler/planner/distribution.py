"""Third pass, the default: the largest dims of the output take as many cores as divide them, then one dim that is summed."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from openspyre.compiler.planner.constraints import Constraints
from openspyre.compiler.planner.space import Space, Splits, largest_divisor

_log = logging.getLogger("spyre.compiler.planner")


def distribute(space: Space, constraints: Constraints, commits: Mapping[int, int], cores: int) -> Splits:
    chosen: dict[int, int] = {}
    left = cores
    for symbol, split in commits.items():
        if split > left:
            _log.critical(
                "%s: %d slices of dim %r do not fit %d cores", space.op, split, space.symbols[symbol].name, left
            )
            continue
        chosen[symbol] = split
        left //= split

    def free(symbols: tuple[int, ...]) -> list[int]:
        """Largest first, in iteration order where they are equal."""
        able = [s for s in symbols if s not in commits and s not in constraints.blocked]
        return sorted(able, key=lambda s: -space.symbols[s].units)

    for symbol in free(space.outputs):
        chosen[symbol] = largest_divisor(space.symbols[symbol].units, left)
        left //= chosen[symbol]
    # A committed sum bars every other one, even where it is pinned to be whole.
    if left > 1 and not any(space.symbols[symbol].reduces for symbol in commits):
        shares = [(largest_divisor(space.symbols[symbol].units, left), symbol) for symbol in free(space.reductions)]
        share, symbol = max(shares, key=lambda pair: pair[0], default=(1, -1))
        if share > 1:
            chosen[symbol] = share
    return space.splits(chosen)
