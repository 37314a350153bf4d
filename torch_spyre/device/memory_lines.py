"""Who holds a card's memory, now and at the peak: bytes by line of Python, from the recorded history."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from openspyre.spec.errors import InvalidArgument
from torch_spyre import _torch
from torch_spyre.device.streams import DeviceLike, device_index

_TORCH = str(Path(torch.__file__).parent) + os.sep
_OURS = str(Path(__file__).parent.parent) + os.sep
_UNKNOWN = "allocated before the recording began"
_NO_STACK = "no stack was recorded"
_NO_USERS = "torch's own code"


@dataclass(frozen=True, slots=True)
class HeldByLine:
    """What a line of Python allocated and still held; `line` is 0 where no line is known, and `name` says why."""

    filename: str
    line: int
    name: str  # of the function
    purpose: str  # of memory that is no tensor: the graph whose temporaries it holds
    bytes: int
    blocks: int

    @property
    def text(self) -> str:
        """All that is known of the place."""
        place = f"{self.filename}:{self.line} {self.name}" if self.line else self.name
        return f"{place}  [{self.purpose}]" if self.purpose else place


@dataclass(frozen=True, slots=True)
class HeldByModule:
    """What was allocated while a torch.nn.Module was at work, and was still held; its submodules count for themselves."""

    module: str  # its path from the outermost module; "" for memory that no module asked for
    bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class MemoryByLine:
    """The lines, and the modules, the largest first. The bytes of each are all that was allocated then."""

    device: int
    at_peak: bool
    bytes: int
    lines: tuple[HeldByLine, ...]
    modules: tuple[HeldByModule, ...]

    def __str__(self) -> str:
        return self.table(sys.maxsize)

    def table(self, most: int) -> str:
        """The largest of both as tables to read."""
        when = "at the peak" if self.at_peak else "now"
        told = [f"spyre:{self.device} {when}: {_readable(self.bytes)} allocated"]
        told += _table([(line.bytes, line.blocks, line.text) for line in self.lines], "lines", most)
        if any(row.module for row in self.modules):
            told.append("by module:")
            rows = [(row.bytes, row.blocks, row.module or "no module") for row in self.modules]
            told += _table(rows, "modules", most)
        return "\n".join(told)


def _table(rows: Sequence[tuple[int, int, str]], what: str, most: int) -> list[str]:
    rest = rows[most:]
    if rest:
        last = (sum(size for size, _, _ in rest), sum(blocks for _, blocks, _ in rest), f"{len(rest)} other {what}")
        rows = [*rows[:most], last]
    return [
        f"{_readable(size):>12} {blocks:>7} {'block ' if blocks == 1 else 'blocks'}  {text}"
        for size, blocks, text in rows
    ]


def memory_by_line(device: DeviceLike = None, *, at_peak: bool = True) -> MemoryByLine:
    """Which lines of Python hold a card's memory: at the peak since the recording began (or peaks were reset), or now.

    A line is the innermost one that is neither torch's nor ours. Needs `torch.spyre.memory._record_memory_history()`.
    """
    if not _torch.memory_recorded():
        raise InvalidArgument(
            "who allocates memory is not recorded: call torch.spyre.memory._record_memory_history() before the allocations"
        )
    index = device_index(device)
    peak, now = _torch.memory_shares(index)
    total, shares = peak if at_peak else now
    return MemoryByLine(index, at_peak, total, _by_line(total, shares), _by_module(total, shares))


Place = tuple[str, int, str, str]
Share = tuple[int, Sequence[dict[str, Any]], str]


def _by_line(total: int, shares: Iterable[Share]) -> tuple[HeldByLine, ...]:
    held: dict[Place, list[int]] = defaultdict(lambda: [0, 0])
    known: dict[int, Place] = {}  # blocks of one origin share their frames
    for size, frames, _ in shares:
        _count(held[known.get(id(frames)) or known.setdefault(id(frames), place_of(frames))], size)
    before = total - sum(size for size, _ in held.values())
    if before:
        held["", 0, _UNKNOWN, ""] = [before, 0]
    lines = (HeldByLine(*place, size, blocks) for place, (size, blocks) in held.items())
    return tuple(sorted(lines, key=lambda line: (-line.bytes, line.filename, line.line, line.purpose)))


def _by_module(total: int, shares: Iterable[Share]) -> tuple[HeldByModule, ...]:
    held: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for size, _, module in shares:
        _count(held[module], size)
    before = total - sum(size for size, _ in held.values())
    if before:
        held[""][0] += before
    rows = (HeldByModule(module, size, blocks) for module, (size, blocks) in held.items())
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.module)))


def _count(entry: list[int], size: int) -> None:
    entry[0] += size
    entry[1] += 1


def place_of(frames: Sequence[dict[str, Any]]) -> Place:
    """The user's innermost line of a stack, and the purpose where one stands above it."""
    purpose = frames[0]["name"] if frames and frames[0]["filename"] == "<spyre>" else ""
    stack = frames[1:] if purpose else frames
    python = [frame for frame in stack if _is_python(frame["filename"])]
    users = next((frame for frame in python if _is_users(frame["filename"])), None)
    if users is not None:
        return (users["filename"], users["line"], users["name"], purpose)
    backward = next((frame["name"] for frame in stack if frame["filename"] == "<backward>"), None)
    if backward is not None:  # threads of autograd have no line of the user's
        return ("", 0, f"backward: {backward}", purpose)
    return ("", 0, _NO_USERS if python else _NO_STACK, purpose)


def _is_python(filename: str) -> bool:
    """Code of Python may lie in a file of any name; that of C++ is in a source of C++, or its place is unknown."""
    return (
        "??" not in filename
        and ".so" not in filename
        and not filename.endswith((".cpp", ".cc", ".c", ".h", ".hpp", ".S"))
    )


def _is_users(filename: str) -> bool:
    """Not torch's, not ours, and not code that Inductor or dynamo wrote."""
    if filename.startswith((_TORCH, _OURS)) or "torchinductor_" in filename:
        return False
    return not filename.startswith(("<backward>", "<eval_with_key>", "<frozen ", "<__array", "<torch"))


def _readable(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
