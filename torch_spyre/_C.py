"""The documented low-level names, re-exported from the rooms where they live."""

import torch

from openspyre.backend.job_plan import JobPlan
from openspyre.spec.encodings import encode_constant
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.formats import DataFormats, ElementArrangement, get_device_dtype, get_elem_in_stick
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.device.api import current_device, device_count, set_device
from torch_spyre.device.host_pool import SharedHostPool, copy_tensor_raw
from torch_spyre.device.kernels import launch_jobplan, launch_kernel, prepare_kernel
from torch_spyre.device.layouts import (
    empty_with_layout,
    get_spyre_tensor_layout,
    set_spyre_tensor_layout,
    to_with_layout,
)
from torch_spyre.device.random import (
    default_generators,
    get_rng_state,
    initial_seed,
    manual_seed,
    manual_seed_all,
    set_rng_state,
)
from torch_spyre.device.start import free_runtime, get_downcast_warning, set_downcast_warning, start_runtime
from torch_spyre.device.streams import (
    DeviceLike,
    Stream,
    current_stream,
    default_stream,
    device_index,
    host_compute_stream,
    host_compute_stream_by_id,
    synchronize,
)
from torch_spyre.device.streams import set_stream as set_current_stream
from torch_spyre.ops.kernel_provenance import (
    extract_provenance_key,
    lookup_provenance,
    provenance_stats,
    register_provenance,
)

__all__ = [
    "DataFormats",
    "ElementArrangement",
    "JobPlan",
    "SharedHostPool",
    "SpyreTensorLayout",
    "_get_default_generator",
    "as_strided_with_layout",
    "copy_tensor",
    "copy_tensor_raw",
    "current_device",
    "current_stream",
    "default_stream",
    "device_count",
    "empty_with_layout",
    "encode_constant",
    "extract_provenance_key",
    "free_runtime",
    "get_device_dtype",
    "get_downcast_warning",
    "get_elem_in_stick",
    "get_rng_state",
    "get_spyre_tensor_layout",
    "get_stream_from_pool",
    "host_compute_stream",
    "host_compute_stream_by_id",
    "initial_seed",
    "launch_jobplan",
    "launch_kernel",
    "lookup_provenance",
    "manual_seed",
    "manual_seed_all",
    "prepare_kernel",
    "provenance_stats",
    "register_provenance",
    "reinterpret_tensor",
    "reinterpret_tensor_with_layout",
    "set_current_stream",
    "set_device",
    "set_downcast_warning",
    "set_rng_state",
    "set_spyre_tensor_layout",
    "spyre_empty_with_layout",
    "start_runtime",
    "synchronize",
    "to_with_layout",
]  # fmt: skip


def spyre_empty_with_layout(
    size: list[int], stride: list[int], dtype: torch.dtype, layout: SpyreTensorLayout
) -> torch.Tensor:
    """An uninitialised tensor on the current card."""
    return empty_with_layout(size, stride, dtype, layout)


def copy_tensor(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copy between host and card, or within a card."""
    return target.copy_(source, non_blocking=non_blocking)


def as_strided_with_layout(
    tensor: torch.Tensor, size: list[int], stride: list[int], offset: int, layout: SpyreTensorLayout
) -> torch.Tensor:
    """A view; the layout belongs to the buffer, so it must be the one the buffer has."""
    found = get_spyre_tensor_layout(tensor)
    if found != layout:
        raise InvalidLayout(
            f"a view shares its buffer, whose layout is {found}, not {layout}; "
            "set_spyre_tensor_layout(tensor, layout) gives the buffer and all its views another one"
        )
    return torch.as_strided(tensor, size, stride, offset)


def reinterpret_tensor(tensor: torch.Tensor, size: list[int], stride: list[int], offset: int = 0) -> torch.Tensor:
    """A view by sizes and strides, `offset` elements after the tensor's own start."""
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


def reinterpret_tensor_with_layout(
    tensor: torch.Tensor, size: list[int], stride: list[int], offset: int, layout: SpyreTensorLayout
) -> torch.Tensor:
    """As reinterpret_tensor, for a buffer of this layout."""
    return as_strided_with_layout(tensor, size, stride, int(tensor.storage_offset()) + offset, layout)


def get_stream_from_pool(device: DeviceLike = None, priority: int = 0) -> Stream:
    """The next stream of a card's low-priority pool, or of the high-priority one for any `priority` but 0."""
    return Stream(device, priority)


def _get_default_generator(device: DeviceLike = None) -> torch.Generator:
    """A card's default generator."""
    return default_generators[device_index(device)]
