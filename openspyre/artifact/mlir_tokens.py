"""The words of MLIR text: what `bundle.mlir` is made of, with the line each stands in."""

from __future__ import annotations

import re
from dataclasses import dataclass

# In MLIR's own names: %value, #alias, @symbol, !type; a bare word may hold dots; strings as in JSON.
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<arrow>->)
  | (?P<value>%[A-Za-z0-9_$.\-]+)
  | (?P<alias>\#[A-Za-z_][A-Za-z0-9_$.]*)
  | (?P<symbol>@[A-Za-z_][A-Za-z0-9_$.]*)
  | (?P<type>![A-Za-z_][A-Za-z0-9_$.]*)
  | (?P<number>-?[0-9]+)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<word>[A-Za-z_][A-Za-z0-9_$.]*)
  | (?P<mark>[(){}\[\]<>,:=+*])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"{self.text!r}" if self.kind != "end" else "the end of the file"


class MlirError(Exception):
    """Text that is not this subset of MLIR: the line, what stands there, what should."""

    def __init__(self, line: int, found: str, expected: str) -> None:
        super().__init__(f"line {line}: found {found}, expected {expected}")
        self.line, self.found, self.expected = line, found, expected


def tokens(text: str) -> list[Token]:
    found: list[Token] = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise MlirError(line, repr(text[position : position + 20]), "a word of MLIR")
        if match.lastgroup != "space":
            found.append(Token(str(match.lastgroup), match[0], line))
        line += match[0].count("\n")
        position = match.end()
    return [*found, Token("end", "", line)]
