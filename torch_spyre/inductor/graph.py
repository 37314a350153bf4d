"""The imported form of a graph: a list of aten calls on tensors, free of layouts, and its text.

A value is a tensor as its caller sees it: size, strides and offset inside a buffer, so that views are values and never calls.
Sizes may be expressions in the graph's symbols; binding the symbols gives numbers.
"""

from __future__ import annotations

import ast
import hashlib
import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from openspyre.compiler.ir import Hint
from openspyre.spec.origin import NOWHERE, Change, Origin

Extent = int | str  # a number, or an expression in the graph's symbols
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: elements of `buffer` at offset + sum(stride * index)."""

    buffer: str
    dtype: str
    size: tuple[Extent, ...]
    stride: tuple[Extent, ...]
    offset: Extent = 0


@dataclass(frozen=True, slots=True)
class Ref:
    """An argument that is value number `value` of the graph."""

    value: int


@dataclass(frozen=True, slots=True)
class Expression:
    """An argument that is a whole number computed from the graph's symbols."""

    text: str


@dataclass(frozen=True, slots=True)
class Named:
    """An argument that is one of torch's own objects: a dtype, a memory format, a layout, a device."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """An argument that each launch brings anew, at this place among its numbers; it chooses no program."""

    place: int
    dtype: str
    encoding: str = ""  # how a launch writes it, once a lowering has said so


@dataclass(frozen=True, slots=True)
class DrawnWord:
    """A word of the seed or of the offset that draw number `draw` of a launch begins at. One seed serves all of its draws."""

    draw: int
    word: str

    def after(self, draws: int) -> DrawnWord:
        return self if self.word in ("seed_low", "seed_high") else DrawnWord(self.draw + draws, self.word)


Argument = Ref | Expression | Named | Number | None | bool | int | float | str | tuple["Argument", ...]


@dataclass(frozen=True, slots=True)
class GraphCall:
    """One aten call, arguments in the order of its schema. `results` are value numbers, -1 for those nobody reads."""

    target: str
    arguments: tuple[Argument, ...]
    results: tuple[int, ...]
    origin: Origin = NOWHERE
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True, slots=True)
class Growth:
    """What is known of a symbol: that its size changes, and the least and the largest that the user has named (`mark_dynamic`)."""

    changes: bool = False
    least: int | None = None
    largest: int | None = None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Graph:
    """What one launch computes. `inputs` and `outputs` are value numbers; `updated` are the inputs written in place.

    `numbers` says how many numbers a launch brings. `constants` are values that are known already: their bytes, packed.
    `named`: values whose dims the user has named, each name with a size; values that are seen so without a copy.
    `shown` are the sizes in which the caller sees the outputs, which may be views of them. `growth`: per symbol.
    """

    name: str
    symbols: tuple[str, ...]
    values: tuple[Value, ...]
    calls: tuple[GraphCall, ...]
    inputs: tuple[int, ...]
    updated: tuple[int, ...]
    outputs: tuple[int, ...]
    numbers: int = 0
    constants: tuple[tuple[int, str], ...] = ()
    named: tuple[tuple[int, tuple[tuple[str, Extent], ...]], ...] = ()
    shown: tuple[tuple[Extent, ...], ...] = ()
    growth: tuple[Growth, ...] = ()


def key_of(graph: Graph) -> str:
    """The graph's name in caches: graphs that compute the same have equal keys, whatever they and their parts are called."""
    buffers: dict[str, int] = {}
    symbols = {symbol: f"n{place}" for place, symbol in enumerate(graph.symbols)}

    def numbered(extents: tuple[Extent, ...]) -> tuple[Extent, ...]:
        return tuple([_renamed(extent, symbols) for extent in extents]) if symbols else extents

    def argument(given: Argument) -> object:
        match given:
            case Ref(value=value):
                return Ref, value
            case Expression(text=text):
                return Expression, _renamed(text, symbols)
            case tuple():
                return tuple([argument(item) for item in given])
            case float():
                return float, given.hex()
        return given

    values = [
        (
            buffers.setdefault(v.buffer, len(buffers)),
            v.dtype,
            numbered(v.size),
            numbered(v.stride),
            numbered((v.offset,)),
        )
        for v in graph.values
    ]
    calls = [(c.target, [argument(a) for a in c.arguments], c.results, c.hints) for c in graph.calls]
    named = [(value, [(name, *numbered((size,))) for name, size in names]) for value, names in graph.named]
    shown = [numbered(size) for size in graph.shown]
    arguments = (graph.inputs, graph.updated, graph.outputs, shown, graph.constants)
    decisive = (len(symbols), graph.numbers, values, calls, *arguments, named, graph.growth)
    return hashlib.sha256(repr(decisive).encode()).hexdigest()


def launch_key(graph: Graph) -> str:
    """The name of a graph with its lines: what two lines compute alike is compiled alike, and each launch tells its own."""
    lines = [(c.origin.file, c.origin.line, c.origin.function, c.origin.operator, c.origin.module) for c in graph.calls]
    return key_of(graph)[:48] + hashlib.sha256(repr(lines).encode()).hexdigest()[:16]


def names_in(text: str) -> set[str]:
    """Symbols and functions of an expression."""
    return set(_NAME.findall(text))


def unified(graph: Graph, symbol: str, others: Mapping[str, int], fixed: Mapping[str, int] | None = None) -> Graph:
    """The graph where other symbols are always so much larger than this one: it stands for all; or are fixed numbers."""
    names = {other: f"({symbol} + {more})" if more else symbol for other, more in others.items()}
    names |= {other: str(size) for other, size in (fixed or {}).items()}

    def argument(given: Argument) -> Argument:
        match given:
            case Expression(text=text):
                extent = _renamed(text, names)
                return extent if isinstance(extent, int) else Expression(extent)
            case tuple():
                return tuple(map(argument, given))
        return given

    def extents(given: tuple[Extent, ...]) -> tuple[Extent, ...]:
        return tuple(_renamed(extent, names) for extent in given)

    return replace(
        graph,
        symbols=tuple(name for name in graph.symbols if name not in names),
        values=tuple(
            replace(v, size=extents(v.size), stride=extents(v.stride), offset=_renamed(v.offset, names))
            for v in graph.values
        ),
        calls=tuple(replace(c, arguments=tuple(map(argument, c.arguments))) for c in graph.calls),
        named=tuple(
            (number, tuple((name, _renamed(size, names)) for name, size in dims)) for number, dims in graph.named
        ),
        shown=tuple(map(extents, graph.shown)),
        growth=(),
    )


def _renamed(extent: Extent, symbols: Mapping[str, str]) -> Extent:
    if isinstance(extent, int):
        return extent
    text = _NAME.sub(lambda found: symbols.get(found[0], found[0]), extent)
    return text if names_in(text) - _FUNCTIONS.keys() else evaluate(text, {})


# --- numbers from symbols ------------------------------------------------------------------------------------------------

_OPERATORS: dict[type[ast.AST], Callable[..., int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"max": max, "min": min, "abs": abs}


def evaluate(extent: Extent, symbols: Mapping[str, int]) -> int:
    """The number an extent stands for. Text is never executed: only arithmetic on known names is understood."""
    return extent if isinstance(extent, int) else _walk(ast.parse(extent, mode="eval").body, symbols, extent)


def _walk(node: ast.AST, symbols: Mapping[str, int], text: str) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in symbols:
            return symbols[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_walk(left, symbols, text), _walk(right, symbols, text))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_walk(operand, symbols, text))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_walk(argument, symbols, text) for argument in args))
    raise ValueError(f"{text!r} is no arithmetic on the symbols {', '.join(symbols) or '(none)'}")


# --- text ----------------------------------------------------------------------------------------------------------------


def to_text(graph: Graph) -> str:
    values = [[v.buffer, v.dtype, list(v.size), list(v.stride), v.offset] for v in graph.values]
    calls = [
        [c.target, [_plain(a) for a in c.arguments], list(c.results), plain_origin(c.origin), *map(astuple, c.hints)]
        for c in graph.calls
    ]
    lines = [
        f'{{"name": {json.dumps(graph.name)}, "symbols": {json.dumps(list(graph.symbols))},',
        f'"inputs": {list(graph.inputs)}, "updated": {list(graph.updated)}, "outputs": {list(graph.outputs)},',
        f'"shown": {json.dumps(graph.shown)}, "growth": {json.dumps([astuple(growth) for growth in graph.growth])},',
        f'"numbers": {graph.numbers}, "constants": {json.dumps(graph.constants)}, "named": {json.dumps(graph.named)},',
        '"values": [\n' + ",\n".join(map(json.dumps, values)) + "],",
        '"calls": [\n' + ",\n".join(map(json.dumps, calls)) + "]}",
    ]
    return "\n".join(lines) + "\n"


def from_text(text: str) -> Graph:
    data = json.loads(text)
    return Graph(
        name=data["name"],
        symbols=tuple(data["symbols"]),
        values=tuple(Value(b, dtype, tuple(size), tuple(stride), at) for b, dtype, size, stride, at in data["values"]),
        calls=tuple(
            GraphCall(
                target, tuple(map(_argument, arguments)), tuple(results), origin_of(origin), tuple(map(_hint, hints))
            )
            for target, arguments, results, origin, *hints in data["calls"]
        ),
        inputs=tuple(data["inputs"]),
        updated=tuple(data["updated"]),
        outputs=tuple(data["outputs"]),
        shown=tuple(map(tuple, data["shown"])),
        growth=tuple(Growth(*known) for known in data["growth"]),
        numbers=data["numbers"],
        constants=tuple((number, values) for number, values in data["constants"]),
        named=tuple((number, tuple((name, size) for name, size in names)) for number, names in data["named"]),
    )


def plain_origin(origin: Origin) -> list[Any]:
    """As JSON has it; `origin_of` reads it back."""
    if origin is NOWHERE:
        return []
    call = [origin.file, origin.line, origin.function, origin.operator, list(origin.nodes), origin.module]
    if not origin.merged and not origin.history:
        return call
    return [*call, [plain_origin(other) for other in origin.merged], [astuple(change) for change in origin.history]]


def origin_of(plain: list[Any]) -> Origin:
    if not plain:
        return NOWHERE
    file, line, function, operator, nodes, module, *more = plain
    merged, history = more or ((), ())
    changes = tuple(Change(*change) for change in history)
    return Origin(file, line, function, operator, tuple(nodes), module, tuple(map(origin_of, merged)), changes)


def _hint(plain: Any) -> Hint:
    number, work_div, *others, whole = plain
    tiles, named, reduced = (None if other is None else tuple(other) for other in others)
    return Hint(number, tuple((name, cores) for name, cores in work_div), tiles, named, reduced, whole)


def _plain(argument: Argument) -> Any:
    match argument:
        case Ref(value=value):
            return {"value": value}
        case Expression(text=text):
            return {"expression": text}
        case Named(kind=kind, name=name):
            return {"kind": kind, "name": name}
        case Number(place=place, dtype=dtype):
            return {"number": place, "dtype": dtype}
        case tuple():
            return [_plain(item) for item in argument]
        case float():
            return {"float": argument.hex()}
    return argument


def _argument(plain: Any) -> Argument:
    match plain:
        case {"value": int(value)}:
            return Ref(value)
        case {"expression": str(text)}:
            return Expression(text)
        case {"kind": str(kind), "name": str(name)}:
            return Named(kind, name)
        case {"number": int(place), "dtype": str(dtype)}:
            return Number(place, dtype)
        case {"float": str(text)}:
            return float.fromhex(text)
        case list():
            return tuple(map(_argument, plain))
        case None | bool() | int() | str():
            return plain
    raise ValueError(f"{plain!r} is no argument of a graph")
