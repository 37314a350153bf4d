"""The machine a run happens on, and the environment of a process that measures."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Literal

from bench.registry import Threads

BaselineIsa = Literal["avx2", "native"]

# Everything both sides choose their instruction set by.
_AVX2_ONLY = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENSPYRE_ISA": "avx2",  # the card is held to the same
}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENSPYRE_THREADS")


def available_cpus() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def measuring_environment(threads: Threads, isa: BaselineIsa) -> dict[str, str]:
    """The environment of a measuring process: both sides get the same threads, no test switch stays on."""
    environment = {name: value for name, value in os.environ.items() if name not in _AVX2_ONLY}
    environment.update(dict.fromkeys(_THREAD_VARIABLES, str(1 if threads == "one" else available_cpus())))
    environment["OPENSPYRE_SANITIZE"] = "0"
    environment["TORCH_SPYRE_FALLBACK"] = "silent"
    if isa == "avx2":
        environment.update(_AVX2_ONLY)
    return environment


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def describe() -> dict[str, object]:
    """What a reader needs to judge the numbers."""
    import torch

    return {
        "cpu": _cpu_model(),
        "cpus": available_cpus(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "load_average": os.getloadavg()[0],
    }
