"""Hints are the division that is asked for, or an error that says why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.compiler.planner.constraints import Undividable
from openspyre.compiler.planner.documented import divide
from openspyre.compiler.planner.space import Space, Symbol
from openspyre.compiler.planner.spaces_of_tests import LIMIT, product, topk
from openspyre.spec.errors import HintWarning

MM = product(128, 128, 512)


def test_the_hinted_product_of_the_reference() -> None:
    assert divide(MM, 32, LIMIT, {"m": 2, "n": 2, "k": 4}) == (2, 2, 4)
    assert divide(MM, 32, LIMIT) == (8, 1, 4)


def test_dims_without_a_hint_stay_whole() -> None:
    assert divide(MM, 32, LIMIT, {"m": 8}) == (8, 1, 1)


def test_a_name_binds_to_the_first_dim_that_has_it_and_no_hint_yet() -> None:
    square = replace(MM, symbols=tuple(replace(symbol, named=("d",)) for symbol in MM.symbols))
    assert divide(square, 32, LIMIT, {"d": 4}) == (4, 1, 1)


def test_what_exceeds_the_cores_is_left_out() -> None:
    with pytest.warns(HintWarning, match="work_div k=4 is left out: of 8 cores 2 are left"):
        assert divide(MM, 8, LIMIT, {"m": 4, "k": 4, "n": 2}) == (4, 2, 1)


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ({"q": 2}, "names dim 'q', the op's dims are m, n, k"),
        ({"m": 0}, "m=0 is no number of cores"),
        ({"m": True}, "m=True is no number of cores"),
        ({"m": 2.0}, "m=2.0 is no number of cores"),
        ({"m": 3}, "m=3 does not divide the 128 elements"),
        ({"n": 4}, "n=4 does not divide the 2 sticks"),
    ],
)
def test_hints_that_cannot_be(hint: dict[str, int], message: str) -> None:
    with pytest.raises(Undividable, match=message):
        divide(MM, 32, LIMIT, hint)


def test_dims_that_must_stay_whole() -> None:
    with pytest.raises(Undividable, match="k=2 splits a dim that must stay whole"):
        divide(product(64, 128, 100), 32, LIMIT, {"k": 2})


def test_two_sums() -> None:
    symbols = (Symbol("d0", 8, reduces=True, named=("a",)), Symbol("d1", 8, reduces=True, named=("b",)))
    with pytest.raises(Undividable, match="splits a and b, of the dims that are summed one"):
        divide(Space("sum", symbols, (), ()), 32, LIMIT, {"a": 2, "b": 2})


def test_fewer_slices_than_a_core_can_reach_over() -> None:
    with pytest.warns(HintWarning, match="too far into a tensor: it leaves .*'k' in 1 parts where it takes 4"):
        assert divide(product(8192, 4096, 32768), 32, LIMIT, {"m": 32}) == (32, 1, 1)


def test_topk_takes_no_hints() -> None:
    with pytest.warns(HintWarning, match="'k': 8} has no effect"):
        assert divide(topk(64, 128, 8), 32, LIMIT, {"k": 8}) == (2, 2, 1)
