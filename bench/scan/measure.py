"""One call of the scan in one dtype: its time on the card, over torch's on the CPU.

Both have one thread, and what is told is processor time: a machine with others on it gives the same numbers.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass

import torch

from bench.scan.calls import Call
from bench.scan.operands import operands
from bench.timing import Effort, Pair, compare

# A thousand numbers in minutes: few rounds, and one alone of what takes long.
_SHORT = Effort(least_rounds=5, most_rounds=25, seconds=0.05, processes=1, sample_seconds=0.0, warmup_rounds=1)
_LONG = Effort(least_rounds=1, most_rounds=1, seconds=0.0, processes=1, sample_seconds=0.0, warmup_rounds=0)
_LONG_SECONDS = 0.05
_CALLS = 4  # before a wait: what is measured is the operator, not the way to the card and back
_SPACE = {"F": torch.nn.functional, "torch": torch, "aten": torch.ops.aten}


@dataclass(frozen=True, slots=True)
class Line:
    """What was found. `over_float32` of float16: against the CPU in fp32; `skipped`: why there is no number."""

    name: str
    dtype: str
    ratio: float | None = None
    ours_seconds: float | None = None
    baseline_seconds: float | None = None
    over_float32: float | None = None
    fallback: bool = False
    skipped: str = ""


def _first(problem: Exception) -> str:
    return f"{type(problem).__name__}: {str(problem).splitlines()[0]}" if str(problem) else type(problem).__name__


def _fallbacks() -> int:
    return sum(counts["calls"] for counts in torch.spyre.fallback_stats().values())


def measure(call: Call, dtype: torch.dtype) -> Line:
    """Nothing is raised: what torch or the card refuses is told."""
    name = str(dtype).removeprefix("torch.")
    host = operands(call.statement, call.samples, dtype)
    try:
        eval(call.statement, _SPACE | host)
    except Exception as problem:  # whatever torch raises for a dtype it has no kernel for
        return Line(call.name, name, skipped=f"the CPU: {_first(problem)}")
    before = _fallbacks()
    try:
        card = {word: tensor.to("spyre") for word, tensor in host.items()}
        eval(call.statement, _SPACE | card)
        torch.spyre.synchronize()
    except Exception as problem:
        return Line(call.name, name, skipped=f"the card: {_first(problem)}")
    fallback = _fallbacks() > before
    ours = _SPACE | card | {"wait": torch.spyre.synchronize}
    began = time.perf_counter()
    exec(f"{call.statement}; wait()", ours)
    eval(call.statement, _SPACE | host)
    lengthy = time.perf_counter() - began > _LONG_SECONDS
    effort, times = (_LONG, 1) if lengthy else (_SHORT, _CALLS)
    calls = "; ".join([call.statement] * times)
    waited = f"{calls}; wait()"
    found = compare(Pair(waited, calls, ours, _SPACE | host), effort, time.process_time)
    wide = None
    if dtype is torch.float16:
        wider = {word: tensor.float() if tensor.dtype is dtype else tensor for word, tensor in host.items()}
        wide = compare(Pair(waited, calls, ours, _SPACE | wider), effort, time.process_time).value
    del card, ours
    gc.collect()
    torch.spyre.empty_cache()  # a call may have taken gigabytes
    assert found.ours_seconds is not None and found.baseline_seconds is not None
    return Line(
        call.name, name, found.value, found.ours_seconds / times, found.baseline_seconds / times, wide, fallback
    )
