"""Facts about the machine and the software under us, each found without importing more than numpy."""

import os
import platform
from importlib import metadata
from pathlib import Path

_SIMD_FLAGS = ("sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512_fp16", "amx_tile", "asimd", "sve")


def installed_version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def openspyre_version() -> str:
    return installed_version("openspyre") or "not installed, run from its sources"


def _cpuinfo(key: str, text: str) -> str:
    """First value of a key of /proc/cpuinfo."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, object]:
    """Model, CPUs this process may use, and the SIMD extensions that matter to the card."""
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    flags = (_cpuinfo("flags", text) or _cpuinfo("Features", text)).split()
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "model": _cpuinfo("model name", text) or platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cpus_available": available,
        "simd": [flag for flag in _SIMD_FLAGS if flag in flags],
    }


def machine_memory_bytes() -> int:
    """Of the whole machine; what a cgroup leaves of it may be less."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def software() -> dict[str, object]:
    return {
        "openspyre": openspyre_version(),
        "torch": installed_version("torch") or "not installed",
        "numpy": installed_version("numpy"),
        "python": platform.python_version(),
        "system": platform.platform(),
    }
