"""An op as the planner sees it: the symbols it iterates over, what of each can be divided, and where its tensors move with them.

Nothing of the IR is left in it, so that every rule can be tried on a space written down by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

Splits = tuple[int, ...]  # slices per symbol of a space


class SpaceKind(StrEnum):
    """What the rules tell apart."""

    PLAIN = "plain"  # pointwise, reductions, copies
    MATMUL = "matmul"  # the matrix unit's product in 16 bits: the cost model divides it
    TOPK = "topk"
    INDIRECT = "indirect"  # elements are found through an index


@dataclass(frozen=True, slots=True)
class Symbol:
    """A dim of the iteration space. `lanes`: elements of the largest stick that runs along it, 1 if none does."""

    name: str
    size: int
    lanes: int = 1
    reduces: bool = False  # the output moves along it in no way that cores could share out
    divisible: bool = True  # False: cores cannot share it out, whatever the rules say
    named: tuple[str, ...] = ()  # the user's names of what it walks through
    whole: bool = False  # to be divided only where a core would reach too far otherwise

    @property
    def units(self) -> int:
        """What is divided: whole sticks, where sticks run along it."""
        return -(-self.size // self.lanes)

    @property
    def is_stick(self) -> bool:
        return self.lanes > 1

    @property
    def is_padded(self) -> bool:
        return self.size % self.lanes != 0


@dataclass(frozen=True, slots=True)
class Term:
    """How a device coordinate moves with a symbol: it takes `positions` places, `step` apart."""

    symbol: int
    positions: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One device dim of a tensor: its size, and the symbols it moves with."""

    size: int
    terms: tuple[Term, ...] = ()

    def extent(self, splits: Sequence[int]) -> int:
        """Places that one core sees."""
        return 1 + sum(term.step * (-(-term.positions // splits[term.symbol]) - 1) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Tensor:
    """Device coordinates from the outermost to the innermost, without the stick's; `moves`: symbols the tensor varies with."""

    name: str
    coordinates: tuple[Coordinate, ...]
    moves: frozenset[int]
    stick_bytes: int = 128

    def span(self, splits: Sequence[int]) -> int:
        """Bytes one core spans: the first coordinate in which it has more than one place, with all that lies inside it."""
        for place, coordinate in enumerate(self.coordinates):
            extent = coordinate.extent(splits)
            if extent > 1:
                return extent * prod(inner.size for inner in self.coordinates[place + 1 :]) * self.stick_bytes
        return self.stick_bytes


@dataclass(frozen=True, slots=True)
class Space:
    """Symbols in iteration order (those of the output, then those only read), tensors read and tensors written."""

    op: str  # its name, for messages
    symbols: tuple[Symbol, ...]
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    kind: SpaceKind = SpaceKind.PLAIN
    write_strides: tuple[int, ...] = ()  # host elements the result moves by, per symbol
    searched: int | None = None  # topk: the symbol that is searched
    ranks: int | None = None  # topk: the symbol that counts the k largest

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.reads, *self.writes)

    @property
    def outputs(self) -> tuple[int, ...]:
        return tuple(s for s, symbol in enumerate(self.symbols) if not symbol.reduces)

    @property
    def reductions(self) -> tuple[int, ...]:
        return tuple(s for s, symbol in enumerate(self.symbols) if symbol.reduces)

    def splits(self, chosen: Mapping[int, int]) -> Splits:
        return tuple(chosen.get(s, 1) for s in range(len(self.symbols)))

    def widest(self, splits: Sequence[int]) -> tuple[int, str]:
        """The largest span of a tensor, and which tensor it is."""
        return max(((tensor.span(splits), tensor.name) for tensor in self.tensors), default=(0, ""))


def divisors(count: int, limit: int) -> list[int]:
    """Ascending, none beyond the limit."""
    return [n for n in range(1, min(count, limit) + 1) if count % n == 0]


def largest_divisor(count: int, limit: int) -> int:
    return divisors(count, limit)[-1] if count and limit else 1
