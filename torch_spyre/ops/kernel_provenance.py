"""Kernels that this process has compiled or found, by their keys: from the name of a trace's event to operators, lines and modules."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from openspyre.artifact.kernel_key import read_event_name

_MOST = 4096  # kernels, the latest
_FIRST = 18  # field of an op's line: its operator; place, module and handles follow (described_steps.py)


@dataclass(frozen=True, slots=True)
class OpProvenance:
    """An op of a kernel: its name in the bundle, the operator it comes from, the Python line, the module."""

    name: str
    operator: str
    source: str
    module: str
    debug_handles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelProvenance:
    key: str
    kernel: str
    ops: tuple[OpProvenance, ...]


class _Kernels:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.described: OrderedDict[str, str] = OrderedDict()
        self.registered = self.found = self.missed = 0


_kernels = _Kernels()


def register_provenance(described: str) -> str | None:
    """Keeps what a program's description tells; its key, None if it has none."""
    word, _, key = described.partition("\n")[0].rpartition("\t")
    if not word.startswith("kernel\t"):
        return None
    with _kernels.lock:
        _kernels.registered += 1
        _kernels.described[key] = described
        _kernels.described.move_to_end(key)
        if len(_kernels.described) > _MOST:
            _kernels.described.popitem(last=False)
    return key


def lookup_provenance(key: str) -> KernelProvenance | None:
    with _kernels.lock:
        described = _kernels.described.get(key)
        _kernels.found += described is not None
        _kernels.missed += described is None
    if described is None:
        return None
    lines = [line.split("\t") for line in described.split("\n")]
    ops = [
        OpProvenance(line[2], line[_FIRST], line[_FIRST + 1], line[_FIRST + 2], tuple(line[_FIRST + 3].split()))
        for line in lines
        if line[0] == "op"
    ]
    return KernelProvenance(key, lines[0][1], tuple(ops))


def extract_provenance_key(event: str) -> str | None:
    """The key in the name of an event; None if it is no kernel's."""
    found = read_event_name(event)
    return None if found is None else found.key


def provenance_stats() -> dict[str, int]:
    with _kernels.lock:
        return {
            "kernels": len(_kernels.described),
            "registered": _kernels.registered,
            "found": _kernels.found,
            "missed": _kernels.missed,
        }
