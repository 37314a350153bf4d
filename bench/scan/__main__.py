"""The command `python -m bench.scan`: runs the scan in one thread, prints the worst, writes JSON."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import host, report

Found = dict[str, Any]
BOUND = 2.0  # no operator may take longer than so many times torch's time on the CPU


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scan", description=__doc__)
    parser.add_argument("--only", metavar="REGEX", default="", help="calls whose 'name dtype' matches")
    parser.add_argument("--worst", type=int, default=10, help="how many of the slowest are printed (default: 10)")
    parser.add_argument("--baseline-isa", choices=("avx2", "native"), default="avx2")
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="where it goes (default: bench/results/scan_TIME.json)"
    )
    return parser.parse_args(arguments)


def _scan(options: argparse.Namespace) -> list[Found]:
    command = [sys.executable, "-m", "bench.scan.worker", "--only", options.only]
    environment = host.measuring_environment("one", options.baseline_isa)
    found: list[Found] = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            found.append(json.loads(text))
            if sys.stderr.isatty():
                print(f"\r{len(found)} {found[-1]['name']:<60.60}", end="", file=sys.stderr, flush=True)
    if process.returncode:
        raise SystemExit(f"the scanning process ended with {process.returncode}; see above")
    return found


def told(line: Found) -> str:
    """One line of the table."""
    wide = "" if line["over_float32"] is None else f", {line['over_float32']:.2f}x of fp32's"
    where = ", on the CPU (fallback)" if line["fallback"] else ""
    times = f"{line['ours_seconds'] * 1e3:.2f} / {line['baseline_seconds'] * 1e3:.2f} ms"
    return f"{line['ratio']:7.2f}x  {line['name']:<44} {line['dtype']:<8} {times}{wide}{where}"


def summary(found: list[Found], worst: int) -> str:
    """The slowest first, and how many stand beyond the bound."""
    timed = sorted((line for line in found if line["ratio"] is not None), key=lambda line: -line["ratio"])
    beyond = sum(line["ratio"] > BOUND for line in timed)
    count = f"{len(timed)} numbers, {beyond} above {BOUND:g}x; {len(found) - len(timed)} left out (torch or the card takes no such dtype)"
    return "\n".join([*(told(line) for line in timed[:worst]), count])


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    options = _options(arguments)
    found = _scan(options)
    print(summary(found, options.worst))
    run = {"baseline_isa": options.baseline_isa, "scan": True}
    print(f"written to {report.save(found, run, options.json)}")
    return int(not found)


if __name__ == "__main__":
    sys.exit(main())
