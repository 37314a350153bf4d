"""The timing core: two works timed in turn, round by round, and the median of the per-round ratios.

What disturbs a shared machine disturbs both halves of a round, so the ratio of a round is steadier than either time.
"""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

Work = Callable[[], object] | str  # a string is compiled into the timing loop: no call of ours in between
Timer = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared. `names` are the variables of works that are strings; the baseline may have its own."""

    ours: Work
    baseline: Work
    names: Mapping[str, object] = field(default_factory=dict)
    baseline_names: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a comparison does: rounds until `seconds` are spent, but at least and at most so many.

    Samples are short and rounds many: another process then spoils some rounds, which the median leaves aside, not all.
    """

    least_rounds: int
    most_rounds: int
    seconds: float
    processes: int  # pairs of fresh processes, for what happens once in a process
    sample_seconds: float = 0.001  # what one work takes in one round, at least
    warmup_rounds: int = 2


FULL = Effort(least_rounds=31, most_rounds=501, seconds=2.0, processes=15)
QUICK = Effort(least_rounds=7, most_rounds=101, seconds=0.2, processes=3)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number with its spread: the quartiles of what the rounds gave, and the median seconds of one call each.

    `best` compares the fastest samples of both: far below the value, the machine was busy otherwise.
    """

    value: float
    low: float
    high: float
    rounds: int
    ours_seconds: float | None = None
    baseline_seconds: float | None = None
    best: float | None = None


def summarize(per_round: list[float]) -> Measurement:
    """Median and quartiles of what each round gave."""
    if len(per_round) < 2:
        return Measurement(per_round[0], per_round[0], per_round[0], len(per_round))
    low, _, high = statistics.quantiles(per_round, n=4, method="inclusive")
    return Measurement(statistics.median(per_round), low, high, len(per_round))


def repeats_for(work: timeit.Timer, sample_seconds: float) -> int:
    """Calls that fill one sample: doubled until they do."""
    repeats = 1
    while work.timeit(repeats) < sample_seconds and repeats < 1 << 24:
        repeats *= 2
    return repeats


def compare(pair: Pair, effort: Effort, timer: Timer = time.perf_counter) -> Measurement:
    """Time of ours over time of the baseline. The two take turns in going first."""
    names = dict(pair.names)
    baseline_names = names if pair.baseline_names is None else dict(pair.baseline_names)
    works = [timeit.Timer(pair.ours, timer=timer, globals=names)]
    works.append(timeit.Timer(pair.baseline, timer=timer, globals=baseline_names))
    repeats = [repeats_for(work, effort.sample_seconds) for work in works]

    def sample(which: int) -> float:
        return works[which].timeit(repeats[which]) / repeats[which]

    rounds: list[tuple[float, float]] = []
    spent, turn = 0.0, 0
    while len(rounds) < effort.least_rounds or (spent < effort.seconds and len(rounds) < effort.most_rounds):
        baseline_first = turn % 2 == 1
        first, second = sample(int(baseline_first)), sample(int(not baseline_first))
        spent += first * repeats[int(baseline_first)] + second * repeats[int(not baseline_first)]
        if turn >= effort.warmup_rounds:
            rounds.append((second, first) if baseline_first else (first, second))
        turn += 1
    ratio = summarize([mine / theirs for mine, theirs in rounds])
    ours, baseline = zip(*rounds, strict=True)
    return replace(
        ratio,
        ours_seconds=statistics.median(ours),
        baseline_seconds=statistics.median(baseline),
        best=min(ours) / min(baseline),
    )
