"""What the value of an environment variable may be: small parsers that say what they accept."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from openspyre.spec.errors import EnvironmentVariableError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A type of switch. `read` raises ValueError for nonsense; `accepted` completes "VARIABLE=... is not valid: "."""

    accepted: str
    read: Callable[[str], T]


@dataclass(frozen=True, slots=True)
class Switch:
    """One environment variable: a row of the table."""

    variable: str
    kind: Kind[Any]
    meaning: str

    def parse(self, text: str) -> Any:
        try:
            return self.kind.read(text.strip())
        except ValueError:
            raise EnvironmentVariableError(self.variable, text, f"expected {self.kind.accepted}") from None


def switch(variable: str, default: Any, kind: Kind[Any], meaning: str) -> Any:
    """A dataclass field that is a row of the switch table; a callable default is a factory."""
    row = {"switch": Switch(variable, kind, meaning)}
    return field(metadata=row, default_factory=default) if callable(default) else field(metadata=row, default=default)


def integer(low: int, high: int | None = None) -> Kind[int]:
    def read(text: str) -> int:
        value = int(text)
        if value < low or (high is not None and value > high):
            raise ValueError
        return value

    return Kind(f"a whole number from {low} to {high}" if high is not None else f"a whole number from {low} up", read)


def number(low: float, high: float) -> Kind[float]:
    def read(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return Kind(f"a number from {low:g} to {high:g}", read)


def choice(*options: str) -> Kind[str]:
    """One of the options, in any case; read in the spelling given here."""
    by_folded = {option.casefold(): option for option in options}

    def read(text: str) -> str:
        if text.casefold() not in by_folded:
            raise ValueError
        return by_folded[text.casefold()]

    return Kind(f"one of {', '.join(options)}", read)


def _read_bool(text: str) -> bool:
    words = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}
    if text.casefold() not in words:
        raise ValueError
    return words[text.casefold()]


def _read_indices(text: str) -> tuple[int, ...]:
    indices = []
    for entry in text.split(","):
        if not entry.strip().isdecimal():
            raise ValueError
        indices.append(int(entry))
    return tuple(dict.fromkeys(indices))


BOOL = Kind("1 or 0, true or false, on or off", _read_bool)
INDICES = Kind("indices of cards separated by commas, such as 0,2", _read_indices)
TEXT = Kind("any text", str)
PATH = Kind("a path", lambda text: Path(text).expanduser())
