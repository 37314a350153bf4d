"""What running an operator takes of the host's memory: the high-water mark of a process of its own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from bench.registry import ONE, case
from bench.timing import Effort, Measurement

# Tensors are made on the card, so that no copies on the host count. A small call first loads what every call needs.
_RUN = """
import torch
import torch.nn.functional as F

def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))

def call(size):
    tensors = [torch.empty(size, dtype=torch.float16, device="spyre").fill_(0.5) for _ in range({operands})]
    x, y = (tensors * 2)[:2]
    result = {statement}
    torch.spyre.synchronize()
    return tensors, result

call((64, 64))
torch.spyre.memory.empty_cache()
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
tensors, result = call({size})
held = sum(tensor.untyped_storage().nbytes() for tensor in (*tensors, result))
print(status("VmHWM") - before, held)
"""
_FREE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """A statement over tensors x and y of the given size; as text, what is told of it."""

    statement: str
    size: tuple[int, ...]
    operands: int = 1

    def __str__(self) -> str:
        return f"{self.statement}, {' x '.join(map(str, self.size))}"


RUNS = [
    Run("x + y", (8192, 8192), 2),
    Run("F.gelu(x)", (8192, 8192)),
    Run("torch.softmax(x, -1)", (8192, 8192)),
    Run("x.sum(-1)", (8192, 8192)),
    Run("x @ y", (4096, 4096), 2),
    Run("x.t().contiguous()", (8192, 8192)),
]


@case("peak host memory beyond 64 MB, to tensors: {}", asked=1.1, baseline="-", threads=ONE, over=RUNS)
def peak(run: Run, effort: Effort) -> Measurement:
    """The peak less 64 MB that every operator may take, over the bytes of operands and result."""
    script = _RUN.format(statement=run.statement, size=run.size, operands=run.operands)
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    peak_bytes, held = (int(word) for word in told)
    ratio = (peak_bytes - _FREE_BYTES) / held
    return Measurement(ratio, ratio, ratio, rounds=1)
