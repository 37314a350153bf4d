"""What the installed package adds to `import torch`, measured in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from statistics import median

from bench.registry import ONE, case
from bench.timing import Effort, Measurement, summarize

_IMPORT = """
import time
start = time.perf_counter()
import torch
print(time.perf_counter() - start, hasattr(torch, "spyre"))
"""


def _import_seconds(with_package: bool) -> float:
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(with_package))}
    command = [sys.executable, "-c", _IMPORT]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
    if (told[1] == "True") != with_package:
        raise RuntimeError(
            "torch loads the spyre device only from an installed package (entry point torch.backends): run "
            "`make build` or pip install -e . and use that environment's Python"
        )
    return float(told[0])


@case("import torch, more than without the package", asked=150, unit="ms", baseline="without", threads=ONE)
def import_cost(effort: Effort) -> Measurement:
    """Per round one process with and one without the entry point; the median of the differences."""
    pairs = [(_import_seconds(True), _import_seconds(False)) for _ in range(effort.processes + 1)][1:]
    more = summarize([(ours - plain) * 1e3 for ours, plain in pairs])
    ours, plain = zip(*pairs, strict=True)
    best = (min(ours) - min(plain)) * 1e3
    return replace(more, ours_seconds=median(ours), baseline_seconds=median(plain), best=best)
