"""What is blocked and what is pinned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.compiler.planner.constraints import Undividable, constraints_of
from openspyre.compiler.planner.documented import divide
from openspyre.compiler.planner.space import SpaceKind
from openspyre.compiler.planner.spaces_of_tests import LIMIT, pointwise, product, summed, topk


@pytest.mark.parametrize(("k", "split"), [(4, None), (8, 2), (6, 2), (7, 7), (128, 32)])
def test_ranks_of_a_topk(k: int, split: int | None) -> None:
    assert constraints_of(topk(64, 128, k), 32).pinned == ({2: 1} if split is None else {2: 1, 0: split})


def test_the_reference_finds_eight_of_64_in_128_columns_so() -> None:
    assert divide(topk(64, 128, 8), 32, LIMIT) == (2, 2, 1)


def test_ranks_that_no_cores_can_share_out() -> None:
    with pytest.raises(Undividable, match=r"37 largest over 32 cores .* 40 for example"):
        constraints_of(topk(64, 128, 37), 32)
    with pytest.raises(Undividable):
        constraints_of(topk(64, 128, 8), 1)


def test_a_sum_along_padded_sticks_is_blocked() -> None:
    assert constraints_of(summed(4, 8200, 1), 32).blocked == {1}
    assert constraints_of(summed(4, 8192, 1), 32).blocked == set()
    assert constraints_of(pointwise(4, 8200), 32).blocked == set()
    assert constraints_of(product(33, 130, 70), 32).blocked == {2}


def test_what_goes_through_an_index_runs_on_one_core() -> None:
    assert divide(replace(pointwise(32, 128), kind=SpaceKind.INDIRECT), 32, LIMIT) == (1, 1)
