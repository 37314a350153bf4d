"""Reads JSON that may hold anything: what does not fit becomes a problem that names its field, never an exception."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from dataclasses import dataclass

from openspyre.artifact.json_types import Json

MAX_INT = 1 << 62
_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = 80
_brief.maxlist = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a bundle: where, what stands there, what should."""

    file: str
    field: str
    found: str
    expected: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.field}" if self.field else self.file
        return f"{where}: found {self.found}, expected {self.expected}"


def brief(value: object) -> str:
    """A value for people, whatever its size."""
    return _brief.repr(value)


class Problems:
    """Collects what is wrong with one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Problem] = []

    def add(self, field: str, found: object, expected: str) -> None:
        text = found if isinstance(found, _Words) else brief(found)
        self.found.append(Problem(self.file, field, text, expected))

    def say(self, field: str, found: str, expected: str) -> None:
        """As `add`, for a finding already in words."""
        self.add(field, _Words(found), expected)


class _Words(str):
    __slots__ = ()


class Fields:
    """An object of a JSON tree with its path. A wrong field is reported and read as a harmless value of its type."""

    def __init__(self, value: Json, path: str, problems: Problems) -> None:
        self.path = path
        self.problems = problems
        self.values: dict[str, Json] = value if isinstance(value, dict) else {}
        if not isinstance(value, dict):
            problems.add(path, value, "an object")

    def only(self, *names: str) -> None:
        """Reports fields beyond these."""
        for name in self.values.keys() - set(names):
            self.problems.add(self._at(name), self.values[name], f"no such field; known are {', '.join(names)}")

    def _at(self, name: str) -> str:
        return f"{self.path}.{brief(name)[1:-1]}" if self.path else brief(name)[1:-1]

    def _get(self, name: str, expected: str) -> Json:
        if name not in self.values:
            self.problems.say(self._at(name), "nothing", expected)
        return self.values.get(name)

    def _wrong(self, name: str, value: Json, expected: str) -> None:
        if name in self.values:
            self.problems.add(self._at(name), value, expected)

    def integer(self, name: str, low: int = -MAX_INT, high: int = MAX_INT) -> int:
        bounded = high < MAX_INT or low == -MAX_INT
        expected = f"an integer from {low} to {high}" if bounded else f"an integer of at least {low}"
        value = self._get(name, expected)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self._wrong(name, value, expected)
        return max(low, 0)

    def optional_integer(self, name: str, low: int, high: int = MAX_INT) -> int | None:
        return None if name in self.values and self.values[name] is None else self.integer(name, low, high)

    def truth(self, name: str) -> bool:
        value = self._get(name, "true or false")
        if not isinstance(value, bool):
            self._wrong(name, value, "true or false")
        return value is True

    def text(self, name: str) -> str:
        value = self._get(name, "text")
        if isinstance(value, str) and len(value) < 4096:
            return value
        self._wrong(name, value, "text of less than 4096 characters")
        return ""

    def choice(self, name: str, accepted: list[str]) -> str:
        value = self.text(name)
        if value in accepted:
            return value
        if name in self.values and isinstance(self.values[name], str):
            shown = accepted if len(accepted) < 20 else [*accepted[:20], "..."]
            self._wrong(name, value, f"one of {', '.join(shown)}")
        return accepted[0]

    def integers(self, name: str, low: int = -MAX_INT, length: int | None = None) -> tuple[int, ...]:
        count = "" if length is None else f" ({length} of them)"
        expected = f"a list of integers{'' if low == -MAX_INT else f' of at least {low}'}{count}"
        value = self._get(name, expected)
        if (
            isinstance(value, list)
            and len(value) <= 64
            and all(isinstance(v, int) and not isinstance(v, bool) and low <= v <= MAX_INT for v in value)
            and length in (None, len(value))
        ):
            return tuple(v for v in value if isinstance(v, int))
        self._wrong(name, value, expected)
        return (max(low, 0),) * (length or 0)

    def inner(self, name: str) -> Fields:
        value = self._get(name, "an object")
        return Fields(value if name in self.values else {}, self._at(name), self.problems)

    def inners(self, name: str, most: int = 1 << 20) -> Iterator[Fields]:
        value = self._get(name, "a list of objects")
        if not isinstance(value, list) or len(value) > most:
            self._wrong(name, value, f"a list of at most {most} objects")
            return
        for place, item in enumerate(value):
            yield Fields(item, f"{self._at(name)}[{place}]", self.problems)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._get(name, "a list of texts")
        if isinstance(value, list) and all(isinstance(v, str) and len(v) < 4096 for v in value):
            return tuple(v for v in value if isinstance(v, str))
        self._wrong(name, value, "a list of texts")
        return ()
