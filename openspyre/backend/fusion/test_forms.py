"""Steps of one form: what a rule made of the first of them, it made of all; and symbols that are the same tell forms apart."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.forms import Bound, Forms
from openspyre.backend.fusion.values import Home
from openspyre.program.model import Dim, LaneBlock, Map, Operand, OperandKind
from openspyre.spec.ops.expression import Code
from openspyre.spec.sharing import nothing_shared

NOTHING = Code((), (), (), (), ())  # what it computes no form asks


def step(name: str, *symbols: int, scalar: int | None = None) -> Map:
    """A step that reads all symbols but the last, which it writes."""
    operands = tuple(Operand(OperandKind.VECTOR, symbol, 64 * place, (64,)) for place, symbol in enumerate(symbols))
    number = () if scalar is None else (Operand(OperandKind.SCALAR, scalar, 0, (0,)),)
    return Map(name, (Dim(8),), LaneBlock(64, 64, -1), (*operands[:-1], *number), operands[-1:], NOTHING)


def bind(forms: Forms, made: Map, *symbols: int) -> Bound:
    return forms.bound("alike", symbols, made, lambda: made)


def chained(first: Map, second: Map) -> Map:
    """A rule: the second's output from the first's inputs, where it reads what the first stored."""
    passed = [operand for operand in second.inputs if operand.symbol != first.outputs[0].symbol]
    return replace(second, inputs=(*first.inputs, *passed))


def test_a_bound_step_is_the_step_it_was_made_of() -> None:
    forms = Forms({})
    made = [step("a", 7, 3, 9), step("b", 2, 8, 4)]
    found = [bind(forms, made[0], 7, 3, 9), bind(forms, made[1], 2, 8, 4)]
    assert found[0].form is found[1].form
    assert [bound.step({}) for bound in found] == made
    assert [span.symbol for span in found[1].reads] == [2, 8]
    assert [(span.symbol, span.first) for span in found[1].writes] == [(4, 2 * 64 * 2)]


def test_values_are_found_at_home() -> None:
    made, homes = step("a", 1, 5), {5: Home(3, 256)}
    bound = Forms(homes).bound("alike", (1, 5), made, lambda: made)
    assert bound.step(homes) is made, "as long as nothing became of it"
    (span,) = bound.writes
    assert (span.symbol, span.first, span.home, span.begin) == (5, 64 * 2, 3, 256)
    joined = Forms(homes).apply(lambda step: replace(step), (bound,))
    assert joined is not None
    (placed,) = joined.step(homes).outputs
    assert (placed.symbol, placed.offset) == (3, 64 + 256 // 2)


def test_a_rule_is_asked_once_for_steps_of_a_form() -> None:
    asked = []

    def rule(first: Map, second: Map) -> Map:
        asked.append(first)
        return chained(first, second)

    forms = Forms({})
    firsts = [bind(forms, step("a", x, t), x, t) for x, t in ((0, 10), (1, 11))]
    readers = [step("b2", 10, 2), step("b3", 11, 3)]
    seconds = [
        forms.bound("other", (10, 2), readers[0], lambda: readers[0]),
        forms.bound("other", (11, 3), readers[1], lambda: readers[1]),
    ]
    made = [forms.apply(rule, pair) for pair in zip(firsts, seconds, strict=True)]
    assert len(asked) == 1
    steps = [step("a", 0, 10), step("a", 1, 11)]
    assert [bound and bound.step({}) for bound in made] == list(map(chained, steps, readers))


def test_steps_that_share_other_symbols_are_not_alike() -> None:
    forms = Forms({})
    first, reader = bind(forms, step("a", 0, 10), 0, 10), step("b", 10, 2)
    other = step("b", 11, 2)
    reads_it = forms.bound("other", (10, 2), reader, lambda: reader)
    reads_another = forms.bound("other", (11, 2), other, lambda: other)
    both = [forms.apply(chained, (first, second)) for second in (reads_it, reads_another)]
    assert [bound and [o.symbol for o in bound.step({}).inputs] for bound in both] == [[0], [0, 11]]


def test_where_nothing_is_shared_rules_see_the_steps_themselves() -> None:
    with nothing_shared():
        forms = Forms({})
        first, second = bind(forms, step("a", 4, 10), 4, 10), bind(forms, step("b", 10, 2), 10, 2)
        made = forms.apply(chained, (first, second))
    assert first.form is not second.form
    assert made is not None and made.step({}) == chained(step("a", 4, 10), step("b", 10, 2))


def test_the_numbers_of_scalars_are_no_symbols() -> None:
    (_, scalar) = bind(Forms({}), step("a", 6, 9, scalar=1), 6, 9).step({}).inputs
    assert scalar.symbol == 1
