"""The clock on measurements and on other compilers' bundles, where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bench.clock.__main__ import main
from bench.clock.evaluation import load
from bench.clock.fitting import PROBLEMS, Problem, fit, folds, held_out, rows_of, times, with_values
from bench.clock.measured import Measured
from bench.clock.published import study_us
from bench.clock.scoreboard import orders, score
from openspyre.clock import time_directory
from openspyre.clock.bands import BANDS
from openspyre.clock.kernels import Division, Form, Matmul, Pointwise
from openspyre.clock.predict import class_of
from openspyre.clock.prediction import KernelClass
from openspyre.spec.machine import SPYRE

MEASURED = os.environ.get("OPENSPYRE_MEASURED", "")
FOREIGN = os.environ.get("OPENSPYRE_FOREIGN_BUNDLES", "")
measurements = pytest.mark.skipif(not MEASURED, reason="no measurements: OPENSPYRE_MEASURED says where they are")

# Median and 90th percentile on shapes held out of the fit.
ASKED = {
    KernelClass.POINTWISE: (0.02, 0.08),
    KernelClass.COPY: (0.03, 0.12),
    KernelClass.REDUCTION: (0.03, 0.13),
    KernelClass.SOFTMAX: (0.04, 0.18),
    KernelClass.LAYOUT: (0.05, 0.13),
    KernelClass.MATMUL: (0.05, 0.20),
    KernelClass.MATMUL_UNKNOWN: (0.08, 0.25),
}


@pytest.fixture(scope="module")
def rows() -> list[Measured]:
    return load([Path(MEASURED)])


@measurements
@pytest.mark.parametrize("problem", [p for p in PROBLEMS if set(p.classes) & set(ASKED)], ids=lambda p: p.group)
def test_shapes_never_seen_are_predicted_as_well_as_asked(problem: Problem, rows: list[Measured]) -> None:
    found = held_out(problem, rows_of(problem, rows), SPYRE.rates, 8)
    for kind in problem.classes:
        told = score((row, time) for row, time in found if class_of(row.kernel) is kind)
        assert told is not None
        assert (told.median, told.p90) <= ASKED[kind] and told.p90 <= ASKED[kind][1], kind
        # What predictions say of themselves is what was found, to a percent.
        assert told.median <= BANDS[kind].median + 0.01 and told.p90 <= BANDS[kind].p90 + 0.01, kind
    if problem.group == "matmul":
        single = orders(found)
        assert np.median([order.correlation for order in single]) >= 0.9
        picks = [order.regret for order in orders(found, least=2)]
        assert np.median(picks) <= 1.03 and max(picks) <= 1.3


@measurements
def test_batches_are_at_least_as_good_as_the_studys_formula_on_every_set(rows: list[Measured]) -> None:
    chosen = [row for problem in PROBLEMS if problem.group == "batched" for row in rows_of(problem, rows)]
    for series in {row.series for row in chosen}:
        kept = [row for row in chosen if row.series == series]
        ours = score(zip(kept, times(kept, SPYRE.rates), strict=True))
        study = score((row, time) for row in kept if (time := study_us(row.kernel)) is not None)
        assert ours is not None and study is not None
        assert ours.median <= study.median + 1e-9 and ours.p90 <= study.p90 + 1e-9, series


@pytest.mark.skipif(not FOREIGN, reason="no bundles: OPENSPYRE_FOREIGN_BUNDLES says where they are")
def test_every_foreign_bundle_gets_the_same_time_twice() -> None:
    found = sorted(Path(FOREIGN).glob("*/*/launch_*/bundle"))
    assert found
    for directory in found:
        timing = time_directory(directory)
        assert 0 < timing.card_us < 1e5 and timing.steps, directory
        again = time_directory(directory)
        assert [step.time_us for step in again.steps] == [step.time_us for step in timing.steps]


def made_up(turnaround: float, sizes: list[int]) -> list[Measured]:
    """Measurements of a card whose bus turns round at another rate."""
    rates = with_values(SPYRE.rates, "pointwise", {"turnaround_us_per_mb": turnaround})
    kernels = [Pointwise(Form.UNARY, size, size, 32) for size in sizes]
    blank = [Measured(kernel, 1.0, "made up", (kernel.read_bytes,)) for kernel in kernels]
    return [Measured(row.kernel, us, row.series, row.shape) for row, us in zip(blank, times(blank, rates), strict=True)]


def test_a_fit_finds_the_constant_that_made_the_measurements() -> None:
    problem = Problem("pointwise", (KernelClass.POINTWISE,), only=("turnaround_us_per_mb",))
    found = fit(problem, made_up(9.0, [1 << n for n in range(20, 28)]), SPYRE.rates)
    assert found.pointwise.turnaround_us_per_mb == pytest.approx(9.0, rel=0.01)


def test_one_wild_row_does_not_move_a_fit() -> None:
    rows = made_up(9.0, [1 << n for n in range(20, 28)])
    wild = Measured(rows[0].kernel, 100 * rows[0].us, "made up", ("wild",))
    problem = Problem("pointwise", (KernelClass.POINTWISE,), only=("turnaround_us_per_mb",))
    assert fit(problem, [*rows, wild], SPYRE.rates).pointwise.turnaround_us_per_mb == pytest.approx(9.0, rel=0.1)


def test_folds_hold_out_whole_shapes_each_once() -> None:
    rows = [row for row in made_up(6.0, [1 << n for n in range(18, 28)]) for _ in range(3)]
    held = list(folds(rows, 4))
    assert len(held) == 4 and set().union(*held) == {row.shape for row in rows}
    assert sum(map(len, held)) == len({row.shape for row in rows})


def test_the_fastest_row_stands_for_a_division_nobody_recorded() -> None:
    kernel = Matmul(1, 2048, 2048, 2048, Division(1, 4, 8, 1), 32, recorded=False)
    rows = [Measured(kernel, us, "mmwd", ("x",)) for us in (400.0, 385.0, 900.0)]
    problem = next(problem for problem in PROBLEMS if problem.group == "matmul")
    assert [row.us for row in rows_of(problem, rows)] == [385.0]


def test_rank_correlation_and_regret_by_hand() -> None:
    measured = [10.0, 20.0, 30.0, 40.0]
    predicted = [12.0, 11.0, 35.0, 50.0]  # the first two the wrong way round
    kernels = [Matmul(1, 64, 64, 64, Division(1, 1, 1, k), 32) for k in (1, 2, 4, 8)]
    rows = [Measured(kernel, us, "s", ("matmul", 1)) for kernel, us in zip(kernels, measured, strict=True)]
    (order,) = orders(list(zip(rows, predicted, strict=True)), least=2)
    assert order.correlation == pytest.approx(0.8)  # 1 - 6 * 2 / (4 * 15)
    assert order.regret == pytest.approx(2.0)


def test_a_users_own_table_of_few_rows_is_scored_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(
        "op,rows,cols,cores,kernel_us_median\nadd,2048,1024,32,107.9\nneg,2048,1024,32,78.8\nodd,1,1,1,1\n"
    )
    assert main(["fit", str(table), "--constants"]) == 0
    shown = capsys.readouterr().out
    assert "| pointwise | 2 |" in shown and "constants of a fit to all rows" in shown
