"""Memory of the card: `torch.spyre.memory`, the same numbers that torch.accelerator.memory gives."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

from torch_spyre.device.streams import DeviceLike, device_index


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


def memory_summary(device: DeviceLike = None) -> str:
    """The counters as a table to read."""
    index = device_index(device)
    stats = memory_stats(index)
    free, total = mem_get_info(index)
    rows = (
        ("allocated", "allocated_bytes"),
        ("requested", "requested_bytes"),
        ("active", "active_bytes"),
        ("reserved on the host", "reserved_bytes"),
    )
    lines = [
        f"spyre:{index}: {_readable(total - free)} of {_readable(total)} in use",
        f"{'':22}{'current':>12}{'peak':>12}{'allocated':>12}{'freed':>12}",
    ]
    for title, key in rows:
        values = [stats.get(f"{key}.all.{column}", 0) for column in _COLUMNS]
        lines.append(f"{title:22}" + "".join(f"{_readable(value):>12}" for value in values))
    lines.append(f"{'blocks':22}" + "".join(f"{stats.get(f'allocation.all.{c}', 0):>12}" for c in _COLUMNS))
    lines.append(
        f"out of memory {stats.get('num_ooms', 0)} time(s), cache flushed {stats.get('num_alloc_retries', 0)} time(s)"
    )
    return "\n".join(lines)


_COLUMNS = ("current", "peak", "allocated", "freed")


def _readable(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
