"""The command: `fit` prints scores and constants, `predict` adds a column to a table of measurements."""

from __future__ import annotations

import argparse
import csv
import os
import sys
from pathlib import Path

from bench.clock import fit
from bench.clock.measured import kernel_of, read
from openspyre.clock.predict import predict

EXAMPLE = """examples:
  python -m bench.clock fit ../shared/measured        scores on shapes held out of the fit, beside published formulas
  python -m bench.clock fit MINE.csv --constants      the constants that suit your own measurements
  python -m bench.clock predict IN.csv OUT.csv        the same rows with a column predicted_us
  python -m bench.clock plans                         predicted times of the planner's two strategies, graph by graph
  python -m bench.clock granite                       first and next token of Granite 3.3 8B, launches included"""


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.clock",
        description="The clock and what was measured on real cards.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    fit.add_arguments(commands.add_parser("fit", help="fit the constants, print the scores"))
    table = commands.add_parser("predict", help="add predicted times to a table")
    table.add_argument("source", type=Path, metavar="IN.csv")
    table.add_argument("target", type=Path, metavar="OUT.csv")
    commands.add_parser("plans", help="compare the plans of `timed` and `documented`")
    model = commands.add_parser("granite", help="predict the first and the next token of Granite 3.3 8B")
    model.add_argument("--prompt", type=int, default=128, help="tokens of the prompt (default: 128)")
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
            return fit.run(options)
        case "plans" | "granite":
            # Before torch_spyre is imported: no memory is taken, nothing is computed.
            os.environ["OPENSPYRE_CARD"] = "null"
            from bench.clock import granite, plans

            return plans.run() if options.command == "plans" else granite.run(options.prompt)
    return 0


if __name__ == "__main__":
    sys.exit(main())
