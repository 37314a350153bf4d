"""Lines of a keyword and a JSON object, read with their types checked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TypeVar, cast

from openspyre.spec.errors import SpyreError

_Choice = TypeVar("_Choice", bound=StrEnum)
_Made = TypeVar("_Made")


class InvalidProgram(SpyreError, ValueError):
    """A text that is no program; the message names the line."""


class Line:
    """A line with the number it first has; every getter names the field that is wrong."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.keyword, _, rest = text.strip().partition(" ")
        values: object = None
        with contextlib.suppress(ValueError, RecursionError):
            values = json.loads(rest)
        if not isinstance(values, dict):
            raise self.wrong(self.keyword, rest, "a JSON object")
        self.values: dict[str, object] = values
        self._made: object = None

    def once(self, make: Callable[[Line], _Made]) -> _Made:
        """What is made of this line alone: a program's equal lines share it."""
        if self._made is None:
            self._made = make(self)
        return cast(_Made, self._made)

    def wrong(self, field: str, found: object, expected: str) -> InvalidProgram:
        return InvalidProgram(f"line {self.number}, {field}: found {str(found)[:80]!r}, expected {expected}")

    def _get(self, name: str, kind: type, expected: str) -> object:
        value = self.values.get(name)
        if type(value) is not kind:
            raise self.wrong(name, value, expected)
        return value

    def integer(self, name: str) -> int:
        value = self._get(name, int, "an integer")
        assert isinstance(value, int)
        if abs(value) >= 1 << 63:
            raise self.wrong(name, value, "an integer of 64 bits")
        return value

    def truth(self, name: str) -> bool:
        return self._get(name, bool, "true or false") is True

    def text(self, name: str) -> str:
        return str(self._get(name, str, "text"))

    def integers(self, name: str) -> tuple[int, ...]:
        values = self._get(name, list, "a list of integers")
        assert isinstance(values, list)
        if not all(type(value) is int and abs(value) < 1 << 63 for value in values):
            raise self.wrong(name, values, "a list of integers of 64 bits")
        return tuple(values)

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._get(name, list, "a list of texts")
        assert isinstance(values, list)
        if not all(type(value) is str for value in values):
            raise self.wrong(name, values, "a list of texts")
        return tuple(values)

    def choice(self, name: str, kind: type[_Choice]) -> _Choice:
        return self._one(name, self.text(name), kind)

    def choices(self, name: str, kind: type[_Choice]) -> tuple[_Choice, ...]:
        return tuple(self._one(name, value, kind) for value in self.texts(name))

    def optional_choice(self, name: str, kind: type[_Choice]) -> _Choice | None:
        return None if self.values.get(name, "") is None else self.choice(name, kind)

    def _one(self, name: str, value: str, kind: type[_Choice]) -> _Choice:
        try:
            return kind(value)
        except ValueError:
            raise self.wrong(name, value, f"one of {', '.join(kind)}") from None


class Lines:
    """The lines of a text, taken one after the other. Equal lines are one object, read once: layers repeat themselves."""

    def __init__(self, text: str) -> None:
        known: dict[str, Line] = {}
        self._lines: list[tuple[int, Line]] = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                found = known.get(line)
                if found is None:
                    found = known[line] = Line(number, line)
                self._lines.append((number, found))
        self._next = 0

    @property
    def keyword(self) -> str:
        """Of the next line; none at the end."""
        return self._lines[self._next][1].keyword if self._next < len(self._lines) else ""

    def next_is(self, keyword: str) -> bool:
        return self._next < len(self._lines) and self._lines[self._next][1].keyword == keyword

    def take(self, keyword: str) -> Line:
        if not self.next_is(keyword):
            raise self._unexpected(keyword)
        self._next += 1
        return self._lines[self._next - 1][1]

    def all(self, keyword: str) -> Iterator[Line]:
        while self.next_is(keyword):
            yield self.take(keyword)

    def expect_end(self) -> None:
        if self._next < len(self._lines):
            raise self._unexpected("the end")

    def _unexpected(self, expected: str) -> InvalidProgram:
        if self._next < len(self._lines):
            number, line = self._lines[self._next]
            return InvalidProgram(f"line {number}, keyword: found {line.keyword[:80]!r}, expected {expected}")
        return InvalidProgram(f"the text ends where {expected!r} should follow")
