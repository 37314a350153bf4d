"""`openspyre ops --where NAME`: every place that knows an operator, by file and line.

Rows and the hardware's ops are found here; who registers operators with a framework tells its places through the
entry point group `openspyre.operators`.
"""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from openspyre.backend.superdsc.lowering import lowering_of_name
from openspyre.spec import hardware
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.hardware import HARDWARE
from openspyre.spec.ops import TABLE, Kind, Row
from openspyre.tools.places import ROOT, Place, place_of, shown

_GROUP = "openspyre.operators"
_NO_ROWS = ("expression.py", "row_expression.py", "widened.py", "test_expression.py", "test_table.py")
_EXPRESSIONS = ("call", "row")  # they name what a body computes with
_PREFIXES = ("torch.", "ops.", "nn.", "functional.", "Tensor.", "aten::", "aten.", "spyre::", "prims::")


def show(name: str, *, as_json: bool) -> int:
    """Prints the places of an operator; InvalidArgument if nobody knows it."""
    found = places_of(name)
    if as_json:
        print(json.dumps([place.as_record() for place in found], indent=2))
        return 0
    grouped: dict[tuple[str, str, int], list[str]] = {}
    for place in found:
        grouped.setdefault((place.what, place.file, place.line), []).append(place.name)
    lines = [(_listed(names), what, f"{file}:{line}") for (what, file, line), names in grouped.items()]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    for names, what, where in lines:
        print(f"{names.ljust(widths[0])}  {what.ljust(widths[1])}  {where.removesuffix(':0')}")
    return 0


def _listed(names: list[str]) -> str:
    different = list(dict.fromkeys(names))
    return ", ".join(different[:3]) + (f" and {len(different) - 3} more" if len(different) > 3 else "")


def places_of(name: str) -> list[Place]:
    """Places of all that a name may mean: a row, an overload of torch, all overloads of a function, an op of the hardware."""
    everything = [*_rows(), *_hardware_ops(), *_of_frameworks()]
    names = {place.name for place in everything}
    wanted = _plain(name)
    meant = {known for known in names if _means(known, wanted)}
    if not meant:
        near = difflib.get_close_matches(wanted, sorted(names), 5)
        hint = f"did you mean {', '.join(near)}?" if near else "`openspyre ops` lists the rows"
        raise InvalidArgument(f"nobody knows an operator {name!r}; {hint}")
    rows = [row for row in TABLE.values() if any(_serves(row, known) for known in meant)]
    meant |= {row.name for row in rows}
    # A row is asked for with all that it serves; an overload with its rows alone.
    meant |= {known for row in rows if wanted in (row.name, row.artifact) for known in (*row.aten, row.artifact)}
    return [place for place in everything if place.name in meant]


def _plain(name: str) -> str:
    """As places spell it: aten's operators without a namespace, default overloads without a name."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name.removesuffix(".default").removesuffix("nonstick")


def _means(known: str, wanted: str) -> bool:
    bare = known.removeprefix("spyre.").removeprefix("prims.")
    return wanted in (known, bare) or bare.split(".")[0] in (wanted, f"{wanted}_")


def _serves(row: Row, known: str) -> bool:
    """A pointwise row serves all overloads of a name, in-place and out= included."""
    names = (row.name, row.artifact, *row.aten)
    return known in names or (row.kind is Kind.POINTWISE and known.split(".")[0].removesuffix("_") in row.aten)


def _of_frameworks() -> Iterator[Place]:
    for entry in entry_points(group=_GROUP):
        tell: Callable[[], list[Place]] = entry.load()
        yield from tell()


def _rows() -> Iterator[Place]:
    lines = row_lines()
    for row in TABLE.values():
        yield Place(row.name, f"row, {row.op_class} ({row.kind})", *lines[row.name])
        for what in ("body", "widened", "finish"):
            function = getattr(row, what)
            if function is not None:
                yield place_of(row.name, what, function)


def _hardware_ops() -> Iterator[Place]:
    file = Path(hardware.__file__)
    lines = [line.replace('"', " ").replace(",", " ").split() for line in file.read_text().splitlines()]
    for name, op in HARDWARE.items():
        line = next(number for number, words in enumerate(lines, 1) if name in words)
        yield Place(name, f"op of the hardware ({op.shape})", shown(file), line)
        lowering = lowering_of_name(name)
        if lowering is not None:
            yield place_of(name, "read from bundles by", lowering)


@cache
def row_lines() -> dict[str, tuple[str, int]]:
    """Row -> file and line where it is written down: a call with its name as first argument, or a list that rows are made of."""
    found: dict[str, tuple[str, int]] = {}
    files = [file for file in sorted((ROOT / "openspyre/spec/ops").glob("*.py")) if file.name not in _NO_ROWS]
    nodes = [(file, node) for file in files for node in ast.walk(ast.parse(file.read_text()))]
    for file, node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=maker), args=[ast.Constant(value=str(name), lineno=line), _, *_]):
                if maker not in _EXPRESSIONS:
                    found.setdefault(name, (shown(file), line))
    for kind in (ast.Tuple, ast.Constant):  # ("eq", "==", ...), then anything
        for file, node in nodes:
            first = node.elts[0] if isinstance(node, ast.Tuple) and node.elts else node
            if isinstance(node, kind) and isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.setdefault(first.value, (shown(file), first.lineno))
    return {name: found[name] for name in TABLE if name in found}
