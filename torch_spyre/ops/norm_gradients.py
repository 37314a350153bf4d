"""Gradients of layer and rms norm, composed of other operators of the card, in fp32 (float64 in its own).

Both are x -> n * weight (+ bias), where n is the normalised x. With g the gradient that reaches n, the one of x is
scale * (g - n * mean(g * n)), for a layer norm also without the mean of g.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.ops.accumulation import accumulating

Gradient = torch.Tensor | None


def layer_norm_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    normalized_shape: list[int],
    mean: torch.Tensor,
    scale: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    output_mask: list[bool],
) -> tuple[Gradient, Gradient, Gradient]:
    normal = (accumulating(x) - mean) * scale
    outer = list(range(x.dim() - len(normalized_shape)))
    of_x = _of_input(gradient, normal, scale, weight, len(outer), centred=True).to(x.dtype) if output_mask[0] else None
    of_weight = _summed(accumulating(gradient) * normal, outer, weight) if output_mask[1] else None
    of_bias = _summed(accumulating(gradient), outer, bias if bias is not None else weight) if output_mask[2] else None
    return of_x, of_weight, of_bias


def rms_norm_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    normalized_shape: list[int],
    scale: torch.Tensor,
    weight: torch.Tensor | None,
    output_mask: list[bool],
) -> tuple[Gradient, Gradient]:
    normal = accumulating(x) * scale
    outer = list(range(x.dim() - len(normalized_shape)))
    of_x = _of_input(gradient, normal, scale, weight, len(outer), centred=False).to(x.dtype) if output_mask[0] else None
    return of_x, _summed(accumulating(gradient) * normal, outer, weight) if output_mask[1] else None


def _of_input(
    gradient: torch.Tensor,
    normal: torch.Tensor,
    scale: torch.Tensor,
    weight: torch.Tensor | None,
    outer: int,
    *,
    centred: bool,
) -> torch.Tensor:
    inner = list(range(outer, normal.dim()))
    reached = accumulating(gradient) if weight is None else accumulating(gradient) * accumulating(weight)
    rest = reached - normal * (reached * normal).mean(inner, keepdim=True)
    return scale * (rest - reached.mean(inner, keepdim=True) if centred else rest)


def _summed(product: torch.Tensor, outer: list[int], parameter: torch.Tensor | None) -> Gradient:
    """Over all rows, in the parameter's dtype."""
    if parameter is None:
        return None
    return (product.sum(outer) if outer else product).to(parameter.dtype)


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "native_layer_norm_backward": layer_norm_backward,
    "_fused_rms_norm_backward": rms_norm_backward,
}
