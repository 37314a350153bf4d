"""Constants from measurements: damped least squares on the logarithms of times, robust, and folds that hold out whole shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from bench.clock.measured import Measured, Shape
from openspyre.clock.kernels import Matmul
from openspyre.clock.predict import class_of, parts_of
from openspyre.clock.prediction import KernelClass
from openspyre.spec.machine import SPYRE, Machine
from openspyre.spec.rates import Rates

Array = NDArray[np.float64]
_ERROR = 0.05  # errors far above this count by their size, not by their square
_PRIOR = 0.5  # a constant that no row of a fold speaks of stays within such a factor of where it began
_ITERATIONS = 40
_OFF = 0.25  # how far off, in logarithms, fits that are judged begin
_LARGE_BATCH = 16


@dataclass(frozen=True, slots=True)
class Problem:
    """Constants of one group that rows of some classes speak of: all but the `fixed` ones, or `only` these."""

    group: str
    classes: tuple[KernelClass, ...]
    fixed: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    divided: bool | None = None  # of batched products: large batches whose division was recorded, or the others

    def names(self) -> tuple[str, ...]:
        every = (constant.name for constant in SPYRE.rates.constants() if constant.group == self.group)
        return tuple(name for name in every if name not in self.fixed and (not self.only or name in self.only))

    def takes(self, row: Measured) -> bool:
        if not row.fitted or class_of(row.kernel) not in self.classes:
            return False
        if self.divided is None or not isinstance(row.kernel, Matmul):
            return True
        return self.divided == (row.kernel.recorded and row.kernel.b >= _LARGE_BATCH)


_OF_DIVISIONS = (
    "short_run_bytes",
    "short_run_power",
    "second_gb_per_s",
    "macs_per_ns",
    "wide_columns",
    "rows_power",
    "split_k",
    "split_rows_power",
)

PROBLEMS = (
    Problem("pointwise", (KernelClass.POINTWISE,), ("overlap_power",)),
    Problem("copy", (KernelClass.COPY,), ("overlap_power",)),
    Problem("reduction", (KernelClass.REDUCTION,), ("overlap_power", "turnaround_us_per_mb")),
    Problem(
        "resident",
        (KernelClass.SOFTMAX,),
        ("capacity_bytes", "scratchpad_gb_per_s", "reduction_ns_per_stick", "fixed_share", "core_gb_per_s"),
    ),
    Problem("chain", (KernelClass.CHAIN,), ("resident_bytes", "short_run_bytes", "reader")),
    Problem("layout", (KernelClass.LAYOUT,)),
    Problem(
        "matmul",
        (KernelClass.MATMUL, KernelClass.MATMUL_UNKNOWN),
        # Sizes of tiles are steps, not slopes; the array's rate is 1024 a cycle; the other two rest on two shapes.
        (
            "tile_rows",
            "narrow_tile_rows",
            "narrowest_tile_rows",
            "tile_columns",
            "macs_per_ns",
            "odd_columns_gb_per_s",
            "one_core_gb_per_s",
            "fixed_us",
        ),
    ),
    Problem("batched", (KernelClass.BATCHED,), only=_OF_DIVISIONS, divided=True),
    Problem(
        "batched",
        (KernelClass.BATCHED,),
        (*_OF_DIVISIONS, "overlap_power", "fixed_us", "turnaround_us_per_mb"),
        divided=False,
    ),
)


def with_values(rates: Rates, group: str, values: dict[str, float]) -> Rates:
    held = replace(getattr(rates, group), **values)
    return replace(rates, **{group: held})


def times(rows: Sequence[Measured], rates: Rates) -> list[float]:
    machine: Machine = replace(SPYRE, rates=rates)
    return [parts_of(row.kernel, machine).time_us for row in rows]


def fit(problem: Problem, rows: Sequence[Measured], start: Rates) -> Rates:
    """The constants that suit the rows best, beginning at `start`."""
    names = problem.names()
    held = getattr(start, problem.group)
    names = tuple(name for name in names if getattr(held, name) > 0)
    begin = np.array([log(getattr(held, name)) for name in names])
    measured = np.array([log(row.us) for row in rows])

    def residuals(at: Array) -> Array:
        values = {name: float(value) for name, value in zip(names, np.exp(at), strict=True)}
        found = np.log(np.array(times(rows, with_values(start, problem.group, values)))) - measured
        return np.concatenate([found, (at - begin) * (_ERROR / _PRIOR)])

    at = _least(residuals, begin.copy())
    return with_values(start, problem.group, {n: float(v) for n, v in zip(names, np.exp(at), strict=True)})


def _cost(found: Array) -> float:
    return float(np.sum(np.sqrt(1 + (found / _ERROR) ** 2) - 1))


def _least(residuals: object, at: Array) -> Array:
    """Levenberg and Marquardt with weights that grow mild on outliers."""
    assert callable(residuals)
    damping, found = 1e-2, residuals(at)
    for _ in range(_ITERATIONS):
        slopes = np.stack([(residuals(at + step) - found) / 1e-4 for step in np.eye(len(at)) * 1e-4], axis=1)
        weights = 1 / np.sqrt(1 + (found / _ERROR) ** 2)
        normal, gradient = slopes.T @ (weights[:, None] * slopes), slopes.T @ (weights * found)
        moved = False
        while damping < 1e6 and not moved:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -gradient)
            tried = at + np.clip(step, -0.7, 0.7)
            fresh = residuals(tried)
            if moved := _cost(fresh) < _cost(found):
                gain = _cost(found) - _cost(fresh)
                at, found, damping = tried, fresh, damping / 3
            else:
                damping *= 4
        if not moved or gain < 1e-5 * _cost(found):
            break
    return at


def folds(rows: Sequence[Measured], count: int) -> Iterator[set[Shape]]:
    """Shapes to hold out, each once; the same on every run."""
    shapes = sorted({row.shape for row in rows}, key=repr)
    order = np.random.default_rng(11).permutation(len(shapes))
    for number in range(count):
        yield {shapes[at] for at in order[number::count]}


def disturbed(problem: Problem, rates: Rates) -> Rates:
    """Constants some way off, the same on every run: what is shipped was fitted to the shapes that are held out."""
    random = np.random.default_rng(3)
    held = getattr(rates, problem.group)
    off = {name: getattr(held, name) * float(np.exp(random.normal(0, _OFF))) for name in problem.names()}
    return with_values(rates, problem.group, off)


def held_out(problem: Problem, rows: Sequence[Measured], shipped: Rates, count: int) -> list[tuple[Measured, float]]:
    """Every row with the time a fit without its shape gives it."""
    found: list[tuple[Measured, float]] = []
    start = disturbed(problem, shipped)
    for shapes in folds(rows, count):
        kept = [row for row in rows if row.shape not in shapes]
        left = [row for row in rows if row.shape in shapes]
        if left and kept:
            found += zip(left, times(left, fit(problem, kept, start)), strict=True)
    return found


def rows_of(problem: Problem, rows: Sequence[Measured]) -> list[Measured]:
    """Rows a problem is fitted to. Where divisions are not recorded, the fastest row of a shape stands for all of them."""
    chosen: dict[object, Measured] = {}
    for number, row in enumerate(rows):
        if problem.takes(row):
            key: object = row.kernel if class_of(row.kernel) is KernelClass.MATMUL_UNKNOWN else number
            if key not in chosen or row.us < chosen[key].us:
                chosen[key] = row
    return list(chosen.values())
