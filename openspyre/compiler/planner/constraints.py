"""What no division of an op may do: blocked symbols are not split further, pinned ones are split just so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from openspyre.compiler.planner.space import Space, SpaceKind, divisors
from openspyre.spec.errors import InvalidArgument

_MOST_RANKS_PER_CORE = 4


class Undividable(InvalidArgument):
    """No division keeps the rules."""


@dataclass(frozen=True, slots=True)
class Constraints:
    blocked: frozenset[int] = frozenset()
    pinned: dict[int, int] = field(default_factory=dict)


def constraints_of(space: Space, cores: int) -> Constraints:
    pinned: dict[int, int] = {}
    for symbol, split in _pins(space, cores):
        if pinned.setdefault(symbol, split) != split:
            raise Undividable(
                f"{space.op}: dim {space.symbols[symbol].name!r} would have to be split both {pinned[symbol]} and {split} "
                "ways by the rules of its kind"
            )
    return Constraints(frozenset(_blocked(space)), pinned)


def _blocked(space: Space) -> Iterator[int]:
    for number, symbol in enumerate(space.symbols):
        if (symbol.reduces and symbol.is_padded) or symbol.whole or not symbol.divisible:
            yield number


def _pins(space: Space, cores: int) -> Iterator[tuple[int, int]]:
    if space.kind is SpaceKind.TOPK:
        if space.searched is not None:
            yield space.searched, 1
        if space.ranks is not None:
            yield from _ranks(space, space.ranks, cores)
    if space.kind is SpaceKind.INDIRECT:
        yield from ((number, 1) for number in range(len(space.symbols)))


def _ranks(space: Space, ranks: int, cores: int) -> Iterator[tuple[int, int]]:
    count = space.symbols[ranks].size
    found = slices_of_ranks(count, cores)
    if found is None:
        raise Undividable(
            f"{space.op}: no even division of the {count} largest over {cores} cores leaves a core {_MOST_RANKS_PER_CORE} "
            f"or fewer; ask for a number of them with such a divisor, {-(-count // 4) * 4} for example"
        )
    if found > 1:
        yield ranks, found


def slices_of_ranks(count: int, cores: int) -> int | None:
    """A core finds four ranks at most: the fewest slices that leave no more to each, if there are any."""
    return next((n for n in divisors(count, cores) if count // n <= _MOST_RANKS_PER_CORE), None)
