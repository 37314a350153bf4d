"""What a comparison found, as records; they print as a table, and go into JSON and a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from torch_spyre.comparing.text import table


@dataclass(frozen=True, slots=True)
class Difference:
    """A tensor beside what it should be. `relative`: of the L2 norms; `units`: the largest, in steps of the format at the result's scale.

    Counts of elements: `saturated` are infinite, `flushed` are zero and `not_numbers` are NaN where they should not be; of bools and
    integers, which have no error, `decided` are those that differ.
    """

    elements: int
    relative: float = 0.0
    units: float = 0.0
    saturated: int = 0
    flushed: int = 0
    not_numbers: int = 0
    decided: int = 0

    @property
    def lost(self) -> int:
        """Elements of which nothing is left."""
        return self.saturated + self.not_numbers

    @property
    def notes(self) -> str:
        named = {"saturated": self.saturated, "flushed": self.flushed, "NaN": self.not_numbers, "differ": self.decided}
        return ", ".join(f"{count} {name}" for name, count in named.items() if count)


@dataclass(frozen=True, slots=True)
class ComparedModule:
    """One call of a module: `total` is its first output on the card beside float32's."""

    path: str
    kind: str
    call: int
    shape: tuple[int, ...]
    dtype: str
    total: Difference


@dataclass(frozen=True, slots=True)
class ComparedOperator:
    """One operator: `own` is what it rounds by itself, on the inputs that the card gave it; `inherited` what those inputs bring along."""

    number: int
    name: str
    module: str
    shape: tuple[int, ...]
    dtype: str
    own: Difference
    inherited: Difference
    total: Difference


@dataclass(frozen=True, slots=True)
class ComparedWeight:
    """A parameter or a buffer as the card holds it."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    stored: Difference


@dataclass(frozen=True, slots=True)
class Comparison:
    """`modules` in the order in which they returned, `operators` in the order in which they ran.

    `followed`: operators whose float32 result is the card's, with the reason: random numbers, or no such operator on the CPU.
    """

    bound: float
    modules: tuple[ComparedModule, ...]
    operators: tuple[ComparedOperator, ...]
    weights: tuple[ComparedWeight, ...]
    followed: tuple[tuple[str, str], ...] = ()

    @property
    def result(self) -> Difference | None:
        """The whole model's; None of a function."""
        return next((module.total for module in reversed(self.modules) if not module.path), None)

    @property
    def first_beyond(self) -> ComparedModule | None:
        """The first module to return whose output is further off than the bound."""
        return next((one for one in self.modules if is_beyond(one.total, self.bound)), None)

    def worst(self, count: int = 10) -> Sequence[ComparedOperator]:
        """Operators that add most error themselves."""
        return sorted(self.operators, key=lambda one: (-one.own.lost, -one.own.relative, one.number))[:count]

    def record(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        return asdict(self)

    def json(self) -> str:
        return json.dumps(self.record(), indent=1, allow_nan=False)

    def html(self, path: str | PathLike[str]) -> Path:
        """Writes one page that needs no network; returns where."""
        from torch_spyre.comparing.page import page

        place = Path(path)
        place.write_text(page(self), encoding="utf-8")
        return place

    def __str__(self) -> str:
        return table(self)


def is_beyond(found: Difference, bound: float) -> bool:
    return found.relative > bound or found.lost > 0
