"""`python -m fuzz`: mutated bundles and programs; the verifier, the back end and the card must agree, and nothing may crash.

Mutants run in a process of their own: one that dies or hangs is told by its number, and the rest goes on behind it.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

SECONDS_WITHOUT_A_WORD = 120
SECONDS_BETWEEN_REPORTS = 30


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument(
        "--kind",
        choices=("texts", "bundles", "programs"),
        default="bundles",
        help="what is mutated: files, facts of the model, programs of the card",
    )
    parser.add_argument("--count", type=int, default=1000, help="mutants to try")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same mutants")
    parser.add_argument("--card", type=Path, help="another build of the card's Python module, such as a sanitizer's")
    parser.add_argument("--here", action="store_true", help="in this process, to look at a mutant that kills it")
    options = parser.parse_args(arguments)
    if options.here:
        return _run_here(options)
    outcomes: Counter[str] = Counter()
    faults, first, end = 0, options.first, options.first + options.count
    while first < end:
        first, died = _run_apart(options, first, end, outcomes)
        faults += died
    faults += outcomes.pop("fault", 0)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"{options.count} mutated {options.kind}, seed {options.seed}: {told}, {faults} faults")
    return 1 if faults else 0


def _run_apart(options: argparse.Namespace, first: int, end: int, outcomes: Counter[str]) -> tuple[int, bool]:
    """Runs mutants in a child until they end or kill it; the number to go on with, and whether it died."""
    command = [sys.executable, "-m", "fuzz", "--here", "--kind", options.kind, "--seed", str(options.seed)]
    command += ["--first", str(first), "--count", str(end - first)]
    command += ["--card", str(options.card)] if options.card else []
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert child.stdout is not None
        told = time.monotonic()
        for line in child.stdout:
            number, _, outcome = line.rstrip("\n").partition(" ")
            if number.isdigit():
                first = int(number) + 1
                outcomes[outcome.partition(":")[0]] += 1
            if time.monotonic() - told > SECONDS_BETWEEN_REPORTS:
                told = time.monotonic()
                print(f"{first} of {end} {options.kind}, {outcomes['fault']} faults", file=sys.stderr, flush=True)
            if outcome.startswith("fault") or not number.isdigit():
                print(line, end="", flush=True)
        if child.wait() == 0:
            return end, False
        errors.seek(0)
        print(f"{first} kills the process ({child.returncode}):\n{errors.read()[-6000:]}", flush=True)
    return first + 1, True


def _use_card(path: Path) -> None:
    """Puts another build of the card's module in the place of the installed one, before anybody imports it."""
    name = "openspyre.card._card"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _run_here(options: argparse.Namespace) -> int:
    import faulthandler

    if options.card:
        _use_card(options.card)
    from fuzz.mutants import JUDGES

    judge: Callable[[int, int], str] = JUDGES[options.kind]
    for number in range(options.first, options.first + options.count):
        faulthandler.dump_traceback_later(SECONDS_WITHOUT_A_WORD, exit=True)
        print(number, judge(options.seed, number), flush=True)
    faulthandler.cancel_dump_traceback_later()
    return 0


if __name__ == "__main__":
    sys.exit(main())
