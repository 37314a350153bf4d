"""How a run is told: a table on the screen, and JSON with everything in it."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Row = dict[str, Any]

RESULTS = Path(__file__).parent / "results"
_VERDICTS = {"goal": "at the goal", "pass": "as asked", "short": "short", "error": "could not be measured"}


def _quantity(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}x" if unit == "x" else f"{value:.4g} {unit}"


def _duration(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def header(width: int) -> str:
    """The head of the table; `width` is that of the longest name."""
    return (
        f"{'case':<{width}}{'threads':>9}{'asked':>9}{'goal':>9}{'measured':>11}   {'':<6}quartiles, best, median times"
    )


def line(row: Row, width: int) -> str:
    """One row of the table; a case that could not be measured says why."""
    unit = row["unit"]
    asked, goal = _quantity(row["asked"], unit), _quantity(row["goal"], unit)
    start = f"{row['name']:<{width}}{row['threads']:>9}{asked:>9}{goal:>9}"
    if row["verdict"] == "error":
        return f"{start}{'':>11}   ERROR  {row['problem']}"
    told = f"{start}{_quantity(row['value'], unit):>11}   {row['verdict'].upper():<6}"
    if row["ours_seconds"] is None:
        return told
    digits = 2 if unit == "x" else 0
    spread = f"{row['low']:.{digits}f}..{row['high']:.{digits}f}, {row['best']:.{digits}f}"
    return (
        f"{told} {spread:<18} {_duration(row['ours_seconds'])} / {row['baseline']} {_duration(row['baseline_seconds'])}"
    )


def summary(rows: list[Row]) -> str:
    """The last line: how many rows reached what."""
    counts = Counter(row["verdict"] for row in rows)
    told = [f"{counts[name]} {text}" for name, text in _VERDICTS.items() if counts[name]]
    return f"{len(rows)} numbers: " + ", ".join(told) if rows else "no case matches; --list shows them all"


def save(rows: list[Row], run: dict[str, Any], path: Path | None) -> Path:
    """Writes the run as JSON, by default into bench/results under its time."""
    now = datetime.now(UTC)
    path = path or RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"time": now.isoformat()} | run | {"rows": rows}, indent=1) + "\n")
    return path
