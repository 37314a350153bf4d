"""Who last wrote each stick of a scratch memory: what a step reads there, somebody wrote."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openspyre.program.reach import Piece
from openspyre.spec.formats import STICK_BYTES

Indices = slice | npt.NDArray[np.int64]


class Sticks(NamedTuple):
    """Runs of sticks, the bytes [low, high) of each. Not `exact`: any of these bytes, and maybe none."""

    first: int
    grid: tuple[tuple[int, int], ...]
    run: int
    low: int = 0
    high: int = STICK_BYTES
    exact: bool = True

    @property
    def runs(self) -> int:
        return prod(count for count, _ in self.grid)

    def starts(self) -> npt.NDArray[np.int64]:
        """The first stick of every run."""
        found = np.array([self.first])
        for count, stride in self.grid:
            found = (found[None, :] + (np.arange(count) * stride)[:, None]).reshape(-1)
        return found


def sticks_of(piece: Piece, begin: int, size: int, *, exact: bool = True) -> Sticks:
    """A piece of an operand whose elements of `size` bytes begin at byte `begin`, counted in sticks."""
    first, run = begin + piece.first * size, piece.run * size
    run, grid = _joined(run, [(count, stride * size) for count, stride in piece.grid])
    whole = all(stride % STICK_BYTES == 0 for _, stride in grid)
    low = first % STICK_BYTES
    if whole and low == 0 and run % STICK_BYTES == 0:
        return Sticks(first // STICK_BYTES, _in_sticks(grid), run // STICK_BYTES, exact=exact)
    if whole and low + run <= STICK_BYTES:
        sticks, rest = _joined(STICK_BYTES, grid)
        return Sticks(first // STICK_BYTES, _in_sticks(rest), sticks // STICK_BYTES, low, low + run, exact)
    least = first + sum(min(0, (count - 1) * stride) for count, stride in grid)
    most = first + sum(max(0, (count - 1) * stride) for count, stride in grid) + run
    begins = least // STICK_BYTES
    return Sticks(begins, (), -(-most // STICK_BYTES) - begins, exact=False)


def _joined(run: int, grid: Sequence[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
    """Runs that follow each other are one."""
    left = sorted((pair for pair in grid if pair[0] > 1 and pair[1]), key=lambda pair: abs(pair[1]))
    while left and left[0][1] == run:
        run *= left.pop(0)[0]
    return run, left


def _in_sticks(grid: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple((count, stride // STICK_BYTES) for count, stride in grid)


@dataclass(frozen=True, slots=True)
class _Write:
    """`under`: who had written there before, as far as this write leaves some of it."""

    low: int
    high: int
    exact: bool
    under: frozenset[int] = frozenset()


class StickMap:
    """Writes are numbered in their order. Memory is cut wherever a run of any access begins or ends."""

    def __init__(self, accesses: Collection[Sticks]) -> None:
        found = [access.starts() for access in accesses for _ in range(2)]
        for access, ends in zip(accesses, found[1::2], strict=True):
            ends += access.run
        edges = np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)
        self._edges = edges[np.diff(edges, prepend=-1) > 0]
        self._last = np.full(len(self._edges), -1, np.int32)
        self._writes: list[_Write] = []
        self._known: dict[Sticks, Indices] = {}  # layers use the same places, one after the other

    def write(self, access: Sticks) -> int:
        """The number of a write."""
        where = self._indices(access)
        leaves = not access.exact or access.high - access.low < STICK_BYTES
        self._writes.append(
            _Write(access.low, access.high, access.exact, self._found(where) if leaves else frozenset())
        )
        self._last[where] = len(self._writes) - 1
        return len(self._writes) - 1

    def writers(self, access: Sticks) -> set[int]:
        """All writes of which some may be left in what is read now."""
        asked = list(self._found(self._indices(access)))
        seen, found = set(asked), set()
        while asked:
            number = asked.pop()
            write = self._writes[number]
            apart = write.high <= access.low or access.high <= write.low
            if not apart:
                found.add(number)
            if apart or not (write.exact and write.low <= access.low and access.high <= write.high):
                asked += write.under - seen
                seen |= write.under
        return found

    def _found(self, where: Indices) -> frozenset[int]:
        found = self._last[where]
        if not found.size:
            return frozenset()
        first = int(found.flat[0])
        if (found == first).all():
            return frozenset([first] if first >= 0 else ())
        ordered = np.sort(found, axis=None)
        return frozenset(ordered[np.diff(ordered, prepend=-1) > 0].tolist())  # -1: nobody

    def _indices(self, access: Sticks) -> Indices:
        found = self._known.get(access)
        if found is None:
            found = self._known[access] = self._searched(access)
        return found

    def _searched(self, access: Sticks) -> Indices:
        if not access.grid:
            first, end = self._edges.searchsorted((access.first, access.first + access.run)).tolist()
            return slice(first, end)
        starts = access.starts()
        begins = self._edges.searchsorted(starts)
        lengths = self._edges.searchsorted(starts + access.run) - begins
        behind = np.cumsum(lengths)
        return np.repeat(begins - behind + lengths, lengths) + np.arange(behind[-1])
