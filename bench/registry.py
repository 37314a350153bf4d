"""The registry of cases: what is measured, and the number it is held to."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from bench.timing import Effort, Measurement, Pair, compare

Threads = Literal["one", "all"]
BOTH: tuple[Threads, ...] = ("one", "all")
ONE: tuple[Threads, ...] = ("one",)


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table: at most `asked` is promised, `goal` is what we want beyond (None: nothing named)."""

    name: str
    asked: float
    goal: float | None
    unit: str  # "x": time of ours over time of the baseline
    baseline: str
    threads: tuple[Threads, ...]
    run: Callable[[Effort], Pair | Measurement]

    def measure(self, effort: Effort) -> Measurement:
        """Runs the case here and now; a pair is timed, a measurement is taken as it is."""
        found = self.run(effort)
        return compare(found, effort) if isinstance(found, Pair) else found

    def verdict(self, value: float) -> str:
        """How a measured value stands to what was asked and to the goal."""
        if value > self.asked:
            return "short"
        return "goal" if self.goal is not None and value <= self.goal else "pass"


_cases: dict[str, Case] = {}


def case(
    name: str,
    *,
    asked: float,
    baseline: str,
    goal: float | None = None,
    unit: str = "x",
    threads: tuple[Threads, ...] = BOTH,
    over: Iterable[Any] | None = None,
) -> Callable[[Callable[..., Pair | Measurement]], Callable[..., Pair | Measurement]]:
    """Registers a function of an Effort that returns a Pair or a Measurement.

    With `over`, one case per item: the function gets the item first, and `{}` in the name is the item.
    """

    def register(run: Callable[..., Pair | Measurement]) -> Callable[..., Pair | Measurement]:
        items: Sequence[Any] = [None] if over is None else list(over)
        for item in items:
            title = name if over is None else name.format(item)
            if title in _cases:
                raise ValueError(f"two cases are called {title!r}: a name is how --only and the results refer to one")
            bound = run if over is None else partial(run, item)
            _cases[title] = Case(title, asked, goal, unit, baseline, threads, bound)
        return run

    return register


def cases(only: str = "") -> list[Case]:
    """All cases whose name matches the regular expression, in the order they are written."""
    package = importlib.import_module("bench.cases")
    for module in pkgutil.iter_modules(package.__path__, "bench.cases."):
        importlib.import_module(module.name)
    return [found for found in _cases.values() if re.search(only, found.name)]
