"""The IR as text and back: a line per object, names quoted, numbers and lists as in JSON. What passes are shown and tested in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from openspyre.compiler.ir import (
    Access,
    Attribute,
    Buffer,
    Constant,
    Dim,
    Hint,
    InPool,
    InScratchpad,
    Iota,
    Loop,
    NamedDim,
    Node,
    Op,
    Operand,
    Place,
    Program,
    Role,
    Scalar,
)
from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.machine import SPYRE
from openspyre.spec.origin import NOWHERE, Change, Origin
from openspyre.spec.packing import packed, unpacked, value_bytes

Item = TypeVar("Item")
_WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\[[^]]*\]|[^\s"\[\]]+)')


class InvalidText(SpyreError, ValueError):
    """A text that is no IR program; the message names the line."""


def print_program(program: Program) -> str:
    lines = [f"program {_quote(program.name)} pool {program.pool_bytes}"]
    lines += [_scalar_text(scalar) for scalar in program.scalars]
    lines += [_buffer_line(buffer) for buffer in program.buffers]
    return "\n".join([*lines, *_node_lines(program.body, ""), ""])


def _node_lines(body: tuple[Node, ...], indent: str) -> Iterator[str]:
    for node in body:
        match node:
            case Op():
                yield from (indent + line for line in _op_lines(node))
            case Loop(count, inner):
                yield f"{indent}loop {count}"
                yield from _node_lines(inner, indent + "  ")
                yield f"{indent}end"


def _quote(text: str) -> str:
    return json.dumps(text)


def _list(numbers: tuple[int, ...] | list[int]) -> str:
    return json.dumps(list(numbers))


def _scalar_text(scalar: Scalar) -> str:
    return f"number {_quote(scalar.name)} {scalar.dtype}" + (
        "" if scalar.word is None else f" word {scalar.word:#010x}"
    )


def _buffer_line(buffer: Buffer) -> str:
    parts = [f"buffer {_quote(buffer.name)} {buffer.role} {buffer.dtype} {_list(buffer.size)} {_list(buffer.stride)}"]
    if buffer.layout is not None:
        layout = buffer.layout
        parts.append(f"layout {_list(layout.device_size)} {_list(layout.stride_map)}")
        parts.append(f"{layout.device_dtype.name} {layout.element_arrangement.name}")
    match buffer.place:
        case InPool(byte):
            parts.append(f"place {byte}")
        case InScratchpad(byte):
            parts.append(f"scratchpad {byte}")
    if buffer.unset:
        parts.append("unset")
    if buffer.spare_rows:
        parts.append("spare_rows")
    parts += [f"named {_quote(named.name)} {named.size} {named.stride}" for named in buffer.named]
    if buffer.values is not None:
        parts.append(f"values {packed(buffer.values)}")
    return " ".join(parts)


def _op_lines(op: Op) -> Iterator[str]:
    yield f"op {_quote(op.name)} {op.row}"
    if op.origin:
        yield from _origin_lines(op.origin)
    for dim in op.dims:
        marks = " reduced" * dim.reduced + " lanes" * dim.lanes
        splits = f" split {dim.split}" if dim.split != 1 else ""
        yield f"  dim {_quote(dim.name)} {dim.size}{marks}{splits}" + _names("named", dim.named or None)
    for operand in op.inputs:
        match operand:
            case Access():
                yield _access_line("read", operand)
            case Scalar():
                yield f"  {_scalar_text(operand)}"
            case Constant(bits=bits, dtype=dtype):
                yield f"  constant {bits:#010x} {dtype}"
            case Iota(offset=offset, strides=strides):
                yield f"  count {offset} {_list(strides)}"
    for output in op.outputs:
        yield _access_line("write", output)
    for name, value in op.attributes:
        yield f"  with {_quote(name)} {json.dumps(value)}"
    for hint in op.hints:
        yield f"  hint {hint.number}{_hint_words(hint)}"


def _origin_lines(origin: Origin) -> Iterator[str]:
    for keyword, one in (("from", origin), *(("also", other) for other in origin.merged)):
        if keyword == "from" and not one.call:
            continue
        words = [f"  {keyword} {_quote(one.file)} {one.line}"]
        named = (("in", one.function), ("calls", one.operator), ("of", one.module))
        words += [f"{word} {_quote(name)}" for word, name in named if name]
        yield " ".join(words) + _names("nodes", one.nodes or None)
    for change in origin.history:
        yield f"  by {change.kind} {_quote(change.pass_name)} {_quote(change.reason)}"


def _hint_words(hint: Hint) -> str:
    divided = "".join(f" work_div {_quote(name)} {cores}" for name, cores in hint.work_div)
    tiles = "" if hint.tiles is None else f" tiles {_quote(hint.tiles[0])} {hint.tiles[1]}"
    expected = _names("expects", hint.expected_named_dims) + _names("reduces", hint.expected_reduction_dims)
    return ("" if hint.whole else " part") + divided + tiles + expected


def _names(keyword: str, names: tuple[str, ...] | None) -> str:
    return "" if names is None else " ".join(["", keyword, *map(_quote, names)])


def _access_line(keyword: str, access: Access) -> str:
    moves = f" advance {_list(access.advance)}" if access.advance else ""
    return f"  {keyword} {_quote(access.buffer)} {access.dtype} {access.offset} {_list(access.strides)}{moves}"


def parse_program(text: str) -> Program:
    lines = _Lines(text)
    with lines.take("program") as head:
        name, pool_bytes = head.name(), head.after("pool").integer()
    scalars = tuple(_parse_scalar(line) for line in lines.all("number"))
    buffers = tuple(_parse_buffer(line) for line in lines.all("buffer"))
    body = tuple(_parse_nodes(lines, 0))
    lines.expect_end()
    return Program(name, buffers, body, scalars, pool_bytes)


def _parse_nodes(lines: _Lines, depth: int) -> Iterator[Node]:
    for line in lines.all("op", "loop"):
        if line.keyword == "op":
            yield _parse_op(line, lines)
            continue
        with line:
            count = line.integer()
            if depth == SPYRE.max_loop_depth:
                raise ValueError(f"at most {SPYRE.max_loop_depth} loops stand in each other")
        body = tuple(_parse_nodes(lines, depth + 1))
        with lines.take("end"):
            yield Loop(count, body)


def _parse_scalar(line: _Line) -> Scalar:
    with line:
        name, dtype = line.name(), line.word()
        return Scalar(name, dtype, int(line.word(), 16) if line.has("word") else None)


def _parse_buffer(line: _Line) -> Buffer:
    with line:
        name, role = line.name(), Role(line.word())
        dtype, size, stride = line.word(), line.integers(), line.integers()
        layout = None
        if line.has("layout"):
            device_size, stride_map = line.integers(), line.integers()
            forms = DataFormats[line.word()], ElementArrangement[line.word()]
            layout = SpyreTensorLayout(device_size, stride_map, *forms)
        place = _parse_place(line)
        unset = line.has("unset")
        spare_rows = line.has("spare_rows")
        named = tuple(line.each("named", lambda: NamedDim(line.name(), line.integer(), line.integer())))
        values = unpacked(line.word(), value_bytes(size, stride, dtype)) if line.has("values") else None
        return Buffer(name, dtype, size, stride, role, layout, place, unset, values, spare_rows, named)


def _parse_place(line: _Line) -> Place | None:
    if line.has("place"):
        return InPool(line.integer())
    return InScratchpad(line.integer()) if line.has("scratchpad") else None


def _parse_op(line: _Line, lines: _Lines) -> Op:
    with line:
        name, row = line.name(), line.word()
    origin = _parse_origin(lines)
    dims = tuple(_parse_dim(dim) for dim in lines.all("dim"))
    inputs = tuple(_parse_input(operand) for operand in lines.all("read", "number", "constant", "count"))
    outputs = tuple(_parse_access(output) for output in lines.all("write"))
    attributes = tuple(_parse_attribute(attribute) for attribute in lines.all("with"))
    hints = tuple(_parse_hint(hint) for hint in lines.all("hint"))
    return Op(name, row, dims, inputs, outputs, attributes, origin, hints)


def _parse_origin(lines: _Lines) -> Origin:
    calls = [_parse_call(line) for line in lines.all("from")]
    merged = tuple(_parse_call(line) for line in lines.all("also"))
    history = tuple(_parse_change(line) for line in lines.all("by"))
    return replace(calls[0] if calls else NOWHERE, merged=merged, history=history)


def _parse_call(line: _Line) -> Origin:
    with line:
        file, number = line.name(), line.integer()
        function, operator, module = (line.name() if line.has(word) else "" for word in ("in", "calls", "of"))
        return Origin(file, number, function, operator, line.names("nodes") or (), module)


def _parse_change(line: _Line) -> Change:
    with line:
        return Change(line.word(), line.name(), line.name())


def _parse_dim(line: _Line) -> Dim:
    with line:
        name, size, reduced, lanes = line.name(), line.integer(), line.has("reduced"), line.has("lanes")
        split = line.integer() if line.has("split") else 1
        return Dim(name, size, reduced, split, lanes, line.names("named") or ())


def _parse_hint(line: _Line) -> Hint:
    with line:
        number, whole = line.integer(), not line.has("part")
        work_div = tuple(line.each("work_div", lambda: (line.name(), line.integer())))
        tiles = (line.name(), line.integer()) if line.has("tiles") else None
        return Hint(number, work_div, tiles, line.names("expects"), line.names("reduces"), whole)


def _parse_input(line: _Line) -> Operand:
    if line.keyword == "number":
        return _parse_scalar(line)
    if line.keyword == "read":
        return _parse_access(line)
    with line:
        if line.keyword == "constant":
            return Constant(int(line.word(), 16), line.word())
        return Iota(line.integer(), line.integers())


def _parse_access(line: _Line) -> Access:
    with line:
        buffer, dtype = line.name(), line.word()
        offset, strides = line.integer(), line.integers()
        return Access(buffer, offset, strides, dtype, line.integers() if line.has("advance") else ())


def _parse_attribute(line: _Line) -> tuple[str, Attribute]:
    with line:
        name, value = line.name(), json.loads(line.word())
        if isinstance(value, list):
            return name, tuple(int(item) for item in value)
        if not isinstance(value, (int, float, str)):
            raise ValueError(f"{value!r} is no attribute")
        return name, value


class _Line:
    """The words of a line, taken in order. As a context it turns every mistake into one that names the line."""

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text = number, text.strip()
        self.words = _WORD.findall(text)
        self.keyword = self.words.pop(0) if self.words else ""

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (ValueError, KeyError, IndexError, TypeError, SpyreError)):
            what = "the line is too short" if isinstance(error, IndexError) else str(error)
            raise InvalidText(f"line {self.number}, {self.text[:80]!r}: {what}") from None
        if error is None and self.words:
            raise InvalidText(f"line {self.number}, {self.text[:80]!r}: {self.words[0]!r} is one word too many")

    def word(self) -> str:
        return str(self.words.pop(0))

    def has(self, keyword: str) -> bool:
        found = bool(self.words) and self.words[0] == keyword
        if found:
            self.words.pop(0)
        return found

    def after(self, keyword: str) -> _Line:
        if not self.has(keyword):
            raise ValueError(f"{keyword!r} is missing")
        return self

    def name(self) -> str:
        value = json.loads(self.word())
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is no quoted name")
        return value

    def names(self, keyword: str) -> tuple[str, ...] | None:
        """All names behind a keyword; None without it."""
        if not self.has(keyword):
            return None
        found = []
        while self.words and self.words[0].startswith('"'):
            found.append(self.name())
        return tuple(found)

    def each(self, keyword: str, read: Callable[[], Item]) -> Iterator[Item]:
        while self.has(keyword):
            yield read()

    def integer(self) -> int:
        return int(self.word())

    def integers(self) -> tuple[int, ...]:
        values = json.loads(self.word())
        if not isinstance(values, list) or not all(type(value) is int for value in values):
            raise ValueError(f"{values!r} is no list of integers")
        return tuple(values)


class _Lines:
    def __init__(self, text: str) -> None:
        self.lines = [_Line(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]

    def all(self, *keywords: str) -> Iterator[_Line]:
        while self.lines and self.lines[0].keyword in keywords:
            yield self.lines.pop(0)

    def take(self, keyword: str) -> _Line:
        for line in self.all(keyword):
            return line
        raise InvalidText(f"{self._here()}: {keyword!r} should follow")

    def expect_end(self) -> None:
        if self.lines:
            raise InvalidText(f"{self._here()}: nothing like this may follow here")

    def _here(self) -> str:
        return f"line {self.lines[0].number}, {self.lines[0].text[:80]!r}" if self.lines else "the end of the text"
