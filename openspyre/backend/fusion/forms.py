"""Steps without names: what fusion asks of a step, and makes of several, it asks and makes once for all steps of a form.

A form is a step whose symbols are numbers of a list. Rules look at symbols for nothing but whether two are the same, so what a
rule makes of steps follows from their forms and from which symbols they share. Equal layers have equal forms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from openspyre.backend.fusion.memory import Span, Touched, in_memory, input_span, itemsize, output_span, touched
from openspyre.program.model import Operand, Step, StepKind
from openspyre.spec.sharing import shares_work

Rule = Callable[..., Step | None]  # of steps, and of what else the rule asks


class Form:
    """Compared by identity. Spans are those of the step: their symbols are numbers too."""

    __slots__ = ("inputs", "outputs", "step", "touched")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.touched: Touched = touched(step)
        views = step.kind is StepKind.RELAYOUT  # moves what its views say; nothing asks for its operands' spans
        self.inputs: tuple[Span | None, ...] = tuple(
            input_span(step, place) if in_memory(operand) and not views else None
            for place, operand in enumerate(step.inputs)
        )
        self.outputs: tuple[Span, ...] = (
            () if views else tuple(output_span(step, place) for place in range(len(step.outputs)))
        )


class Bound:
    """A form at work: its symbols, the step's name, and the spans it touches."""

    __slots__ = ("form", "inputs", "name", "outputs", "reads", "symbols", "writes")

    def __init__(self, form: Form, symbols: tuple[int, ...], name: str) -> None:
        self.form, self.symbols, self.name = form, symbols, name
        self.inputs = [s and Span(symbols[s.symbol], s.first, s.end) for s in form.inputs]
        self.outputs = [Span(symbols[s.symbol], s.first, s.end) for s in form.outputs]
        self.reads = tuple([Span(symbols[s.symbol], s.first, s.end) for s in form.touched.reads])
        self.writes = tuple([Span(symbols[s.symbol], s.first, s.end) for s in form.touched.writes])

    @property
    def kind(self) -> StepKind:
        return self.form.step.kind

    def step(self, pool: int = 0, places: Mapping[int, int] = MappingProxyType({})) -> Step:
        """The step itself; symbols with a place, in bytes, are found there behind the symbol `pool`."""
        symbols = {n: pool if symbol in places else symbol for n, symbol in enumerate(self.symbols)}
        begins = {n: places.get(symbol, 0) for n, symbol in enumerate(self.symbols)}
        return _renumbered(self.form.step, symbols, begins, self.name)


def _renumbered(step: Step, symbols: Mapping[int, int], begins: Mapping[int, int], name: str) -> Step:
    """A step on other symbols, from their byte `begins` on."""

    def moved(o: Operand) -> Operand:
        if not in_memory(o):
            return o
        begin = begins[o.symbol] // itemsize(o.data_format) if begins else 0
        symbol = symbols[o.symbol]
        return Operand(o.kind, symbol, o.offset + begin, o.strides, o.tile_stride, o.dtype, o.data_format, o.space)

    return replace(
        step,
        name=name,
        inputs=tuple(map(moved, step.inputs)),
        outputs=tuple(map(moved, step.outputs)),
        views=tuple(replace(view, symbol=symbols[view.symbol]) for view in step.views),
    )


def symbols_of(step: Step) -> tuple[int, ...]:
    """The symbols of a step's memory, each once."""
    operands = [operand.symbol for operand in (*step.inputs, *step.outputs) if in_memory(operand)]
    return tuple(dict.fromkeys((*operands, *(view.symbol for view in step.views))))


@dataclass(frozen=True, slots=True)
class _Made:
    """What a rule made: a form, which of the joint symbols it has, and whose name."""

    form: Form
    symbols: tuple[int, ...]
    name: int


class Forms:
    """The forms of a program, and what rules made of them. Where nothing is shared, all is made of the steps themselves."""

    def __init__(self) -> None:
        self._shared = shares_work()
        self._first: dict[Hashable, Form] = {}
        self._made: dict[Hashable, _Made | None] = {}

    def bound(self, key: Hashable, symbols: tuple[int, ...], name: str, make: Callable[[], Step]) -> Bound:
        """The step that `make` makes of these symbols; one of equal `key` was the same step on other ones."""
        if not self._shared:
            return of_step(make())
        found = self._first.get(key)
        if found is None:
            found = self._first[key] = _form(make(), symbols)
        return Bound(found, symbols, name)

    def apply(self, rule: Rule, parts: tuple[Bound, ...], *asked: Hashable) -> Bound | None:
        """What a rule makes of steps."""
        if not self._shared:
            step = rule(*(part.step() for part in parts), *asked)
            return None if step is None else of_step(step)
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
        return Bound(made.form, tuple([joint[number] for number in made.symbols]), parts[made.name].name)


def of_step(step: Step) -> Bound:
    symbols = symbols_of(step)
    return Bound(_form(step, symbols), symbols, step.name)


def _form(step: Step, symbols: Sequence[int]) -> Form:
    return Form(_renumbered(step, {symbol: number for number, symbol in enumerate(symbols)}, {}, ""))


def _made(rule: Rule, parts: tuple[Bound, ...], joint: list[int], asked: tuple[Hashable, ...]) -> _Made | None:
    numbers = [{n: joint.index(symbol) for n, symbol in enumerate(part.symbols)} for part in parts]
    steps = [_renumbered(part.form.step, numbers[k], {}, str(k)) for k, part in enumerate(parts)]
    step = rule(*steps, *asked)
    if step is None:
        return None
    symbols = symbols_of(step)
    return _Made(_form(step, symbols), symbols, int(step.name))
