"""Memory of the card: `torch.spyre.memory`, the same numbers that torch.accelerator.memory gives."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

from torch_spyre import _torch
from torch_spyre.device.memory_history import (
    _attach_out_of_memory_observer,
    _dump_snapshot,
    _record_memory_history,
    _snapshot,
    memory_snapshot,
)
from torch_spyre.device.memory_lines import HeldByLine, HeldByModule, MemoryByLine, memory_by_line
from torch_spyre.device.streams import DeviceLike, device_index

__all__ = [
    "HeldByLine", "HeldByModule", "MemoryByLine", "_attach_out_of_memory_observer", "_dump_snapshot", "_record_memory_history", "_snapshot", "empty_cache",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_by_line", "memory_reserved",
    "memory_snapshot", "memory_stats", "memory_summary", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
]  # fmt: skip


def empty_cache() -> None:
    """Give cached pages back to the host."""
    torch.accelerator.memory.empty_cache()


def memory_stats(device: DeviceLike = None) -> OrderedDict[str, Any]:
    """All counters of the allocator, named as torch.cuda.memory_stats names them."""
    return torch.accelerator.memory.memory_stats(device_index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes of device memory that tensors hold now, in whole sticks."""
    return torch.accelerator.memory.memory_allocated(device_index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The largest memory_allocated since the start or the last reset_peak_memory_stats."""
    return torch.accelerator.memory.max_memory_allocated(device_index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes of host memory behind the card: what tensors hold and what is cached."""
    return torch.accelerator.memory.memory_reserved(device_index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The largest memory_reserved since the start or the last reset_peak_memory_stats."""
    return torch.accelerator.memory.max_memory_reserved(device_index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Start measuring peaks anew."""
    torch.accelerator.memory.reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Start counting totals anew."""
    torch.accelerator.memory.reset_accumulated_memory_stats(device_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes of a card."""
    return torch.accelerator.memory.get_memory_info(device_index(device))


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The counters as a table like torch.cuda's; below it, while history is recorded and unless abbreviated, who held most at the peak."""
    index = device_index(device)
    stats = memory_stats(index)
    rule, thin = "=" * _WIDTH, "-" * _WIDTH
    ooms, flushes = f"SPYRE OOMs: {stats['num_ooms']}", f"cache flushes: {stats['num_alloc_retries']}"
    lines = [
        rule,
        f"PyTorch SPYRE memory summary, device ID {index}".center(_WIDTH),
        thin,
        f"{ooms:^37}|{flushes:^37}",
        rule,
        f"{'Metric':^23}| Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    for title, key, written in _METRICS:
        values = [int(stats[f"{key}.all.{column}"]) for column in ("current", "peak", "allocated", "freed")]
        lines += [thin, f" {title:<21} | " + " | ".join(written(value) for value in values) + " "]
    lines.append(rule)
    table = "\n".join(f"|{line}|" for line in lines) + "\n"
    if abbreviated or not _torch.memory_recorded():
        return table
    return f"{table}{memory_by_line(index).table(10)}\n"


_WIDTH = 75


def _sized(count: int) -> str:
    """As torch.cuda writes sizes: whole numbers of a unit that leaves at least 768 of the smaller one."""
    size, unit = count, 0
    while abs(size) >= 768 * 1024:
        size, unit = size // 1024, unit + 1
    return f"{size:6d} {('B  ', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def _counted(count: int) -> str:
    size, unit = count, 0
    while abs(size) >= 750 * 1000 and unit < 2:
        size, unit = size // 1000, unit + 1
    return f"{size:7d} {' KM'[unit]} "


_METRICS = (
    ("Allocated memory", "allocated_bytes", _sized),
    ("Active memory", "active_bytes", _sized),
    ("Requested memory", "requested_bytes", _sized),
    ("Host reserved memory", "reserved_bytes", _sized),
    ("Allocations", "allocation", _counted),
)
