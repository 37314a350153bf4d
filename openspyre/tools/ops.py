"""`openspyre ops`: the op table, as the coverage table users see."""

import argparse
import json
from collections.abc import Iterable

from openspyre.spec.ops import TABLE, Row

_COLUMNS = ("op", "kind", "unit", "artifact", "origin", "dtypes", "aten", "meaning")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "ops",
        help="list the operations the card has",
        description="Lists every operation of the op table: its name in a bundle, whether the public documents have it "
        "or it is an extension of this project, which dtypes it takes and which torch operators reach it.",
        epilog="example: openspyre ops --json",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps([as_record(row) for row in TABLE.values()], indent=2))
    elif options.markdown:
        print("\n".join(markdown(TABLE.values())))
    else:
        print("\n".join(text(TABLE.values())))
    return 0


def as_record(row: Row) -> dict[str, object]:
    return {
        "op": row.name,
        "kind": row.kind.value,
        "unit": row.unit.value,
        "artifact": row.artifact,
        "documented": row.documented,
        "dtypes": _dtypes(row),
        "aten": list(row.aten),
        "meaning": row.summary,
    }


def _dtypes(row: Row) -> str:
    kinds = [name for name, taken in (("floats", row.floats), ("integers", row.integers)) if taken]
    return ", ".join(kinds) or "none"


def _cells(row: Row) -> tuple[str, ...]:
    origin = "documented" if row.documented else "extension"
    aten = ", ".join(row.aten) or "-"
    return row.name, row.kind.value, row.unit.value, row.artifact, origin, _dtypes(row), aten, row.summary


def markdown(rows: Iterable[Row]) -> Iterable[str]:
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "|" + "---|" * len(_COLUMNS)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in _cells(row)) + " |"


def text(rows: Iterable[Row]) -> Iterable[str]:
    table = [_COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(_COLUMNS) - 1)]
    for line in table:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]])
    documented = sum(line[4] == "documented" for line in table)
    yield f"{len(table) - 1} operations, {documented} of them documented, the others extensions of this project"
