"""bundle.mlir: constants, sums, affine maps, loops and executions, in the order they are written."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import BundleError

SEGMENT = 1 << 34  # bytes: parameter i, or launch argument i where addresses are numbers, starts at i segments
POOL = "%pool_base_addr"

_NAME = r"%[\w.$-]+"
_MAP = re.compile(r"(#[\w.$-]+)\s*=\s*affine_map\s*<\s*\((.*?)\)\s*(?:\[(.*?)\])?\s*->\s*\((.*?)\)\s*>")
_FUNCTION = re.compile(r"func\.func\s+@sdsc_bundle\s*\((.*?)\)\s*\{", re.S)
_PARAMETER = re.compile(rf"({_NAME})\s*:\s*!sdscbundle\.input_arg<index([^>]*)>")
_MAXIMUM = re.compile(r"max_value\s*=\s*(\d+)")
_STATEMENTS = {
    "extract": re.compile(
        rf"({_NAME})\s*=\s*sdscbundle\.input_arg_extract\s+value\s+from\s+({_NAME})\s*:[^>]*>\s*->\s*index"
    ),
    "constant": re.compile(rf"({_NAME})\s*=\s*arith\.constant\s+(-?\d+)\s*:\s*index"),
    "add": re.compile(rf"({_NAME})\s*=\s*arith\.addi\s+({_NAME})\s*,\s*({_NAME})\s*:\s*index"),
    "apply": re.compile(rf"({_NAME})\s*=\s*affine\.apply\s+(#[\w.$-]+)\s*\((.*?)\)\s*(?:\[(.*?)\])?"),
    "loop": re.compile(rf"scf\.for\s+({_NAME})\s*=\s*({_NAME})\s+to\s+({_NAME})\s+step\s+({_NAME})\s*\{{"),
    "execute": re.compile(r"sdscbundle\.sdsc_execute\s*\((.*?)\)\s*\{(.*?)\}", re.S),
    "end": re.compile(r"return\s*\}|\}"),
}
_FILE = re.compile(r"\"?sdsc_filename\"?\s*=\s*\"([^\"]+)\"")
_SYMBOLS = re.compile(r"\"?symbol_ids\"?\s*=\s*\[([^\]]*)\]")
_EXPRESSION = re.compile(r"(?:[ds]\d+|\d+|floordiv|mod|[-+*()\s])*")

Launch = Callable[[str, dict[int, int]], None]


@dataclass(frozen=True)
class Program:
    """The text of one bundle, taken apart as far as it can be without running it."""

    path: Path
    text: str
    start: int
    maps: dict[str, Callable[[list[int], list[int]], int]]
    addresses: tuple[str, ...]
    sizes: dict[str, int]

    def run(self, launch: Launch) -> None:
        """Calls launch(file, {symbol id: value}) for every execution, loops unrolled."""
        values = {name: i * SEGMENT for i, name in enumerate(self.addresses)} | self.sizes
        self._block(self.start, values, launch)

    def _block(self, at: int, values: dict[str, int], launch: Launch) -> int:
        while True:
            at = _skip(self.text, at)
            kind, match = self._statement(at)
            at = match.end()
            if kind == "end":
                return at
            groups = match.groups()
            if kind == "loop":
                at = self._loop(at, groups, values, launch)
            elif kind == "execute":
                launch(*self._execution(groups, values))
            else:
                values[groups[0]] = self._value(kind, groups, values)

    def _statement(self, at: int) -> tuple[str, re.Match[str]]:
        for kind, pattern in _STATEMENTS.items():
            if match := pattern.match(self.text, at):
                return kind, match
        raise BundleError(f"{self.path}: no statement of a bundle: {self.text[at : at + 80].splitlines()[0]!r}")

    def _loop(self, body: int, groups: tuple[str, ...], values: dict[str, int], launch: Launch) -> int:
        first, bound, step = (self._known(name, values) for name in groups[1:])
        for value in range(first, bound, step):
            self._block(body, values | {groups[0]: value}, launch)
        # An empty loop still has a body to step over.
        return self._block(body, values | {groups[0]: first}, lambda file, symbols: None)

    def _execution(self, groups: tuple[str, ...], values: dict[str, int]) -> tuple[str, dict[int, int]]:
        operands = [self._known(name, values) for name in _names(groups[0])]
        file, symbols = _FILE.search(groups[1]), _SYMBOLS.search(groups[1])
        if file is None:
            raise BundleError(f"{self.path}: sdsc_execute without sdsc_filename")
        ids = [int(i) for i in symbols[1].split(",") if i.strip()] if symbols else []
        if len(ids) != len(operands):
            raise BundleError(f"{self.path}: {file[1]} has {len(operands)} operands and {len(ids)} symbol_ids")
        return file[1], dict(zip(ids, operands, strict=True))

    def _value(self, kind: str, groups: tuple[str, ...], values: dict[str, int]) -> int:
        if kind == "constant":
            return int(groups[1])
        if kind == "apply":
            dims, symbols = ([self._known(n, values) for n in _names(text or "")] for text in groups[2:])
            return self.maps[groups[1]](dims, symbols)
        return sum(self._known(name, values) for name in groups[1:])

    def _known(self, name: str, values: dict[str, int]) -> int:
        if name not in values:
            raise BundleError(f"{self.path}: {name} is used before it has a value")
        return values[name]


def read(path: Path) -> Program:
    text = re.sub(r"//[^\n]*", "", path.read_text())
    function = _FUNCTION.search(text)
    if function is None:
        raise BundleError(f"{path}: no function @sdsc_bundle")
    parameters = _PARAMETER.findall(function[1])
    sizes = {name: int(m[1]) for name, rest in parameters if (m := _MAXIMUM.search(rest))}
    addresses = tuple(name for name, _ in parameters if name not in sizes)
    maps = {name: _affine(path, dims, symbols, body) for name, dims, symbols, body in _MAP.findall(text)}
    return Program(path, text, function.end(), maps, addresses, sizes)


def _affine(path: Path, dims: str, symbols: str, body: str) -> Callable[[list[int], list[int]], int]:
    if not _EXPRESSION.fullmatch(body):
        raise BundleError(f"{path}: affine expression {body!r}")
    names = [n.strip() for n in f"{dims},{symbols}".split(",") if n.strip()]
    code = compile(body.replace("floordiv", "//").replace("mod", "%"), str(path), "eval")
    return lambda d, s: eval(code, {"__builtins__": {}}, dict(zip(names, [*d, *s], strict=True)))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
