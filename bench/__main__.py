"""The command: starts one measuring process per thread setting, prints the table, writes JSON."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import host, report
from bench.registry import BOTH, Threads, cases

EXAMPLE = """example:
  python -m bench --only 'copy.*fp16' --quick
      only the fp16 copies, fewer rounds: seconds instead of minutes

verdicts: GOAL the goal is reached, PASS what was asked is reached, SHORT it is not, ERROR it could not be measured.
Each ratio is the median over interleaved rounds of ours / baseline, with its quartiles beside it; best is the
ratio of the fastest samples, so a best far below the number means that the machine was busy."""


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Benchmarks of the card, side by side with torch on the CPU.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--list", action="store_true", help="name the cases with what is asked of them, measure nothing"
    )
    parser.add_argument("--only", metavar="REGEX", default="", help="cases whose name matches")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a first impression")
    parser.add_argument("--threads", choices=BOTH, help="one thread or all of them only (default: one, then all)")
    parser.add_argument(
        "--baseline-isa",
        choices=("avx2", "native"),
        default="avx2",
        help="instructions torch's CPU kernels may use; avx2 (default) keeps numbers of different machines comparable",
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="where the results go (default: bench/results/TIME.json)"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a number is short of what was asked")
    return parser.parse_args(arguments)


def _measure(threads: Threads, options: argparse.Namespace, width: int, run: dict[str, Any]) -> list[report.Row]:
    command = [sys.executable, "-m", "bench.worker", "--threads", threads, "--only", options.only]
    if options.quick:
        command.append("--quick")
    environment = host.measuring_environment(threads, options.baseline_isa)
    rows = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            message = json.loads(text)
            if "host" in message:
                run["host"] = message["host"]
                continue
            print(report.line(message, width), flush=True)
            rows.append(message)
    if process.returncode:
        raise SystemExit(f"the measuring process for {threads} thread(s) ended with {process.returncode}; see above")
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    options = _options(arguments)
    found = cases(options.only)
    width = max((len(row.name) for row in found), default=0)
    if options.list:
        for row in found:
            goal = "" if row.goal is None else f", goal {row.goal:g}"
            print(
                f"{row.name:<{width}} at most {row.asked:g} {row.unit} {row.baseline}{goal} ({', '.join(row.threads)})"
            )
        return 0
    run: dict[str, Any] = {"baseline_isa": options.baseline_isa, "quick": options.quick}
    rows: list[report.Row] = []
    print(report.header(width))
    for threads in (options.threads,) if options.threads else BOTH:
        if any(threads in row.threads for row in found):
            rows += _measure(threads, options, width, run)
    print(report.summary(rows))
    print(f"written to {report.save(rows, run, options.json)}")
    failed = {"error"} | ({"short"} if options.check else set())
    return int(not rows or any(row["verdict"] in failed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
