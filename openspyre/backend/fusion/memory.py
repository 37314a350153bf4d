"""Which bytes a step touches, and which of them may be the same memory: what decides whether a step may be moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from openspyre.program.model import LoopNest, Operand, Relayout, Scatter, Space, Step, Use
from openspyre.program.reach import bounds, itemsize, lanes_of, pieces
from openspyre.spec.formats import STICK_BYTES


class Span(NamedTuple):
    """Bytes of a symbol or value that an operand stays within, and where they lie: in `home`, from byte `begin` on.

    Of every stick it touches at most the bytes [low, high): results per row may share their sticks.
    """

    symbol: int
    first: int
    end: int
    low: int = 0
    high: int = STICK_BYTES
    home: int = -1
    begin: int = 0

    def at(self, symbol: int, home: int, begin: int) -> Span:
        """The same bytes of another symbol; homes begin at whole sticks."""
        return Span(symbol, self.first, self.end, self.low, self.high, home, begin)


@dataclass(frozen=True, slots=True)
class Memory:
    """What the launch gives the program: `uses` of its symbols. Numbers behind them are values in scratch memory."""

    uses: tuple[Use, ...]

    def is_temp(self, symbol: int) -> bool:
        """Whether nobody looks at it after the launch."""
        return symbol >= len(self.uses) or self.uses[symbol] is Use.SCRATCH

    def is_alone(self, symbol: int) -> bool:
        """Whether no other symbol can be the same memory, nor hold the same value."""
        return self.is_temp(symbol) or self.uses[symbol] is Use.FRESH

    def flows(self, written: Span, read: Span) -> bool:
        """Whether what was written may be what is read. Values that lie in the same bytes one after the other are apart."""
        if written.symbol == read.symbol:
            return written.first < read.end and read.first < written.end and _lanes_meet(written, read)
        return max(written.symbol, read.symbol) < len(self.uses) and self._aliased(written.symbol, read.symbol)

    def meet(self, one: Span, other: Span) -> bool:
        """Whether they share a byte."""
        if one.home == other.home:
            apart = one.begin + one.end <= other.begin + other.first or other.begin + other.end <= one.begin + one.first
            return not apart and _lanes_meet(one, other)
        return self._aliased(one.home, other.home)

    def _aliased(self, one: int, other: int) -> bool:
        if self.is_alone(one) or self.is_alone(other):
            return False
        return Use.SHARED in (self.uses[one], self.uses[other])

    def any_flow(self, written: Iterable[Span], read: Iterable[Span]) -> bool:
        return any(self.flows(one, other) for one in written for other in read)

    def any_meet(self, some: Iterable[Span], others: Iterable[Span]) -> bool:
        return any(self.meet(one, other) for one in some for other in others)


def _lanes_meet(one: Span, other: Span) -> bool:
    return one.low < other.high and other.low < one.high


def in_memory(operand: Operand) -> bool:
    return operand.kind.in_memory and operand.space is Space.MEMORY


@dataclass(frozen=True, slots=True)
class Touch(LoopNest):
    """No step: it stands for bytes that somebody else reads or writes (`repeats.py`). Not `exact`: of what it writes, maybe nothing."""

    exact: bool = True


Listed = Step | Touch  # what fusion walks over


def in_scratchpads(step: Listed) -> bool:
    """Whether it uses a core's own memory, which lives on after the launch: such a step stays as it is."""
    return any(operand.space is Space.SCRATCHPAD for operand in (*step.inputs, *step.outputs))


def adds(step: Listed) -> bool:
    """A scatter that adds reads its target, too."""
    return isinstance(step, Scatter) and step.accumulate


def span_of(step: LoopNest | Relayout, place: int, *, output: bool) -> Span | None:
    """What a step may touch of an operand; None if that is not in memory."""
    operand = (step.outputs if output else step.inputs)[place]
    if not in_memory(operand):
        return None
    found = pieces(step, place, output=output)
    first, end = bounds(found)
    size = itemsize(operand.data_format)
    lanes = [lanes_of(piece, operand.offset, STICK_BYTES // size) for piece in found]
    low, high = min((at for at, _ in lanes), default=0), max((end for _, end in lanes), default=STICK_BYTES // size)
    return Span(operand.symbol, (operand.offset + first) * size, (operand.offset + end) * size, low * size, high * size)
