"""Scratch memory as values: what was written together, or is read together, is one; others may lie in the same bytes later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from openspyre.backend.fusion.memory import Listed, Touch, adds, in_memory
from openspyre.backend.fusion.stick_map import StickMap, Sticks, sticks_of
from openspyre.program.model import Contract, Gather, Operand, Relayout, Scatter
from openspyre.program.reach import itemsize, pieces
from openspyre.program.relayout_nest import elements_of
from openspyre.spec.formats import STICK_BYTES

_MOST_RUNS = 1 << 22  # of sticks, by all accesses: beyond, looking takes longer than it saves


class Home(NamedTuple):
    """Where a value lies: a scratch symbol, and its first byte there."""

    symbol: int
    begin: int


@dataclass(frozen=True, slots=True)
class Values:
    """Symbols of each step's inputs and outputs, values having numbers behind those of the program; and the values' homes."""

    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    homes: dict[int, Home]


def values_of(steps: Sequence[Listed], symbols: int, scratch: frozenset[int]) -> Values | None:
    """The values in the scratch symbols among so many; None if there is too much to look at."""
    accesses = _accesses(steps, scratch)
    if accesses is None:
        return None
    return _Numbering(steps, symbols, scratch, accesses).values()


Shapes = dict[tuple[object, ...], tuple[Sticks, ...]]
Accesses = list[list[tuple[Sticks, ...]]]  # of each step's inputs, then outputs; empty for what is no scratch memory


def _accesses(steps: Sequence[Listed], scratch: frozenset[int]) -> Accesses | None:
    found: Accesses = []
    shapes: Shapes = {}
    runs = 0
    for step in steps:
        here: list[tuple[Sticks, ...]] = []
        for output, operands in ((False, step.inputs), (True, step.outputs)):
            for place, operand in enumerate(operands):
                here.append(_sticks(step, place, operand, output, shapes) if lies_in(operand, scratch) else ())
                runs += sum(sticks.runs for sticks in here[-1])
                if runs > _MOST_RUNS or any(sticks.first < 0 for sticks in here[-1]):
                    return None
        found.append(here)
    return found


def lies_in(operand: Operand, symbols: frozenset[int]) -> bool:
    return in_memory(operand) and operand.symbol in symbols


def _sticks(step: Listed, place: int, operand: Operand, output: bool, shapes: Shapes) -> tuple[Sticks, ...]:
    """Steps made from one description share their dims: they touch alike, if elsewhere."""
    size = itemsize(operand.data_format)
    sticks, within = divmod(operand.offset * size, STICK_BYTES)
    key = _shape(step, place, operand, output, within)
    known = None if key is None else shapes.get(key)
    if known is None:
        exact = not output or writes_all(step)
        touched = pieces(step, place, output=output)
        known = tuple([sticks_of(piece, within, size, exact=exact) for piece in touched])
        if key is not None:
            shapes[key] = known
    return tuple([Sticks(s.first + sticks, s.grid, s.run, s.low, s.high, s.exact) for s in known])


def _shape(step: Listed, place: int, operand: Operand, output: bool, within: int) -> tuple[object, ...] | None:
    """What decides which elements a step touches; None: nothing that others would share."""
    own: tuple[object, ...] = ()
    match step:
        case Relayout():
            return None
        case Contract():
            own = (place, step.k_extent, step.k_lanes, step.b_row_stride, step.b_along_k)
        case Gather() | Scatter():
            own = (place, step.index_stride, step.index_bound)
        case Touch():
            own = (step.exact,)
    shape = (operand.kind, operand.strides, operand.tile_stride, operand.data_format)
    return (type(step), id(step.dims), id(step.lane), output, own, shape, within)


def writes_all(step: Listed) -> bool:
    """Whether a step writes all that it touches: an index may leave some out, and a relayout all but a part."""
    match step:
        case Scatter():
            return False
        case Relayout(target=target):
            return prod(target.size) == prod(target.buffer_size) or elements_of(target) is not None
        case Touch(exact=exact):
            return exact
    return True


class _Numbering:
    """Writes joined into values by who reads them together."""

    def __init__(self, steps: Sequence[Listed], symbols: int, scratch: frozenset[int], accesses: Accesses) -> None:
        self.steps, self.symbols, self.scratch, self.accesses = steps, symbols, scratch, accesses
        self.joined: dict[
            tuple[int, int], tuple[int, int]
        ] = {}  # a write, by symbol and number -> another of its value

    def values(self) -> Values:
        maps = {symbol: StickMap(self._touching(symbol)) for symbol in self.scratch}
        found: list[list[tuple[int, int] | None]] = []  # per operand a write of its value
        for step, here in zip(self.steps, self.accesses, strict=True):
            operands = (*step.inputs, *step.outputs)
            row: list[tuple[int, int] | None] = []
            for place, (operand, access) in enumerate(zip(operands, here, strict=True)):
                if not access:
                    row.append(None)
                    continue
                known, symbol = maps[operand.symbol], operand.symbol
                reads, writes = place < len(step.inputs), place >= len(step.inputs)
                numbers = {n for sticks in access for n in known.writers(sticks)} if reads or adds(step) else set()
                made = [known.write(sticks) for sticks in access] if writes else []
                row.append(self._join(symbol, [*sorted(numbers), *made]))
            found.append(row)
        return self._numbered(found)

    def _touching(self, symbol: int) -> set[Sticks]:
        return {
            sticks
            for step, here in zip(self.steps, self.accesses, strict=True)
            for operand, access in zip((*step.inputs, *step.outputs), here, strict=True)
            for sticks in access
            if operand.symbol == symbol
        }

    def _join(self, symbol: int, writes: Sequence[int]) -> tuple[int, int] | None:
        if not writes:
            return None
        first = self._root((symbol, writes[0]))
        for number in writes[1:]:
            self.joined[self._root((symbol, number))] = first
            first = self._root(first)
        return first

    def _root(self, write: tuple[int, int]) -> tuple[int, int]:
        while (other := self.joined.get(write, write)) != write:
            write = other
        return write

    def _numbered(self, found: list[list[tuple[int, int] | None]]) -> Values:
        """What nobody wrote keeps the symbol of its memory."""
        numbers: dict[tuple[int, int], int] = {}
        begins: dict[int, Home] = {}
        inputs, outputs = [], []
        for step, row, here in zip(self.steps, found, self.accesses, strict=True):
            operands, chosen = (*step.inputs, *step.outputs), []
            for operand, write, access in zip(operands, row, here, strict=True):
                if write is None:
                    chosen.append(operand.symbol)
                    continue
                value = numbers.setdefault(self._root(write), self.symbols + len(numbers))
                begin = min(_first(sticks) for sticks in access) * STICK_BYTES
                begin = min(begin, begins[value].begin) if value in begins else begin
                begins[value] = Home(operand.symbol, begin)
                chosen.append(value)
            inputs.append(tuple(chosen[: len(step.inputs)]))
            outputs.append(tuple(chosen[len(step.inputs) :]))
        return Values(tuple(inputs), tuple(outputs), begins)


def _first(sticks: Sticks) -> int:
    return sticks.first + sum(min(0, (count - 1) * stride) for count, stride in sticks.grid)
