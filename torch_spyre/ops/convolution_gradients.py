"""Gradients of convolutions, composed of convolutions and products of matrices.

The gradient of the input is a convolution of the result's gradient, spread out by the stride, with the mirrored weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_spyre.ops.memory_formats import strided_like_convolution

Tensor = torch.Tensor


def convolution_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    of_x = of_weight = of_bias = None
    stride, padding, dilation = (_per_dim(numbers, x.dim() - 2) for numbers in (stride, padding, dilation))
    geometry = stride, padding, dilation, groups
    if output_mask[0]:
        if transposed:
            of_x = torch.convolution(
                gradient, weight, None, stride, padding, dilation, False, [0] * len(stride), groups
            )
            # What output_padding added past the last window may be room for another one.
            of_x = of_x[tuple(slice(extent) for extent in x.shape)]
        else:
            of_x = _spread_convolution(gradient, weight, *geometry, tuple(x.shape[2:]))
    if output_mask[1]:
        of_weight = (
            _of_weight(x, gradient, weight, *geometry) if transposed else _of_weight(gradient, x, weight, *geometry)
        )
    of_x, of_weight = (
        None if found is None else strided_like_convolution(x, weight, found) for found in (of_x, of_weight)
    )
    if output_mask[2]:
        of_bias = gradient.sum([0, *range(2, gradient.dim())])
    return of_x, of_weight, of_bias


def _spread_convolution(
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    size: tuple[int, ...],
) -> Tensor:
    """weight is [channels of x, channels of the result per group, kernel..]; `size` are the result's spatial extents."""
    spatial = x.dim() - 2
    for dim, step in enumerate(stride, 2):
        x = _spread(x, dim, step)
    reaches = [dilation[dim] * (weight.shape[2 + dim] - 1) for dim in range(spatial)]
    before = [reach - amount for reach, amount in zip(reaches, padding, strict=True)]
    after = [size[dim] - x.shape[2 + dim] + padding[dim] for dim in range(spatial)]
    if before != after or min(before) < 0:
        x = F.pad(x, [amount for pair in zip(reversed(before), reversed(after), strict=True) for amount in pair])
        before = [0] * spatial
    mirrored = weight.flip(list(range(2, weight.dim()))).unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    ones, zeros = [1] * spatial, [0] * spatial
    return torch.convolution(x, mirrored, None, ones, before, list(dilation), False, zeros, groups)


def _spread(x: Tensor, dim: int, step: int) -> Tensor:
    """Zeros between the elements along a dim, so that they are `step` apart."""
    if step == 1:
        return x
    last = x.movedim(dim, -1)
    apart = F.pad(last.unsqueeze(-1), (0, step - 1)).flatten(-2)
    return apart[..., : (x.shape[dim] - 1) * step + 1].movedim(-1, dim)


def _of_weight(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """What every element of the kernel met, times the gradient of what became of it."""
    padded = F.pad(x, [p for amount in reversed(padding) for p in (amount, amount)]).contiguous()
    per_image, per_channel, *steps = padded.stride()
    kernel, out = weight.shape[2:], gradient.shape[2:]
    windows = padded.as_strided(
        (*x.shape[:2], *kernel, *out),
        (per_image, per_channel, *map(_times, steps, dilation), *map(_times, steps, stride)),
    )
    columns = windows.reshape(x.shape[0], groups, -1, out.numel()).mT
    rows = gradient.reshape(x.shape[0], groups, -1, out.numel())
    return (rows @ columns).sum(0).reshape(weight.shape)


def _times(step: int, by: int) -> int:
    return step * by


def _per_dim(numbers: Sequence[int], count: int) -> list[int]:
    return list(numbers) if len(numbers) == count else list(numbers) * count


COMPOSITIONS: dict[str, Callable[..., Any]] = {"convolution_backward": convolution_backward}
