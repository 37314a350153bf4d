"""Where something stands in the sources: file and line, as `openspyre ops --where` prints them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Place:
    """One place that knows an operator, a row or an op of the hardware; line 0 where only the file is known."""

    name: str
    what: str
    file: str
    line: int

    def as_record(self) -> dict[str, object]:
        return asdict(self)


def shown(file: str | Path) -> str:
    """A path within the project; one of somebody else's stays whole."""
    path = Path(file)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()


def place_of(name: str, what: str, function: Callable[..., object]) -> Place:
    """Where a function is written. One that another made is found by the text of the operator's name in its file."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return Place(name, what, getattr(function, "__module__", "?"), 0)
    line = line_of(code.co_filename, name) if "<locals>" in function.__qualname__ else None
    return Place(name, what, shown(code.co_filename), line or code.co_firstlineno)


def line_of(file: str | Path, name: str) -> int | None:
    """The first line of a file that has a name between quotes, or a schema that begins with it."""
    lines = _lines(str(file))
    return next((number for number, line in enumerate(lines, 1) if f'"{name}"' in line or f'"{name}(' in line), None)


@functools.cache
def _lines(file: str) -> list[str]:
    path = Path(file)
    return path.read_text().splitlines() if path.is_file() else []
