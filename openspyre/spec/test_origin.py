"""Origins are told in words, and grow with what passes do."""

from __future__ import annotations

from openspyre.spec.origin import NOWHERE, Change, Origin

LINE = Origin("model.py", 7, "forward", "aten.addmm.default", ("linear", "addmm"), "layers.0.up (Linear)")
COPY = Origin("model.py", 8, "forward", "aten.clone.default", ("clone",))


def test_an_origin_in_words_is_a_line_that_editors_know_and_the_module() -> None:
    assert str(LINE) == 'File "model.py", line 7, in forward, layers.0.up (Linear)'
    assert str(Origin(module="0 (Linear)")) == "0 (Linear)"
    assert str(Origin(operator="aten.add.Tensor")) == "aten.add.Tensor"
    assert not NOWHERE and LINE


def test_changes_are_kept_in_order_and_the_call_stays_what_it_was() -> None:
    twice = LINE.changed("decomposition", "ExpandComposites", "a").changed("clone", "InsertRelayouts", "b")
    assert [change.kind for change in twice.history] == ["decomposition", "clone"]
    assert twice.call == LINE and twice != LINE


def test_an_op_that_does_two_calls_has_both_each_once() -> None:
    both = LINE.merged_with(COPY.changed("clone", "p", "r"), "EliminateCopies", "it writes where it was copied to")
    assert both.merged == (COPY,)
    assert both.history == (Change("fusion", "EliminateCopies", "it writes where it was copied to"),)
    assert both.merged_with(COPY, "EliminateCopies", "again") is both
    assert both.merged_with(LINE, "EliminateCopies", "itself") is both
    assert both.merged_with(NOWHERE, "EliminateCopies", "nobody") is both
