"""Steps without names: what fusion asks of a step, and makes of several, it asks and makes once for all steps of a form.

A form is a step whose symbols are numbers of a list. Rules look at symbols for nothing but whether two are the same, so what a
rule makes of steps follows from their forms and from which symbols they share. Equal layers have equal forms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from openspyre.backend.fusion.memory import Listed, Span, Touch, adds, in_memory, in_scratchpads, span_of
from openspyre.backend.fusion.values import Home
from openspyre.program.model import LoopNest, Map, Operand, OperandKind, Step
from openspyre.program.reach import itemsize
from openspyre.spec.sharing import shares_work

Rule = Callable[..., Step | None]  # of steps, and of what else the rule asks
_Listed = TypeVar("_Listed", bound=Listed)


class Form:
    """Compared by identity. Spans are those of the step: their symbols are numbers too."""

    __slots__ = ("adds", "inputs", "outputs", "step", "subject")

    def __init__(self, step: Listed) -> None:
        self.step = step
        self.subject: Step | None = None if isinstance(step, Touch) or in_scratchpads(step) else step
        self.adds = adds(step)
        self.inputs = tuple(span_of(step, place, output=False) for place in range(len(step.inputs)))
        self.outputs = tuple(span_of(step, place, output=True) for place in range(len(step.outputs)))


class Bound:
    """A form at work: its symbols, the step's name, and the spans it touches. `origin`: the step it was, as long as it is.

    `subject`: the form's step, as rules see it; None: no rule may take it. `members`: names of the steps it was made of.
    """

    __slots__ = ("form", "inputs", "members", "name", "origin", "outputs", "reads", "subject", "symbols", "writes")

    def __init__(
        self,
        form: Form,
        symbols: tuple[int, ...],
        name: str,
        homes: Mapping[int, Home],
        origin: Listed | None = None,
        members: tuple[str, ...] = (),
    ) -> None:
        self.form, self.symbols, self.name, self.origin = form, symbols, name, origin
        self.members = members or (name,)
        self.subject = form.subject
        here = [homes.get(symbol) or Home(symbol, 0) for symbol in symbols]

        def span(s: Span) -> Span:
            home = here[s.symbol]
            return s.at(symbols[s.symbol], home.symbol, home.begin)

        self.inputs = [s and span(s) for s in form.inputs]
        self.outputs = [span(s) for s in form.outputs if s is not None]
        self.writes = tuple(self.outputs)
        reads = tuple([s for s in self.inputs if s is not None])
        self.reads = (*reads, *self.writes) if form.adds else reads

    def step(self, homes: Mapping[int, Home]) -> Listed:
        """The step itself, values being found at home."""
        if self.origin is not None:
            return self.origin
        here = [homes.get(symbol) or Home(symbol, 0) for symbol in self.symbols]
        return renumbered(self.form.step, dict(enumerate(here)), self.name)


def renumbered(step: _Listed, homes: Mapping[int, Home], name: str) -> _Listed:
    """A step on other symbols, from some byte of theirs on."""

    def moved(o: Operand) -> Operand:
        if not in_memory(o):
            return o
        home = homes[o.symbol]
        offset = o.offset + home.begin // itemsize(o.data_format)
        element = (o.dtype, o.data_format)
        return Operand(o.kind, home.symbol, offset, o.strides, o.tile_stride, *element, o.space, o.owner, o.advance)

    return replace(
        step,
        name=name,
        inputs=tuple(map(moved, step.inputs)),
        outputs=tuple(map(moved, step.outputs)),
    )


def symbols_of(step: Listed) -> tuple[int, ...]:
    """The symbols of a step's memory, each once."""
    return tuple(dict.fromkeys([operand.symbol for operand in (*step.inputs, *step.outputs) if in_memory(operand)]))


@dataclass(frozen=True, slots=True)
class _Made:
    """What a rule made: a form, which of the joint symbols it has, and whose name."""

    form: Form
    symbols: tuple[int, ...]
    name: int


class Forms:
    """The forms of a program, and what rules made of them. Where nothing is shared, all is made of the steps themselves."""

    def __init__(self, homes: Mapping[int, Home]) -> None:
        self.homes = homes
        self._shared = shares_work()
        self._first: dict[Hashable, Form] = {}
        self._made: dict[Hashable, _Made | None] = {}

    def bound(self, key: Hashable, symbols: tuple[int, ...], origin: Listed, make: Callable[[], Listed]) -> Bound:
        """The step that `make` makes of these symbols; one of equal `key` was the same step on other ones."""
        if not self._shared:
            step = make()
            return Bound(_form(step, symbols), symbols, step.name, self.homes, origin)
        found = self._first.get(key)
        if found is None:
            found = self._first[key] = _form(make(), symbols)
        return Bound(found, symbols, origin.name, self.homes, origin)

    def apply(self, rule: Rule, parts: tuple[Bound, ...], *asked: Hashable) -> Bound | None:
        """What a rule makes of steps."""
        if not self._shared:
            step = rule(*(_unplaced(part) for part in parts), *asked)
            if step is None or not _can_be_read(step):
                return None
            return Bound(
                _form(step, symbols_of(step)), symbols_of(step), step.name, self.homes, members=_members(parts)
            )
        joint = list(parts[0].symbols)
        for part in parts[1:]:
            joint += [symbol for symbol in part.symbols if symbol not in joint]
        pattern = tuple([joint.index(symbol) for part in parts[1:] for symbol in part.symbols])
        key = (rule, asked, pattern, *[part.form for part in parts])
        if key not in self._made:
            self._made[key] = _made(rule, parts, joint, asked)
        made = self._made[key]
        if made is None:
            return None
        symbols = tuple([joint[number] for number in made.symbols])
        return Bound(made.form, symbols, parts[made.name].name, self.homes, members=_members(parts))


def _members(parts: tuple[Bound, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([name for part in parts for name in part.members]))


def _can_be_read(step: Step) -> bool:
    """Behind the last element of an operand across sticks nothing can be loaded: only maps know where it is."""
    if isinstance(step, Map) or not isinstance(step, LoopNest) or step.lane.extent % step.lane.lanes == 0:
        return True
    return all(operand.kind is not OperandKind.STRIDED for operand in step.inputs)


def _unplaced(bound: Bound) -> Listed:
    return renumbered(bound.form.step, {n: Home(s, 0) for n, s in enumerate(bound.symbols)}, bound.name)


def _form(step: Listed, symbols: Sequence[int]) -> Form:
    return Form(renumbered(step, {symbol: Home(number, 0) for number, symbol in enumerate(symbols)}, ""))


def _made(rule: Rule, parts: tuple[Bound, ...], joint: list[int], asked: tuple[Hashable, ...]) -> _Made | None:
    numbers = [{n: Home(joint.index(symbol), 0) for n, symbol in enumerate(part.symbols)} for part in parts]
    steps = [renumbered(part.form.step, numbers[k], str(k)) for k, part in enumerate(parts)]
    step = rule(*steps, *asked)
    if step is None or not _can_be_read(step):
        return None
    symbols = symbols_of(step)
    return _Made(_form(step, symbols), symbols, int(step.name))
