"""Scores of a clock: errors by class, order of divisions, and what a wrong pick costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.clock.measured import Measured, Shape
from openspyre.clock.kernels import Matmul

Timed = tuple[Measured, float]


@dataclass(frozen=True, slots=True)
class Score:
    """Errors as shares of the measured time."""

    rows: int
    median: float
    p90: float

    def __str__(self) -> str:
        return f"{100 * self.median:.1f} / {100 * self.p90:.1f}"


def score(timed: Iterable[Timed]) -> Score | None:
    errors = np.array([abs(time / row.us - 1) for row, time in timed])
    return Score(len(errors), float(np.median(errors)), float(np.percentile(errors, 90))) if len(errors) else None


@dataclass(frozen=True, slots=True)
class Order:
    """Divisions of one shape: rank correlation, and the measured time of the pick to the best measured."""

    shape: Shape
    divisions: int
    correlation: float
    regret: float


def orders(timed: Sequence[Timed], least: int = 5) -> list[Order]:
    groups: dict[Shape, list[Timed]] = defaultdict(list)
    for row, time in timed:
        if isinstance(row.kernel, Matmul) and row.kernel.recorded:
            groups[row.shape].append((row, time))
    return [_order(shape, group) for shape, group in sorted(groups.items(), key=repr) if _divisions(group) >= least]


def _divisions(group: Sequence[Timed]) -> int:
    return len({row.kernel for row, _ in group})


def _order(shape: Shape, group: Sequence[Timed]) -> Order:
    measured, predicted = np.array([row.us for row, _ in group]), np.array([time for _, time in group])
    correlation = float(np.corrcoef(_ranks(measured), _ranks(predicted))[0, 1])
    return Order(shape, _divisions(group), correlation, float(measured[int(np.argmin(predicted))] / measured.min()))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Places in ascending order; equal values share the mean of theirs."""
    return np.array([(np.sum(values < value) + np.sum(values <= value) - 1) / 2 for value in values])
