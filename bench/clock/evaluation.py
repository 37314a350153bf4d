"""The clock against measurements: scores beside published formulas, what each term is worth, the constants of a fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.clock.fitting import PROBLEMS, Problem, fit, held_out, rows_of, times, with_values
from bench.clock.measured import Measured, measured, read
from bench.clock.published import PUBLISHED
from bench.clock.scoreboard import Timed, orders, score
from openspyre.clock.predict import class_of
from openspyre.spec.machine import SPYRE
from openspyre.spec.rates import Rates

FOLDS = 8
# A term is gone when its constant has this value: what each is worth is what the fit without it loses.
WITHOUT: dict[str, dict[str, float]] = {
    "copy": {"page_conflict": 0, "long_stride": 0, "row_long_stride": 0, "size": 0, "row_size": 0, "row_columns_power": 0, "short_run_bytes": 1e-9},
    "pointwise": {"turnaround_us_per_mb": 0, "short_run_bytes": 1e-9, "size": 0, "few_cores": 1},
    "reduction": {"long_stride": 0, "core_long_stride": 0, "core_ns_per_stick": 0},
    "resident": {"large_tiles": 0, "short_run_bytes": 1e-9, "core_ns_per_stick": 0, "few_cores": 1},
    "matmul": {
        "turnaround_us_per_mb": 0, "tile_rows": 1e9, "narrowest_tile_rows": 256, "tile_columns": 1e9, "kept_k": 0, "streams_32": 0,
        "stream_gb_per_s": 1e9, "split_k": 1, "fill_rows": 0, "partial_sums_gb_per_s": 1e9, "few_cores_power": 99,
    },
}  # fmt: skip


def load(paths: Sequence[Path]) -> list[Measured]:
    """Every measurement of these tables, or of the tables in these directories."""
    files = [file for path in paths for file in (sorted(path.glob("*.csv")) if path.is_dir() else [path])]
    if not files or not all(file.is_file() for file in files):
        told = ", ".join(str(path) for path in paths)
        raise SystemExit(f"no measurements in {told}: give a directory with *.csv, or a table with the columns of one")
    found = [entry for file in files for row in read(file) if (entry := measured(row)) is not None]
    if not found:
        raise SystemExit(
            f"no row of {', '.join(map(str, files))} is a kernel the clock knows; columns are op, rows, cols, cores, ..."
        )
    return found


def scoreboard(rows: Sequence[Measured], folds: int = FOLDS) -> list[str]:
    """Lines of a table: each class, shipped constants, constants without the shape, and published formulas."""
    head = ("class", "rows", "shipped", "held out", *PUBLISHED)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    products: list[Timed] = []
    for problem in PROBLEMS:
        chosen = rows_of(problem, rows)
        left_out = held_out(problem, chosen, SPYRE.rates, folds) if len({row.shape for row in chosen}) > 2 else []
        products += left_out if problem.group in ("matmul", "batched") else []
        for label, keep in _sets(problem, chosen):
            kept = [row for row in chosen if keep(row)]
            shipped = score(zip(kept, times(kept, SPYRE.rates), strict=True))
            cells = [str(shipped), str(score((r, t) for r, t in left_out if keep(r)) or "-")]
            for formula in PUBLISHED.values():
                known = [(row, time) for row in kept if (time := formula(row.kernel)) is not None]
                cells.append(str(score(known) or "-"))
            lines.append("| " + " | ".join([label, str(len(kept)), *cells]) + " |")
    return [*lines, "", *_order_lines(products)]


def _sets(problem: Problem, rows: Sequence[Measured]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for kind in problem.classes:
        if any(class_of(row.kernel) is kind for row in rows):
            label = f"{kind.value}, large and divided as told" if problem.divided else kind.value
            found.append((label, lambda row, kind=kind: class_of(row.kernel) is kind))
    if problem.divided is False:  # every set on its own
        found += [(f"- {s}", lambda row, s=s: row.series == s) for s in sorted({row.series for row in rows})]
    return found


def _order_lines(products: Sequence[Timed]) -> list[str]:
    lines = ["| divisions of one shape | number | rank correlation | regret |", "|---|---|---|---|"]
    found = orders(products)
    for order in found:
        shape = "x".join(str(size) for size in order.shape[1:])
        lines.append(f"| {shape} (B, M, N, K) | {order.divisions} | {order.correlation:.3f} | {order.regret:.3f} |")
    single = [order for order in found if order.shape[1] == 1]
    if single:
        correlation = np.median([order.correlation for order in single])
        picks = [order.regret for order in orders(products, least=2) if order.shape[1] == 1]
        lines.append(f"| median, B = 1 | | {correlation:.3f} | {np.median(picks):.3f} (worst {max(picks):.3f}) |")
    return lines


def fitted(rows: Sequence[Measured], rates: Rates = SPYRE.rates) -> Rates:
    """All constants, each group to its rows."""
    for problem in PROBLEMS:
        chosen = rows_of(problem, rows)
        if len(chosen) > len(problem.names()):
            rates = fit(problem, chosen, rates)
    return rates


def changes(rates: Rates) -> list[str]:
    """Constants that differ from the shipped ones by a thousandth and more."""
    lines = []
    for shipped, new in zip(SPYRE.rates.constants(), rates.constants(), strict=True):
        if abs(new.value - shipped.value) > 1e-3 * abs(shipped.value):
            lines.append(
                f"{shipped.group}.{shipped.name}: {shipped.value:.6g} -> {new.value:.4g} {shipped.evidence.unit}"
            )
    return lines


def ablation(rows: Sequence[Measured], folds: int = FOLDS) -> list[str]:
    """What each term is worth: held-out errors of the fit without it."""
    lines = ["| term | class | without | with |", "|---|---|---|---|"]
    for problem in PROBLEMS:
        chosen = rows_of(problem, rows)
        full = held_out(problem, chosen, SPYRE.rates, folds) if problem.group in WITHOUT else []
        for name, value in WITHOUT.get(problem.group, {}).items():
            rates = with_values(SPYRE.rates, problem.group, {name: value})
            without = replace(problem, fixed=(*problem.fixed, name))
            timed = held_out(without, chosen, rates, folds)
            for kind in problem.classes:
                told = [score((r, t) for r, t in s if class_of(r.kernel) is kind) for s in (timed, full)]
                lines.append(f"| {problem.group}.{name} | {kind.value} | {told[0]} | {told[1]} |")
    return lines


def renewed(page: str, lines: Sequence[str], name: str) -> str:
    """A page with the lines between its marks `<!-- measured: NAME -->` and `<!-- end -->`."""
    part = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->\n)", re.DOTALL)
    if not part.search(page):
        raise SystemExit(f"the page has no part <!-- measured: {name} -->")
    return part.sub(lambda found: found[1] + "\n".join(lines) + "\n" + found[2], page)
