"""What compiling costs: stacks of layers in fresh processes with empty caches, and again from what those kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import cache
from statistics import median

from bench.registry import ONE, case
from bench.timing import Effort, Measurement, summarize

LAYERS = (1, 4, 8)
_SCRIPT = """
import json, sys, time
import torch
from bench.blocks import LlamaStack, rotary_angles
device, layers = sys.argv[1], int(sys.argv[2])
dtype = torch.float32 if device == "cpu" else torch.float16
module = LlamaStack(layers, 256, 4, 640).eval().requires_grad_(False).to(dtype).to(device)
inputs = [tensor.to(dtype).to(device) for tensor in (torch.randn(1, 128, 256), *rotary_angles(128, 64))]
torch.compile(lambda x: x + 1)(inputs[0])  # what is loaded once is not what is measured
begin = time.perf_counter()
torch.compile(module, dynamic=False)(*inputs).cpu()
print(json.dumps(time.perf_counter() - begin))
"""


def _seconds(device: str, layers: int, directory: str) -> float:
    """First call of a compiled stack in a process whose caches are in the directory."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": f"{directory}/inductor", "OPENSPYRE_CACHE_DIR": f"{directory}/openspyre"}
    command = [sys.executable, "-c", _SCRIPT, device, str(layers)]
    done = subprocess.run(command, env=os.environ | caches, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


@cache
def _round(layers: int, number: int) -> tuple[float, float, float]:
    """Seconds cold on the card, warm on the card, cold on the CPU."""
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        cold = _seconds("spyre", layers, ours)
        return cold, _seconds("spyre", layers, ours), _seconds("cpu", layers, theirs)


def _measured(rounds: list[tuple[float, float]]) -> Measurement:
    ours, baseline = zip(*rounds, strict=True)
    ratio = summarize([mine / theirs for mine, theirs in rounds])
    best = min(ours) / min(baseline)
    return replace(ratio, ours_seconds=median(ours), baseline_seconds=median(baseline), best=best)


def _rounds(effort: Effort) -> range:
    return range(max(1, effort.processes // 3))


@case("cold compile of {} layers", asked=0.8, goal=0.5, baseline="CPU Inductor", threads=ONE, over=LAYERS)
def cold(layers: int, effort: Effort) -> Measurement:
    rounds = (_round(layers, number) for number in _rounds(effort))
    return _measured([(ours, theirs) for ours, _, theirs in rounds])


@case("warm start of {} layers", asked=0.2, baseline="cold", threads=ONE, over=LAYERS)
def warm(layers: int, effort: Effort) -> Measurement:
    rounds = (_round(layers, number) for number in _rounds(effort))
    return _measured([(again, first) for first, again, _ in rounds])
