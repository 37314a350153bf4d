"""Spans: how far a core reaches, which splits that asks for, and what is said where none helps."""

from __future__ import annotations

import pytest

from openspyre.compiler.planner.constraints import Constraints, Undividable
from openspyre.compiler.planner.documented import divide
from openspyre.compiler.planner.space import Coordinate, Space, Symbol, Tensor, Term
from openspyre.compiler.planner.spaces_of_tests import LIMIT, pointwise, product, summed
from openspyre.compiler.planner.span_reduction import check_spans, committed_splits

MIB = 1 << 20


def test_the_span_begins_at_the_first_coordinate_with_more_than_one_place() -> None:
    symbols = (Symbol("a", 4), Symbol("b", 6), Symbol("c", 640, 64))
    x = Tensor("x", tuple(Coordinate(n, (Term(s, n),)) for s, n in enumerate((4, 6, 10))), frozenset(range(3)))
    assert Space("op", symbols, (x,), (x,)).tensors == (x, x)
    assert x.span((1, 1, 1)) == 4 * 6 * 10 * 128
    assert x.span((2, 3, 5)) == 2 * 6 * 10 * 128  # what lies inside counts whole, divided or not
    assert x.span((4, 3, 1)) == 2 * 10 * 128
    assert x.span((4, 6, 2)) == 5 * 128
    assert x.span((4, 6, 10)) == 128


def test_a_product_whose_operands_are_too_large() -> None:
    """512 MiB of sticks along k ask for 4, since 256 MiB are too much by a page; then 256 MiB along n for 2."""
    space = product(8192, 4096, 32768)
    assert committed_splits(space, Constraints(), 32, LIMIT) == {2: 4, 1: 2}
    assert divide(space, 32, LIMIT) == (4, 2, 4)
    assert divide(space, 32, 256 * MIB) == (16, 1, 2)  # the older limit's division


def test_exactly_256_mib_are_too_much() -> None:
    space = pointwise(4096, 32768)
    assert committed_splits(space, Constraints(), 32, LIMIT) == {1: 2}
    assert committed_splits(space, Constraints(), 32, 256 * MIB) == {}
    assert divide(space, 32, LIMIT) == (16, 2)


def test_several_coordinates_are_split_from_the_outside_inwards() -> None:
    symbols = (Symbol("a", 2), Symbol("b", 6), Symbol("c", 640, 64))
    x = Tensor("x", tuple(Coordinate(n, (Term(s, n),)) for s, n in enumerate((2, 6, 10))), frozenset(range(3)))
    space = Space("op", symbols, (x,), (x,))
    assert committed_splits(space, Constraints(), 32, 3 * 10 * 128) == {0: 2, 1: 2}
    assert committed_splits(space, Constraints(), 2, 3 * 10 * 128) == {0: 2}  # no cores are left for the next one


def test_no_core_can_be_kept_within_its_limit() -> None:
    space = pointwise(7, 64 * 11)
    with pytest.raises(Undividable, match=r"a core would reach .* bytes of tensor '[xy]'"):
        check_spans(space, divide(space, 4, 128), 128)
    check_spans(space, (7, 11), 128)


def test_a_pin_against_a_span() -> None:
    with pytest.raises(Undividable, match=r"'d1' must be split 1 ways, but .* split 2 ways"):
        committed_splits(pointwise(4096, 32768), Constraints(pinned={1: 1}), 32, LIMIT)


def test_a_blocked_dim_is_split_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    space = summed(4096, 40950, 1)
    assert divide(space, 32, LIMIT)[1] == 2 and "although it should stay whole" in caplog.text


def test_two_sums_cannot_be_split() -> None:
    symbols = (Symbol("a", 64, reduces=True), Symbol("b", 64, reduces=True))
    x = Tensor("x", (Coordinate(64, (Term(0, 64),)), Coordinate(64, (Term(1, 64),))), frozenset((0, 1)))
    space = Space("sum", symbols, (x,), ())
    with pytest.raises(Undividable, match=r"two dims that are summed"):
        committed_splits(space, Constraints(), 1 << 12, 128)
