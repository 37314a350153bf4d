"""Products: divisions and their costs as worked out from the documents' model, and where the model declines."""

from __future__ import annotations

from math import inf, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openspyre.compiler.planner.constraints import Constraints
from openspyre.compiler.planner.distribution import distribute
from openspyre.compiler.planner.documented import divide
from openspyre.compiler.planner.matmul_cost import Division, Shape, cost, divide_matmul, roles_of
from openspyre.compiler.planner.space import Space
from openspyre.compiler.planner.spaces_of_tests import LIMIT, product

# (m, n, k): slices of m, n, k and microseconds
PLAIN = {
    (64, 256, 128): ((4, 4, 2), 1.638),
    (64, 256, 256): ((4, 4, 2), 2.091),
    (64, 128, 256): ((4, 2, 4), 13.686),
    (128, 128, 128): ((8, 2, 2), 1.558),
    (256, 256, 256): ((8, 4, 1), 2.281),
    (512, 512, 512): ((8, 4, 1), 20.411),
    (128, 4096, 4096): ((4, 8, 1), 220.277),
    (1024, 4096, 4096): ((4, 8, 1), 615.285),
    (2048, 4096, 4096): ((4, 8, 1), 1046.731),
    (2048, 2048, 2048): ((8, 4, 1), 317.643),
    (8, 1024, 1024): ((1, 8, 4), 63.727),
    (16, 4096, 4096): ((1, 8, 4), 216.563),
    (32, 4096, 4096): ((2, 8, 2), 198.327),
    (512, 14336, 4096): ((4, 8, 1), 1342.453),
    (512, 4096, 14336): ((8, 4, 1), 1348.416),
    (4096, 1024, 2048): ((8, 4, 1), 358.123),
}
# batch, (m, n, k): slices of the batch, m, n, k and microseconds
BATCHED = {
    (4, 1024, 1024, 2048): ((1, 16, 2, 1), 399.563),
    (32, 128, 128, 64): ((2, 8, 2, 1), 21.098),
    (32, 512, 512, 128): ((1, 16, 2, 1), 145.979),
    (32, 512, 128, 512): ((1, 32, 1, 1), 150.349),
    (8, 64, 128, 64): ((4, 4, 2, 1), 21.707),
}


def price(space: Space, splits: tuple[int, ...], cores: int = 32) -> float:
    roles = roles_of(space)
    assert roles is not None
    division = Division(prod(splits[s] for s in roles.batch), splits[roles.m], splits[roles.n], splits[roles.k])
    return cost(roles.shape(space), division, cores)


@pytest.mark.parametrize("size", PLAIN, ids=str)
def test_plain_products(size: tuple[int, int, int]) -> None:
    wanted, microseconds = PLAIN[size]
    space = product(*size)
    assert divide(space, 32, LIMIT) == wanted
    assert price(space, wanted) == pytest.approx(microseconds, abs=6e-4)


@pytest.mark.parametrize("size", BATCHED, ids=str)
def test_batches_of_products(size: tuple[int, int, int, int]) -> None:
    wanted, microseconds = BATCHED[size]
    batch, m, n, k = size
    space = product(m, n, k, batch)
    assert divide(space, 32, LIMIT) == wanted
    assert price(space, wanted) == pytest.approx(microseconds, abs=6e-4)


def test_a_weight_that_serves_a_whole_batch() -> None:
    """It counts as one product of all rows: the same time as 2048 rows take."""
    space = product(512, 4096, 4096, 4, shared=True)
    assert divide(space, 32, LIMIT) == (1, 4, 8, 1)
    assert price(space, (1, 4, 8, 1)) == pytest.approx(1046.731, abs=6e-4)


def test_four_cores() -> None:
    assert divide(product(64, 256, 128), 4, LIMIT) == (2, 2, 1)
    assert divide(product(512, 512, 512), 4, LIMIT) == (1, 4, 1)


@pytest.mark.parametrize(
    ("space", "wanted"),
    [
        (product(1, 4096, 4096), (32, 1)),  # no rows
        (product(64, 64, 128), (32, 1, 1)),  # n is one stick
        (product(1, 512, 128, 32), (32, 1, 1)),
    ],
)
def test_products_that_the_model_declines_are_distributed(space: Space, wanted: tuple[int, ...]) -> None:
    assert roles_of(space) is None
    assert divide(space, 32, LIMIT) == wanted


def test_one_row_times_a_weight_that_no_core_could_reach_over() -> None:
    """2004 sticks of n are shared out by 12, and k by the 2 that are left; but a core must not reach over all of the weight's 1 GB."""
    space = product(1, 128256, 4096)
    assert distribute(space, Constraints(), {}, 32) == divide(space, 32, 1 << 40) == (12, 2)
    assert divide(space, 32, LIMIT) == (4, 8)


def test_products_of_the_reference() -> None:
    """Divisions that the reference front end wrote into its bundles, by m, k, n; k of 70 and n of 130 end within a stick."""
    known = {
        (128, 256, 192): (8, 1, 4), (33, 70, 130): (3, 3, 2), (16, 256, 512): (1, 8, 4), (32, 128, 256): (4, 4, 2),
        (64, 704, 256): (8, 4, 1), (512, 1024, 256): (16, 2, 1), (64, 4096, 12800): (4, 8, 1),
    }  # fmt: skip
    assert {size: divide(product(size[0], size[2], size[1]), 32, LIMIT) for size in known} == known


def test_a_division_with_fewer_cores_than_the_distribution_has_does_not_stand() -> None:
    space = product(33, 192, 128)  # as 33, 70, 130 above, but k may be split by the distribution as well
    default = distribute(space, Constraints(), {}, 32)
    assert prod(default) == 22
    assert divide_matmul(space, default, 32) is None


def test_more_cores_than_there_are_cost_infinitely_much() -> None:
    assert cost(Shape(1, 64, 64, 64, True), Division(m=8), 4) == inf


@given(
    st.integers(2, 300), st.integers(65, 9000), st.integers(2, 9000), st.integers(1, 9), st.sampled_from([1, 4, 7, 32])
)
def test_nothing_is_cheaper_than_what_is_chosen(m: int, n: int, k: int, batch: int, cores: int) -> None:
    """Tried with divisions of one's own: m alone, n alone, k alone."""
    space = product(m, n, k, batch)
    chosen = divide(space, cores, LIMIT)
    assert prod(chosen) <= cores
    assert all(symbol.units % split == 0 for symbol, split in zip(space.symbols, chosen, strict=True))
    roles = roles_of(space)
    if roles is None or prod(chosen) < prod(distribute(space, Constraints(), {}, cores)):
        return
    if divide_matmul(space, distribute(space, Constraints(), {}, cores), cores) == chosen:
        for symbol in (roles.m, roles.n, roles.k):
            if space.symbols[symbol].units % cores == 0:
                assert price(space, chosen, cores) <= price(space, space.splits({symbol: cores}), cores)
