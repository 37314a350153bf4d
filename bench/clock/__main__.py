"""The command: `fit` prints scores and constants, `predict` adds a column to a table of measurements."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from bench.clock.fit import FOLDS, ablation, changes, fitted, load, renewed, scoreboard
from bench.clock.measured import kernel_of, read
from openspyre.clock.predict import predict

MEASURED = Path(__file__).resolve().parents[2].parent / "shared" / "measured"
EXAMPLE = """examples:
  python -m bench.clock fit ../shared/measured        scores on shapes held out of the fit, beside published formulas
  python -m bench.clock fit MINE.csv --constants      the constants that suit your own measurements
  python -m bench.clock predict IN.csv OUT.csv        the same rows with a column predicted_us"""


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.clock",
        description="The clock and what was measured on real cards.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    fit = commands.add_parser("fit", help="fit the constants, print the scores")
    fit.add_argument(
        "measured", nargs="*", type=Path, default=[MEASURED], help="directories or tables (default: %(default)s)"
    )
    fit.add_argument(
        "--folds", type=int, default=FOLDS, help="parts that shapes are held out in (default: %(default)s)"
    )
    fit.add_argument("--constants", action="store_true", help="print the constants a fit to all rows changes")
    fit.add_argument("--ablate", action="store_true", help="print what each term is worth")
    fit.add_argument("--page", type=Path, help="write the table into this page too, between its marks")
    table = commands.add_parser("predict", help="add predicted times to a table")
    table.add_argument("source", type=Path, metavar="IN.csv")
    table.add_argument("target", type=Path, metavar="OUT.csv")
    return parser.parse_args(arguments)


def add_predictions(source: Path, target: Path) -> tuple[int, int]:
    """Writes the rows with a column `predicted_us`, empty where the clock knows no such kernel. Rows, and rows with a time."""
    with source.open(newline="", encoding="utf-8-sig") as file:
        columns = [name for name in next(csv.reader(file), []) if name != "predicted_us"]
    rows, timed = read(source), 0
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*columns, "predicted_us"], extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            kernel = kernel_of(row)
            timed += kernel is not None
            writer.writerow(row | {"predicted_us": "" if kernel is None else f"{predict(kernel).time_us:.3f}"})
    return len(rows), timed


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    options = _options(arguments)
    match options.command:
        case "predict":
            if not options.source.is_file():
                raise SystemExit(f"{options.source}: no such file; give a table with the columns of measured/*.csv")
            rows, timed = add_predictions(options.source, options.target)
            print(f"{timed} of {rows} rows have a time, written to {options.target}")
        case "fit":
            found = load(options.measured)
            lines = (ablation if options.ablate else scoreboard)(found, options.folds)
            print("\n".join(lines))
            if options.page:
                name = "ablation" if options.ablate else "scoreboard"
                options.page.write_text(renewed(options.page.read_text(), lines, name))
            if options.constants:
                print("\n".join(["", "constants of a fit to all rows:", *changes(fitted(found))]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
