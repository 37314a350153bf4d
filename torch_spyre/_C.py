"""The documented low-level names, re-exported from the rooms where they live."""

import torch

from openspyre.spec.formats import DataFormats, ElementArrangement, get_device_dtype, get_elem_in_stick
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.device.layouts import empty_with_layout, get_spyre_tensor_layout, set_spyre_tensor_layout
from torch_spyre.device.start import get_downcast_warning, set_downcast_warning

__all__ = [
    "DataFormats",
    "ElementArrangement",
    "SpyreTensorLayout",
    "copy_tensor",
    "empty_with_layout",
    "get_device_dtype",
    "get_downcast_warning",
    "get_elem_in_stick",
    "get_spyre_tensor_layout",
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
