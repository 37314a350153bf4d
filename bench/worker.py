"""The measuring process: runs the cases it is given in a fixed number of threads, one line of JSON for each.

Started by `python -m bench`, because thread counts and instruction sets are fixed when torch is loaded.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import traceback
from dataclasses import asdict

import torch

from bench import host
from bench.registry import Case, cases
from bench.timing import FULL, QUICK, Effort


def _run(found: Case, effort: Effort) -> dict[str, object]:
    row: dict[str, object] = {"name": found.name, "asked": found.asked, "goal": found.goal, "unit": found.unit}
    row["baseline"] = found.baseline
    try:
        measurement = found.measure(effort)
    except Exception as problem:  # one broken case must not hide the others
        traceback.print_exc(file=sys.stderr)
        return row | {"verdict": "error", "problem": f"{type(problem).__name__}: {problem}"}
    finally:
        gc.collect()
    return row | asdict(measurement) | {"verdict": found.verdict(measurement.value)}


def main() -> None:
    """Rows go to standard output as they are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", choices=("one", "all"), required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    count = 1 if options.threads == "one" else host.available_cpus()
    torch.set_num_threads(count)
    print(json.dumps({"host": host.describe()}), flush=True)
    for found in cases(options.only):
        if options.threads in found.threads:
            row = _run(found, QUICK if options.quick else FULL)
            print(json.dumps(row | {"threads": count}), flush=True)


if __name__ == "__main__":
    main()
