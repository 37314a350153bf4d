"""torch.profiler on the card: what it costs while it is on, and how long a large trace takes to write.

What it costs while it is off, `python -m bench.against` measures: a launch here and in a build without it.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch.profiler import profile

import torch_spyre
from bench.cases.models import _decode
from bench.registry import ONE, case
from bench.timing import Effort, Measurement, summarize

TOKENS = 10  # in a round, so that starting and ending a profile is not what is measured
EVENTS = 100_000


@case("SmolLM2, compiled decode while profiled, {}", asked=1.10, baseline="not profiled", over=("without steps",))
@case("SmolLM2, compiled decode while profiled, {}", asked=1.30, baseline="not profiled", over=("with steps",))
def decode(which: str, effort: Effort) -> Measurement:
    """The card's events alone in the first, as `configure(steps=False)` gives them; the lane of a real card in both."""
    torch.compiler.reset()
    run = _decode("spyre", compiled=True)

    def seconds(profiled: bool) -> float:
        with profile() if profiled else contextlib.nullcontext():
            start = time.perf_counter()
            for _ in range(TOKENS):
                run()
            return (time.perf_counter() - start) / TOKENS

    with torch_spyre.profiler.configure(steps=which == "with steps"):
        rounds = [
            (seconds(first), seconds(not first)) if first else (seconds(first), seconds(not first))[::-1]
            for first in ([True, False] * effort.least_rounds)[: effort.least_rounds + 2]
        ][2:]
    ours, plain = zip(*rounds, strict=True)
    found = summarize([mine / alone for mine, alone in rounds])
    times = {"ours_seconds": statistics.median(ours), "baseline_seconds": statistics.median(plain)}
    return replace(found, best=min(ours) / min(plain), **times)


@case(f"a trace of {EVENTS:,} events is exported", asked=5, unit="s", baseline="-", threads=ONE)
def export(effort: Effort) -> Measurement:
    """Launches of a graph of a few steps, with steps and the lane of a real card."""
    call = torch.compile(lambda x: torch.softmax(x @ x, -1) + 1, dynamic=False)
    x = torch.randn(64, 64).half().to("spyre")
    call(x)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "trace.json"

        def trace(launches: int) -> tuple[float, int]:
            with profile() as found:
                for _ in range(launches):
                    call(x)
            start = time.perf_counter()
            found.export_chrome_trace(str(path))
            return time.perf_counter() - start, path.read_text().count('"ph":')

        _, few = trace(100)
        launches = -(-EVENTS * 100 // few)
        exported, events = trace(launches + launches // 50)
    if events < EVENTS:
        raise RuntimeError(f"the trace has {events:,} events")
    return Measurement(exported, exported, exported, 1, exported, exported, exported)
