"""Published formulas against the numbers published with them."""

from __future__ import annotations

import pytest

from bench.clock.published import (
    august_cost,
    august_division,
    default_split,
    june_cost,
    june_division,
    runtime_model_us,
)
from openspyre.clock.kernels import Division, Form, Layout, Matmul, Move, Pointwise


@pytest.mark.parametrize(
    ("m", "n", "k", "division", "us"),
    [
        (64, 256, 256, Division(1, 4, 4, 2), 2.091),
        (128, 128, 128, Division(1, 8, 2, 2), 1.558),
        (256, 256, 256, Division(1, 8, 4, 1), 2.281),
        (512, 512, 512, Division(1, 8, 4, 1), 20.411),
        (128, 4096, 4096, Division(1, 4, 8, 1), 220.277),
        (1024, 4096, 4096, Division(1, 4, 8, 1), 615.285),
        (2048, 2048, 2048, Division(1, 8, 4, 1), 317.643),
        (8, 1024, 1024, Division(1, 1, 8, 4), 63.727),
        (512, 4096, 14336, Division(1, 8, 4, 1), 1348.416),
    ],
)
def test_the_planner_of_august(m: int, n: int, k: int, division: Division, us: float) -> None:
    assert august_division(1, m, n, k, 32, shared=True) == division
    assert august_cost(1, m, n, k, division, True, 32) == pytest.approx(us, abs=6e-4)


@pytest.mark.parametrize(
    ("b", "m", "n", "k", "division", "us"),
    [
        (4, 1024, 1024, 2048, Division(1, 16, 2, 1), 399.563),
        (32, 128, 128, 64, Division(2, 8, 2, 1), 21.098),
        (32, 512, 128, 512, Division(1, 32, 1, 1), 150.349),
    ],
)
def test_the_planner_of_august_on_batches(b: int, m: int, n: int, k: int, division: Division, us: float) -> None:
    assert august_division(b, m, n, k, 32, shared=False) == division
    assert august_cost(b, m, n, k, division, False, 32) == pytest.approx(us, abs=6e-4)


def test_the_planner_of_june() -> None:
    assert june_cost(2048, 4096, 4096, Division(1, 4, 8, 1)) == pytest.approx(1026.7, abs=0.1)
    assert june_division(512, 512, 512, 32) == Division(1, 4, 8, 1)
    assert june_cost(512, 512, 512, Division(1, 4, 8, 1)) == pytest.approx(10.41, abs=0.01)


@pytest.mark.parametrize(
    ("rows", "sticks", "split"),
    [(128, 4, (32, 1)), (4, 128, (1, 32)), (7, 2, (7, 2)), (1000, 16, (25, 1)), (64, 64, (32, 1))],
)
def test_the_default_division(rows: int, sticks: int, split: tuple[int, int]) -> None:
    assert default_split(rows, sticks, 32) == split


def test_the_runtime_models_rates() -> None:
    assert runtime_model_us(Layout(Move.RESTICKIFY, 1, 1, 116_000)) == pytest.approx(1)
    assert runtime_model_us(Matmul(4, 1024, 1024, 2048, None, 32, three_dims=True)) == pytest.approx(2**33 / 32 / 160e3)
    assert runtime_model_us(Pointwise(Form.UNARY, 15_000_000, 15_000_000, 32)) == pytest.approx(200 + 5.74 * 15)
