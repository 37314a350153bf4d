"""`torch.spyre`: the public face of the device. Mirrors torch.cuda where a user would reach for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import DataFormats, ElementArrangement, get_device_dtype
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre import _torch
from torch_spyre.device import memory, random, streams
from torch_spyre.device.blocks import block_pool, copy_blocks
from torch_spyre.device.counters import CardCounters, Counters, StreamCounters, counters, reset_counters
from torch_spyre.device.layouts import (
    device_tensor_layout,
    empty,
    get_spyre_tensor_layout,
    set_spyre_tensor_layout,
    transfer_descriptor,
)
from torch_spyre.device.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_by_line,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from torch_spyre.device.properties import (
    SpyreDeviceProperties,
    get_device_capability,
    get_device_name,
    get_device_properties,
)
from torch_spyre.device.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_spyre.device.start import (
    enable_sanitizer,
    fault_injection,
    get_downcast_warning,
    is_in_bad_fork,
    set_downcast_warning,
)
from torch_spyre.device.streams import (
    DeviceLike,
    Event,
    Stream,
    current_stream,
    default_stream,
    device_index,
    set_stream,
    stream,
    synchronize,
)
from torch_spyre.ops.compilations import compilation_stats, reset_compilation_stats
from torch_spyre.ops.fallbacks import FallbackWarning, fallback_stats, reset_fallback_stats, set_fallback_mode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from torch_spyre.device.predicted import PredictedTime
    from torch_spyre.device.saving import SavedLaunches

__all__ = [
    "CardCounters", "Counters", "DataFormats", "ElementArrangement", "Event", "FallbackWarning", "SpyreDeviceProperties", "SpyreTensorLayout", "Stream",
    "StreamCounters", "block_pool", "compilation_stats", "copy_blocks", "counters", "current_device", "current_stream", "default_generators", "default_stream",
    "device", "device_count", "device_of",
    "device_tensor_layout", "diagnostic_report", "empty", "empty_cache", "enable_sanitizer", "fallback_stats", "fault_injection", "get_amp_supported_dtype",
    "get_device_capability", "get_device_dtype", "get_device_name", "get_device_properties", "get_downcast_warning",
    "get_rng_state", "get_rng_state_all", "get_spyre_tensor_layout", "init", "initial_seed", "is_available",
    "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved",
    "mem_get_info", "memory", "memory_allocated", "memory_by_line", "memory_reserved", "memory_snapshot", "memory_stats", "memory_summary", "predicted_time", "random",
    "reset_accumulated_memory_stats", "reset_compilation_stats", "reset_counters", "reset_fallback_stats", "reset_peak_memory_stats", "save_launches", "seed", "seed_all", "set_device",
    "set_downcast_warning", "set_fallback_mode", "set_rng_state", "set_rng_state_all", "set_spyre_tensor_layout",
    "set_stream", "stream", "streams", "synchronize", "transfer_descriptor",
]  # fmt: skip


def is_available() -> bool:
    """True if at least one card is visible."""
    try:
        return device_count() > 0
    except SpyreError:
        return False


def device_count() -> int:
    """The number of visible cards (OPENSPYRE_CARDS, SPYRE_DEVICES, AIU_WORLD_SIZE)."""
    return int(_torch.device_count())


def current_device() -> int:
    """The index of the current card."""
    return int(_torch.current_device())


def set_device(device: DeviceLike) -> None:
    """Make a card current for this thread; InvalidDevice if there is no such card."""
    _torch.set_current_device(device_index(device))


def init() -> None:
    """Read the switches and get the cards ready; happens by itself on first use."""
    _torch.ensure_configured()


_lazy_init = init
_impl = sys.modules[__name__]  # where existing code looks for _lazy_init


def is_initialized() -> bool:
    """True once the device has been used in this process."""
    return bool(_torch.is_configured()) and not is_in_bad_fork()


_is_in_bad_fork = is_in_bad_fork


class device:
    """Context manager: `with torch.spyre.device(1):` makes that card current."""

    def __init__(self, device: DeviceLike) -> None:
        self._index = -1 if isinstance(device, int) and device < 0 else device_index(device)
        self._before = -1

    def __enter__(self) -> device:
        if self._index >= 0:
            self._before = current_device()
            set_device(self._index)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before >= 0:
            set_device(self._before)


class device_of(device):
    """Context manager: the card of a tensor becomes current; a tensor elsewhere changes nothing."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device.index if tensor.device.type == "spyre" else -1)


def predicted_time(*, all_threads: bool = False) -> PredictedTime:
    """Context manager: how long a real card would take for what is launched inside, eager or compiled; copies and fallbacks apart.

    It records the thread that enters it, and autograd on its behalf; with `all_threads` everybody.
    """
    from torch_spyre.device.predicted import PredictedTime  # the clock is loaded when somebody asks it

    return PredictedTime(all_threads)


def save_launches(
    directory: str | Path, *, failed_only: bool = False, names: Sequence[str] = (), limit: int = 1000
) -> AbstractContextManager[SavedLaunches]:
    """Context manager: launches are saved as `directory/launch_<k>`, eager and compiled: `openspyre run` does them again, bit for bit.

    Each holds the program, images of the card's memory and the bundle. `failed_only`: those alone that raised an error. `names`: those
    alone whose name (`aten::add.Tensor`, `graph0`) has one of these parts. No more than `limit` are saved. Programs are compiled
    anew, and every launch is waited for. OPENSPYRE_SAVE_FAILED=DIR does the same for failed launches of a whole process.
    """
    from torch_spyre.device import saving  # nothing of it is needed otherwise

    return saving.save_launches(directory, failed_only=failed_only, names=names, limit=limit)


def diagnostic_report(path: str | Path | None = None) -> Path:
    """Writes one archive for a bug report, `spyre_report_<time>.zip` unless a path is given: versions, switches, host, the last graphs
    and their bundles, errors and findings, compile reports, counters. No weights, no values, no secrets, no directories of yours.
    """
    from torch_spyre.device import diagnosis  # nothing of it is needed otherwise

    return diagnosis.diagnostic_report(path)


def is_bf16_supported() -> bool:
    """bfloat16 tensors are held in the card's own 16-bit format, which has two more mantissa bits and less range."""
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types torch.autocast("spyre") may lower to."""
    return [torch.float16, torch.bfloat16]


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # torch.utils.checkpoint saves the generators' states only where it says so
        return is_initialized()
    if name == "Scheduling":
        # Inductor looks here for a backend it does not know yet. We register ours, with all its options, and stay without the name.
        from torch_spyre.inductor import backend

        backend.register()
    raise AttributeError(f"torch.spyre has no attribute {name!r}")
