"""Layouts of tensors on the card: read, set, and create with one."""

from __future__ import annotations

import functools
from typing import Any

import torch

from openspyre.spec.dci import DataConversionInfo, describe_transfer
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.formats import DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre import _torch
from torch_spyre.constants import DEVICE_NAME


@functools.lru_cache(maxsize=4096)
def _layout(interned: tuple[int, tuple[int, ...], tuple[int, ...], int, int]) -> SpyreTensorLayout:
    _, device_size, stride_map, data_format, arrangement = interned
    return SpyreTensorLayout(
        device_size=list(device_size),
        stride_map=list(stride_map),
        device_dtype=DataFormats(data_format),
        element_arrangement=ElementArrangement(arrangement),
    )


def _parts(layout: SpyreTensorLayout) -> tuple[list[int], list[int], int, int]:
    if not isinstance(layout, SpyreTensorLayout):
        raise InvalidLayout(f"device_layout must be a SpyreTensorLayout, not {type(layout).__name__}")
    return layout.device_size, layout.stride_map, int(layout.device_dtype), int(layout.element_arrangement)


def device_tensor_layout(tensor: torch.Tensor) -> SpyreTensorLayout | None:
    """The layout of a tensor on the card; None for any other tensor, fake ones included."""
    if tensor.device.type != DEVICE_NAME or type(tensor).__name__ == "FakeTensor":
        return None
    found = _torch.layout_of(tensor)
    if not found:
        return None
    identity, device_size, stride_map, data_format, arrangement = found
    return _layout((identity, tuple(device_size), tuple(stride_map), data_format, arrangement))


def get_spyre_tensor_layout(tensor: torch.Tensor) -> SpyreTensorLayout:
    """The layout of a tensor on the card; an error for any other tensor."""
    layout = device_tensor_layout(tensor)
    if layout is None and tensor.device.type == DEVICE_NAME:
        raise InvalidLayout(
            f"a tensor of {tensor.dtype} has no layout: the card has no format for it; convert it first"
        )
    if layout is None:
        raise InvalidLayout(f"a tensor on {tensor.device} has no Spyre layout; move it with .to('spyre')")
    return layout


def set_spyre_tensor_layout(tensor: torch.Tensor, layout: SpyreTensorLayout) -> None:
    """Re-tile a tensor's buffer. Contents stay, all views and aliases of the buffer see the new layout."""
    get_spyre_tensor_layout(tensor)
    _torch.set_layout(tensor, *_parts(layout))


def _stride(size: list[int], memory_format: torch.memory_format = torch.contiguous_format) -> list[int]:
    """Host strides of a memory format; one that does not fit the size is torch's error."""
    return list(torch.empty(size, device="meta", memory_format=memory_format).stride())


def empty(
    *size: Any,
    device_layout: SpyreTensorLayout | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    requires_grad: bool = False,
    **other: Any,
) -> torch.Tensor:
    """An uninitialised tensor on the card, in a layout of the user's choice or the default one."""
    if device is None or isinstance(device, int):
        device = torch.device(DEVICE_NAME) if device is None else torch.device(DEVICE_NAME, device)
    if device_layout is None:
        return torch.empty(*size, dtype=dtype, device=device, requires_grad=requires_grad, **other)
    device = torch.device(device)
    if device.type != DEVICE_NAME:
        raise InvalidLayout(f"device_layout= is for tensors on spyre, this one is to be on {device}")
    if set(other) - {"layout", "pin_memory", "memory_format", "size"}:
        raise TypeError(f"torch.empty with device_layout= does not take {sorted(other)}")
    extents = list(other.get("size", size[0] if len(size) == 1 and not isinstance(size[0], int) else size))
    result = empty_with_layout(
        extents,
        _stride(extents, other.get("memory_format") or torch.contiguous_format),
        dtype or torch.get_default_dtype(),
        device_layout,
        device,
    )
    return result.requires_grad_(requires_grad)


def new_empty(tensor: torch.Tensor, *size: Any, device_layout: SpyreTensorLayout, **other: Any) -> torch.Tensor:
    """`tensor.new_empty(..., device_layout=layout)`: dtype and card of the tensor unless others are named."""
    here = tensor.device if tensor.device.type == DEVICE_NAME else None
    other = {"dtype": tensor.dtype, "device": here} | {
        name: value for name, value in other.items() if value is not None
    }
    return empty(*size, device_layout=device_layout, **other)


def empty_with_layout(
    size: list[int],
    stride: list[int],
    dtype: torch.dtype,
    layout: SpyreTensorLayout,
    device: torch.device | None = None,
) -> torch.Tensor:
    """An uninitialised tensor of given size, stride and layout."""
    return _torch.empty_with_layout(list(size), list(stride), dtype, *_parts(layout), device)


def to_with_layout(tensor: torch.Tensor, layout: SpyreTensorLayout, *args: Any, **kwargs: Any) -> torch.Tensor:
    """`tensor.to(..., device_layout=layout)`: always a new tensor, as its buffer differs. A layout implies the card."""
    kwargs.pop("copy", None)
    non_blocking = kwargs.get("non_blocking", False)
    memory_format = kwargs.pop("memory_format", None) or torch.preserve_format
    target = torch.empty(0, dtype=tensor.dtype, device=tensor.device).to(*args, **kwargs)
    if _names_device(args, kwargs) and target.device.type != DEVICE_NAME:
        raise InvalidLayout(f"device_layout= is for tensors on spyre, this one is to be on {target.device}")
    device = target.device if target.device.type == DEVICE_NAME else torch.device(DEVICE_NAME)
    if memory_format is not torch.preserve_format:
        stride = _stride(list(tensor.shape), memory_format)
    else:
        stride = list(tensor.stride()) if _is_dense(tensor) else _stride(list(tensor.shape))
    return _LayoutCopy.apply(tensor, stride, target.dtype, layout, device, non_blocking)


def _names_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether arguments of Tensor.to say where: a device or another tensor, and not a dtype alone."""
    first = args[0] if args else kwargs.get("device", kwargs.get("other"))
    return first is not None and not isinstance(first, torch.dtype)


class _LayoutCopy(torch.autograd.Function):
    """Copy into a given layout, with the gradient going back to where the input was."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, stride: list[int], dtype: torch.dtype, layout: SpyreTensorLayout,
                device: torch.device, non_blocking: bool) -> torch.Tensor:  # fmt: skip
        ctx.source = (tensor.device, tensor.dtype)
        result = empty_with_layout(list(tensor.shape), stride, dtype, layout, device)
        return result.copy_(tensor, non_blocking=non_blocking)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        device, dtype = ctx.source
        return gradient.to(device=device, dtype=dtype), None, None, None, None, None


def _is_dense(tensor: torch.Tensor) -> bool:
    order = sorted(range(tensor.dim()), key=tensor.stride)
    expected = 1
    for dim in order:
        if tensor.size(dim) != 1 and tensor.stride(dim) != expected:
            return False
        expected *= max(tensor.size(dim), 1)
    return True


def transfer_descriptor(tensor: torch.Tensor, *, to_device: bool = True) -> DataConversionInfo:
    """The DMA descriptor (DCI) of moving this tensor's whole buffer between host and card, as data to inspect."""
    layout = get_spyre_tensor_layout(tensor)
    buffer = _torch.buffer_of(tensor)
    return describe_transfer(
        layout=layout,
        dtype=tensor.dtype,
        host_size=buffer["host_size"],
        host_stride=buffer["host_stride"],
        to_device=to_device,
    )
