"""What compiling costs: stacks of layers in fresh processes with empty caches, and again from what those kept.

A round is three processes per size: cold on the card, again from its caches, cold on the CPU. All rows read the same rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

from bench.registry import ONE, case
from bench.timing import Effort, Measurement, summarize

LAYERS = (1, 4, 8)
_SAVED = 4  # layers of the stack that is also started from a saved function
_SCRIPT = """
import json, sys, time
from pathlib import Path
import torch
from bench.blocks import LlamaStack, rotary_angles
device, layers, saved = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dtype = torch.float32 if device == "cpu" else torch.float16
stack = LlamaStack(layers, 256, 4, 640).eval().requires_grad_(False).to(dtype).to(device)
inputs = [tensor.to(dtype).to(device) for tensor in (torch.randn(1, 128, 256), *rotary_angles(128, 64))]
inductor, behind = torch._dynamo.lookup_backend("inductor"), [0.0]

def timed(run):
    def wrapper(*args, **kwargs):
        begin = time.perf_counter()
        returned = run(*args, **kwargs)
        behind[0] += time.perf_counter() - begin
        return returned
    return wrapper

def backend(module, examples):
    return timed(timed(inductor)(module, examples))

# What is loaded once is not what is measured: the modules that a compiler imports when it first meets attention, too.
warm = torch.zeros(1, 1, 64, 64, dtype=dtype, device=device)
torch.compile(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x) + 1)(warm)
begin = time.perf_counter()
if saved and Path(saved).exists():
    with open(saved, "rb") as file:
        torch.compiler.load_compiled_function(file)(stack, *inputs).cpu()
else:
    torch.compile(stack, dynamic=False, backend=backend)(*inputs).cpu()
told = {"seconds": time.perf_counter() - begin, "behind": behind[0], "own": 0.0}
if device == "spyre":
    from torch_spyre import compile_report
    last = compile_report()[-1]
    told["own"] = last.import_seconds + sum(sum(s.seconds.values()) for b in last.bundles for s in b.specialisations)
    if saved and not Path(saved).exists():
        torch.compiler.reset()
        once = torch.compile(stack, dynamic=False, fullgraph=True).forward.aot_compile((tuple(inputs), {}))
        once.save_compiled_function(saved)
print(json.dumps(told))
"""


@dataclass(frozen=True, slots=True)
class Start:
    """One process: `seconds` from the call to the result, `behind` Dynamo, and in our `own` stages alone."""

    seconds: float
    behind: float
    own: float


@dataclass(frozen=True, slots=True)
class Round:
    cold: Start
    warm: Start
    cpu: Start
    saved: Start | None


def _start(device: str, layers: int, directory: str, saved: str = "") -> Start:
    """First call of a compiled stack in a process whose caches are in the directory."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": f"{directory}/inductor", "OPENSPYRE_CACHE_DIR": f"{directory}/openspyre"}
    command = [sys.executable, "-W", "ignore", "-c", _SCRIPT, device, str(layers), saved]
    done = subprocess.run(command, env=os.environ | caches, check=True, capture_output=True, text=True)
    return Start(**json.loads(done.stdout.splitlines()[-1]))


@cache
def _round(layers: int, number: int) -> Round:
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        function = f"{ours}/function" if layers == _SAVED else ""
        cold, warm = _start("spyre", layers, ours, function), _start("spyre", layers, ours)
        saved = _start("spyre", layers, ours, function) if function else None
        return Round(cold, warm, _start("cpu", layers, theirs), saved)


def _measured(effort: Effort, ours: Callable[[int], float], baseline: Callable[[int], float]) -> Measurement:
    """Over two rounds, one if in a hurry: a process is long enough to even out most of what disturbs it."""
    rounds = [(ours(number), baseline(number)) for number in range(max(1, effort.processes // 7))]
    mine, theirs = zip(*rounds, strict=True)
    summary = summarize([a / b for a, b in rounds])
    return replace(summary, ours_seconds=median(mine), baseline_seconds=median(theirs), best=min(mine) / min(theirs))


@case("cold compile of {} layers", asked=0.8, goal=0.5, baseline="CPU Inductor", threads=ONE, over=LAYERS)
def cold(layers: int, effort: Effort) -> Measurement:
    return _measured(effort, lambda n: _round(layers, n).cold.seconds, lambda n: _round(layers, n).cpu.seconds)


@case("warm start of {} layers", asked=0.2, baseline="cold", threads=ONE, over=LAYERS)
def warm(layers: int, effort: Effort) -> Measurement:
    """Dynamo traces in every process, whatever the caches hold: that alone is most of it."""
    return _measured(effort, lambda n: _round(layers, n).warm.seconds, lambda n: _round(layers, n).cold.seconds)


@case("warm start of {} layers, behind Dynamo", asked=0.2, baseline="cold", threads=ONE, over=LAYERS)
def warm_behind_dynamo(layers: int, effort: Effort) -> Measurement:
    """What caches can save: AOTAutograd, Inductor, our passes, and the first launch."""
    return _measured(effort, lambda n: _round(layers, n).warm.behind, lambda n: _round(layers, n).cold.behind)


@case("start of 4 layers from a saved function", asked=0.2, baseline="cold", threads=ONE)
def from_saved_function(effort: Effort) -> Measurement:
    """torch's own way around Dynamo: aot_compile and load_compiled_function."""

    def seconds(number: int) -> float:
        start = _round(_SAVED, number).saved
        assert start is not None
        return start.seconds

    return _measured(effort, seconds, lambda n: _round(_SAVED, n).cold.seconds)


@case("own passes for 8 equal layers", asked=2.0, baseline="for one", threads=ONE)
def equal_layers(effort: Effort) -> Measurement:
    """Import, expansion, passes, bundle and back end, as the report tells them."""
    return _measured(effort, lambda n: _round(8, n).cold.own, lambda n: _round(1, n).cold.own)
