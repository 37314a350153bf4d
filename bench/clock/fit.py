"""Finds the clock's constants again from measurements, whole shapes held out: `python bench/clock/fit.py DIR`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT.parent / "shared" / "measured"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "measured",
        nargs="*",
        type=Path,
        default=[MEASURED],
        help="directories of tables, or tables with the columns of measured/*.csv: your own too (default: ../shared/measured)",
    )
    parser.add_argument("--folds", type=int, default=8, help="parts that shapes are held out in (default: %(default)s)")
    parser.add_argument("--constants", action="store_true", help="print the constants that a fit to all rows changes")
    parser.add_argument("--ablate", action="store_true", help="print what each term is worth instead of the scores")
    parser.add_argument("--page", type=Path, help="write the table into this page too, between its marks")


def run(options: argparse.Namespace) -> int:
    from bench.clock.evaluation import ablation, changes, fitted, load, renewed, scoreboard

    rows = load(options.measured)
    lines = (ablation if options.ablate else scoreboard)(rows, options.folds)
    print("\n".join(lines))
    if options.page:
        name = "ablation" if options.ablate else "scoreboard"
        options.page.write_text(renewed(options.page.read_text(), lines, name))
    if options.constants:
        print("\n".join(["", "constants of a fit to all rows:", *changes(fitted(rows))]))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # run as a file, Python looks for modules beside it alone
    found = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(found)
    sys.exit(run(found.parse_args()))
