"""The default distribution: worked examples, and what commits and blocks leave to it."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openspyre.compiler.planner.constraints import Constraints
from openspyre.compiler.planner.distribution import distribute
from openspyre.compiler.planner.documented import divide
from openspyre.compiler.planner.spaces_of_tests import LIMIT, pointwise, summed


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ((128, 4), (32, 1)),
        ((4, 128), (1, 32)),
        ((3, 100, 4), (1, 25, 1)),
        ((7, 2), (7, 2)),
        ((1000, 16), (25, 1)),
        ((8, 16, 4), (2, 16, 1)),
    ],
)
def test_pointwise_ops(size: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Sizes are counted as the rules do, the last one in sticks."""
    assert divide(pointwise(*size[:-1], size[-1] * 64), 32, LIMIT) == wanted


def test_sums() -> None:
    assert divide(summed(128, 256, 0), 32, LIMIT) == (4, 8)
    assert divide(summed(48, 256, 0), 32, LIMIT) == (4, 8)
    assert divide(summed(4, 8192, 1), 32, LIMIT) == (4, 8)
    assert divide(summed(4, 8200, 1), 32, LIMIT) == (4, 1)  # its last stick is padded
    assert divide(summed(40, 100, 1), 32, LIMIT) == (20, 1)


def test_equal_dims_are_taken_in_iteration_order() -> None:
    assert divide(pointwise(16, 16, 64), 32, LIMIT) == (16, 2, 1)
    assert divide(pointwise(4, 4, 4 * 64), 32, LIMIT) == (4, 4, 2)


def test_commits_come_first_and_what_does_not_fit_is_left_out() -> None:
    space = pointwise(64, 64, 64 * 64)
    assert distribute(space, Constraints(), {2: 4}, 32) == (8, 1, 4)
    assert distribute(space, Constraints(), {0: 8, 1: 8}, 32) == (8, 1, 4)
    assert distribute(space, Constraints(), {0: 1}, 32) == (1, 32, 1)


def test_a_sum_that_is_pinned_bars_others() -> None:
    space = summed(4, 8192, 1)
    assert distribute(space, Constraints(), {1: 1}, 32) == (4, 1)
    assert distribute(space, Constraints(frozenset({0})), {}, 32) == (1, 32)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=4), st.integers(1, 32))
def test_splits_are_even_and_no_core_is_idle_that_an_even_split_could_use(size: list[int], cores: int) -> None:
    space = pointwise(*size[:-1], max(size[-1], 2))
    found = divide(space, cores, 1 << 60)
    assert prod(found) <= cores
    assert all(symbol.units % split == 0 for symbol, split in zip(space.symbols, found, strict=True))
    largest = max(range(len(found)), key=lambda s: space.symbols[s].units)
    assert not any(space.symbols[largest].units % n == 0 for n in range(found[largest] + 1, cores + 1))
