"""Pools over images: what every place of the kernel meets is an image of its own, and those are reduced one after the other.

So the card walks along whole sticks, and sums go through the kernel row by row, as torch's do on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_spyre.ops.accumulation import accumulation_dtype
from torch_spyre.ops.memory_formats import strided_like

Tensor = torch.Tensor


def max_pool(
    image: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Values, and their places in the (flattened, unpadded) image; of equals, the first."""
    kernel, padding, dilation = _pair(kernel), _pair(padding), _pair(dilation)
    stride = _pair(stride) if len(stride) else kernel
    windows = _windows(image, kernel, stride, padding, dilation, ceil_mode, _below_all(image.dtype))
    values, places = windows.max(0)
    width = image.shape[-1]
    rows, columns = (
        torch.arange(n, device=image.device) * stride[axis] - padding[axis] for axis, n in enumerate(values.shape[-2:])
    )
    # of place p: p // kernel[1] * dilation[0] rows and p % kernel[1] * dilation[1] columns behind the window's first
    corners = rows[:, None] * width + columns
    found = corners + places * dilation[1]
    if kernel[0] > 1:
        found = found + places // kernel[1] * (dilation[0] * width - dilation[1] * kernel[1])
    return strided_like(image, values), strided_like(image, found)


def average_pool(
    image: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Sums in fp32 (of float64 in its own), divided by the number of elements that count."""
    kernel, padding = _pair(kernel), _pair(padding)
    stride = _pair(stride) if len(stride) else kernel
    geometry = kernel, stride, padding, (1, 1), ceil_mode
    sums = _windows(image, *geometry, 0.0).sum(0, dtype=accumulation_dtype(image.dtype))
    if divisor_override is not None:
        return strided_like(image, (sums / divisor_override).to(image.dtype))
    counted = torch.ones(image.shape[-2:], device=image.device)
    if count_include_pad:  # what ceil_mode adds beyond the padding does not count, though
        counted = F.pad(counted, (padding[1], padding[1], padding[0], padding[0]), value=1.0)
        geometry = kernel, stride, (0, 0), (1, 1), ceil_mode
        windows = _windows(counted, *geometry, 0.0, tuple(sums.shape[-2:]))
    else:
        windows = _windows(counted, *geometry, 0.0)
    counts = windows.sum(0, dtype=torch.float32)
    return strided_like(image, (sums / counts).to(image.dtype))


def _windows(
    image: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    filler: float,
    shape: tuple[int, ...] | None = None,
) -> Tensor:
    """[kernel rows * kernel columns, ..., rows, columns] of the padded image, copied apart."""
    places = shape or tuple(
        _places(image.shape[axis - 2], kernel[axis], stride[axis], padding[axis], dilation[axis], ceil_mode)
        for axis in (0, 1)
    )
    reach = [(places[a] - 1) * stride[a] + (kernel[a] - 1) * dilation[a] + 1 for a in (0, 1)]
    after = [max(reach[a] - image.shape[a - 2] - padding[a], 0) for a in (0, 1)]
    padded = image.contiguous()
    if any((*padding, *after)):
        padded = F.pad(padded, (padding[1], after[1], padding[0], after[0]), value=filler)
    *outer, by_row, by_column = padded.stride()
    strides = (dilation[0] * by_row, dilation[1] * by_column, *outer, stride[0] * by_row, stride[1] * by_column)
    return padded.as_strided((*kernel, *padded.shape[:-2], *places), strides).flatten(0, 1).contiguous()


def _below_all(dtype: torch.dtype) -> float:
    """What padding holds; int64 lives as int32."""
    if dtype.is_floating_point:
        return float("-inf")
    return torch.iinfo(torch.int32 if dtype is torch.int64 else dtype).min


def _places(extent: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows begin inside the image or its left padding."""
    room = extent + 2 * padding - dilation * (kernel - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= extent + padding else count


def _pair(numbers: Sequence[int]) -> tuple[int, int]:
    first, *others = numbers
    return first, others[0] if others else first


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "max_pool2d_with_indices": max_pool,
    "avg_pool2d": average_pool,
}
