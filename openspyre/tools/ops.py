"""`openspyre ops`: the op table, as the coverage table users see."""

import argparse
import json
from collections.abc import Iterable

from openspyre.spec.hardware import HARDWARE, HardwareOp
from openspyre.spec.ops import TABLE, OpClass, Row
from openspyre.tools import where

_HARDWARE_COLUMNS = ("op", "shape", "unit", "inputs", "constants", "formats")
_COLUMNS = ("op", "kind", "unit", "artifact", "class", "dtypes", "aten", "meaning")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "ops",
        help="list the operations the card has",
        description="Lists every operation of the op table: its name in a bundle, its class (an op of the hardware, a composite "
        "of such, or an extension of this project), which dtypes it takes and which torch operators reach it.",
        epilog="example: openspyre ops --where softmax",
    )
    parser.add_argument(
        "--hardware", action="store_true", help="the hardware's own ops, by the names a bundle has for them"
    )
    parser.add_argument(
        "--where",
        metavar="NAME",
        help="files and lines of all that knows one operator: a row, a function or overload of torch, an opFuncName",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.where is not None:
        return where.show(options.where, as_json=options.json)
    header: tuple[str, ...] = _HARDWARE_COLUMNS if options.hardware else _COLUMNS
    if options.hardware:
        records = [_hardware_record(op) for op in HARDWARE.values()]
        cells = [_hardware_cells(op) for op in HARDWARE.values()]
    else:
        records = [as_record(row) for row in TABLE.values()]
        cells = [_cells(row) for row in TABLE.values()]
    if options.json:
        print(json.dumps(records, indent=2))
    elif options.markdown:
        print("\n".join(_markdown(header, cells)))
    else:
        print("\n".join(_text(header, cells)))
        print(_count(options.hardware))
    return 0


def _count(hardware: bool) -> str:
    if hardware:
        return f"{len(HARDWARE)} ops of the hardware; reductions outside the stick have the suffix `nonstick`"
    counts = [(sum(row.op_class is each for row in TABLE.values()), each.value) for each in OpClass]
    return f"{len(TABLE)} operations: {', '.join(f'{count} {name}' for count, name in counts)}"


def _hardware_record(op: HardwareOp) -> dict[str, object]:
    return {
        "op": op.name,
        "shape": op.shape.value,
        "unit": op.unit,
        "inputs": op.inputs,
        "constants": list(op.constants),
        "formats": [form.name for form in op.formats],
    }


def _hardware_cells(op: HardwareOp) -> tuple[str, ...]:
    formats = ", ".join(form.name for form in op.formats)
    return op.name, op.shape.value, op.unit, str(op.inputs), ", ".join(op.constants) or "-", formats


def as_record(row: Row) -> dict[str, object]:
    return {
        "op": row.name,
        "kind": row.kind.value,
        "unit": row.unit.value,
        "artifact": row.artifact,
        "class": row.op_class.value,
        "documented": row.documented,
        "dtypes": _dtypes(row),
        "aten": list(row.aten),
        "meaning": row.summary,
    }


def _dtypes(row: Row) -> str:
    kinds = [name for name, taken in (("floats", row.floats), ("integers", row.integers)) if taken]
    return ", ".join(kinds) or "none"


def _cells(row: Row) -> tuple[str, ...]:
    aten = ", ".join(row.aten) or "-"
    return row.name, row.kind.value, row.unit.value, row.artifact, row.op_class.value, _dtypes(row), aten, row.summary


def markdown(rows: Iterable[Row]) -> Iterable[str]:
    return _markdown(_COLUMNS, [_cells(row) for row in rows])


def _markdown(header: tuple[str, ...], lines: list[tuple[str, ...]]) -> Iterable[str]:
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    for line in lines:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"


def _text(header: tuple[str, ...], lines: list[tuple[str, ...]]) -> Iterable[str]:
    table = [header, *lines]
    widths = [max(len(line[column]) for line in table) for column in range(len(header) - 1)]
    for line in table:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]])
