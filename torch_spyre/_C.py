"""The documented low-level names, re-exported from the rooms where they live."""

from pathlib import Path

import torch

from openspyre.artifact import read
from openspyre.backend import compile_bundle
from openspyre.backend.job_plan import JobPlan, job_plan
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.formats import DataFormats, ElementArrangement, get_device_dtype, get_elem_in_stick
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.device.layouts import empty_with_layout, get_spyre_tensor_layout, set_spyre_tensor_layout
from torch_spyre.device.start import get_downcast_warning, set_downcast_warning

__all__ = [
    "DataFormats",
    "ElementArrangement",
    "JobPlan",
    "SpyreTensorLayout",
    "as_strided_with_layout",
    "copy_tensor",
    "empty_with_layout",
    "get_device_dtype",
    "get_downcast_warning",
    "get_elem_in_stick",
    "get_spyre_tensor_layout",
    "prepare_kernel",
    "reinterpret_tensor",
    "reinterpret_tensor_with_layout",
    "set_downcast_warning",
    "set_spyre_tensor_layout",
    "spyre_empty_with_layout",
]


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
    return as_strided_with_layout(tensor, size, stride, tensor.storage_offset() + offset, layout)


def prepare_kernel(directory: str | Path) -> JobPlan:
    """What a runtime prepares and executes for the bundle in a directory, as data; the card itself is given its program."""
    return job_plan(compile_bundle(read(Path(directory))))
