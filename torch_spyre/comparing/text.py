"""A comparison as a table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_spyre.comparing.records import Comparison, Difference

_MOST_MODULES = 40


def table(found: Comparison) -> str:
    lines = [*_result(found), *_modules(found), *_operators(found), *_weights(found)]
    if found.followed:
        lines.append("float32 follows the card at: " + ", ".join(f"{name} ({why})" for name, why in found.followed))
    return "\n".join(lines)


def _result(found: Comparison) -> list[str]:
    lines = []
    if (whole := found.result) is not None:
        notes = f"; {whole.notes}" if whole.notes else ""
        lines.append(f"the result is {_percent(whole.relative)} off (L2), {whole.units:.1f} units at most{notes}")
    first = found.first_beyond
    if first is None:
        lines.append(f"no module is further off than {_percent(found.bound)}")
    else:
        where = f"{first.path or 'the model'} ({first.kind})"
        lines.append(f"the first module beyond {_percent(found.bound)}: {where}, {_percent(first.total.relative)}")
    return lines


def _modules(found: Comparison) -> list[str]:
    if not found.modules:
        return []
    shown = found.modules
    head = "modules, as they return"
    if len(shown) > _MOST_MODULES:
        worst = sorted(shown, key=lambda one: -one.total.relative)[:_MOST_MODULES]
        shown = tuple(one for one in shown if one in worst)
        head += f" (the {_MOST_MODULES} furthest off of {len(found.modules)})"
    rows = [
        (one.path or "(the model)", one.kind, _sizes(one.shape), one.dtype, *_error(one.total), one.total.notes)
        for one in shown
    ]
    return [head, *aligned(("module", "kind", "sizes", "dtype", "off", "units", ""), rows)]


def _operators(found: Comparison) -> list[str]:
    rows = [
        (
            f"{one.number} {one.name}",
            one.module or "-",
            _sizes(one.shape),
            one.dtype,
            *_error(one.own),
            _percent(one.inherited.relative),
            one.own.notes,
        )
        for one in found.worst()
    ]
    head = ("operator", "module", "sizes", "dtype", "rounds", "units", "inherits", "")
    return [f"operators that round most, of {len(found.operators)}", *aligned(head, rows)] if rows else []


def _weights(found: Comparison) -> list[str]:
    worst = sorted(found.weights, key=lambda one: -one.stored.relative)[:3]
    rows = [
        (one.path, _sizes(one.shape), one.dtype, *_error(one.stored), one.stored.notes)
        for one in worst
        if one.stored.relative
    ]
    if not rows:
        return []
    return [
        "weights that the card's format changes most",
        *aligned(("weight", "sizes", "dtype", "off", "units", ""), rows),
    ]


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]


def _error(found: Difference) -> tuple[str, str]:
    return _percent(found.relative), f"{found.units:.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "1"
