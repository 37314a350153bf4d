"""`python -m bench.against OTHER/.venv/bin/python`: launches here and in another build, measured in turns: what a change costs them.

Two processes take turns round by round; fresh pairs of them, because where memory lies is settled when a process starts; neither is always the first.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from contextlib import ExitStack

WORKS = ("launch", "launch and wait", "graph", "copy")
WORKER = """
import sys, time, torch
x = torch.randn(64).half().to("spyre")
y, host, wait = x.clone(), torch.randn(64).half(), torch.spyre.synchronize
call = torch.compile(lambda a, b: a + b, dynamic=False)
def launch():
    for _ in range(1000): x + y
    wait()
def launch_and_wait():
    for _ in range(300): x + y; wait()
def graph():
    for _ in range(300): call(x, y)
    wait()
def copy():
    for _ in range(300): x.copy_(host)
works = {"launch": launch, "launch and wait": launch_and_wait, "graph": graph, "copy": copy}
for work in works.values(): work(), work()
print("ready", flush=True)
for name in sys.stdin:
    start = time.perf_counter()
    works[name.strip()]()
    print(time.perf_counter() - start, flush=True)
"""


class Build:
    """A process that measures with one interpreter's build."""

    def __init__(self, python: str) -> None:
        call = [python, "-c", WORKER]
        self._process = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == "ready"

    def seconds(self, work: str) -> float:
        assert self._process.stdin is not None
        print(work, file=self._process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def ratio(ours: Build, other: Build, work: str, rounds: int) -> float:
    """Median of the rounds' ratios; the two take turns in going first."""
    found = []
    for number in range(rounds):
        taken = {build: build.seconds(work) for build in ((ours, other) if number % 2 else (other, ours))}
        found.append(taken[ours] / taken[other])
    return statistics.median(found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("python", help="the other build's interpreter")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--pairs", type=int, default=10)
    options = parser.parse_args()
    ratios: dict[str, list[float]] = {work: [] for work in WORKS}
    for pair in range(options.pairs):
        with ExitStack() as builds:
            pythons = [sys.executable, options.python]
            started = {python: Build(python) for python in (pythons[::-1] if pair % 2 else pythons)}
            ours, other = started[sys.executable], started[options.python]
            builds.callback(ours.close)
            builds.callback(other.close)
            for work in WORKS:
                ratios[work].append(ratio(ours, other, work, options.rounds))
    for work, found in ratios.items():
        print(f"{work:16} {statistics.median(found):.3f}   {' '.join(f'{one:.3f}' for one in sorted(found))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
