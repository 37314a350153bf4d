"""Group norm, composed: statistics of every group, where it lies, and then one multiplication and one addition per element.

torch's own composition copies the groups into rows, and reads all of them as float32 first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from openspyre.spec.layout import MAX_RANK
from torch_spyre.ops.memory_formats import strided_like

Tensor = torch.Tensor


def native_group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    places: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    inner = x.shape[2:] if x.dim() < MAX_RANK else (places,)
    grouped = x.reshape(batch, groups, channels // groups, *inner)
    weight, bias = (p if p is None else p.view(channels, *(1,) * (x.dim() - 2)) for p in (weight, bias))
    normalised = _of_16_bits if x.dtype in (torch.float16, torch.bfloat16) else _of_wide
    y, mean, scale = normalised(x, grouped, weight, bias, eps)
    mean, scale = (statistic.to(x.dtype).view(batch, groups) for statistic in (mean, scale))
    return strided_like(x, y.to(x.dtype)), mean, scale


def _of_16_bits(
    x: Tensor, grouped: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The card's layer norm: float32 inside, in one program."""
    normal, mean, scale = torch.native_layer_norm(grouped, grouped.shape[2:], None, None, eps)
    return _affine(normal.view(x.shape), weight, bias), mean, scale


def _of_wide(
    x: Tensor, grouped: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """As torch has it on the CPU: a factor and a summand for every channel."""
    variance, mean = torch.var_mean(grouped, list(range(2, grouped.dim())), correction=0, keepdim=True)
    scale = torch.rsqrt(variance + eps)
    if weight is None:
        return _affine(((grouped - mean) * scale).view(x.shape), None, bias), mean, scale
    of_channels = grouped.shape[1:3] + (1,) * (grouped.dim() - 3)
    factor = scale * weight.view(of_channels)
    summand = -mean * factor if bias is None else bias.view(of_channels) - mean * factor
    return torch.addcmul(summand, grouped, factor).view(x.shape), mean, scale


def _affine(normal: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None and bias is not None:
        return torch.addcmul(bias, normal, weight)
    if weight is not None:
        return normal * weight
    return normal if bias is None else normal + bias


COMPOSITIONS: dict[str, Callable[..., Any]] = {"native_group_norm": native_group_norm}
