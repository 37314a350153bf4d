"""Fused steps of optimizers (`fused=True`, which Trainer takes by itself), composed of operators on the card, in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre.ops.accumulation import accumulating

Tensors = Sequence[torch.Tensor]


def _gradient(grad: torch.Tensor, maximize: bool, scale: torch.Tensor | None) -> torch.Tensor:
    """The gradient that counts; one of a GradScaler is unscaled in place, as torch does."""
    if scale is not None:
        grad.copy_(accumulating(grad) / scale)
    wide = accumulating(grad)
    return -wide if maximize else wide


def _set(target: torch.Tensor, value: torch.Tensor, skip: torch.Tensor | None) -> None:
    """Unless a gradient was infinite."""
    target.copy_(value if skip is None else torch.where(skip != 0, accumulating(target), value))


def _adam(decoupled: bool) -> Callable[..., None]:
    def step(
        params: Tensors, grads: Tensors, averages: Tensors, squares: Tensors, largest: Tensors, steps: Tensors,
        *, lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool,
        grad_scale: torch.Tensor | None = None, found_inf: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        for place, (param, grad, average, square, count) in enumerate(
            zip(params, grads, averages, squares, steps, strict=True)
        ):
            wide, slope = accumulating(param), _gradient(grad, maximize, grad_scale)
            if weight_decay and decoupled:
                wide = wide * (1 - lr * weight_decay)
            elif weight_decay:
                slope = slope + weight_decay * wide
            mean = torch.lerp(accumulating(average), slope, 1 - beta1)
            spread = accumulating(square) * beta2 + slope * slope * (1 - beta2)
            below = spread
            if amsgrad:
                below = torch.maximum(accumulating(largest[place]), spread)
                _set(largest[place], below, found_inf)
            root = torch.sqrt(below) / torch.sqrt(1 - beta2**count) + eps
            _set(param, wide - lr / (1 - beta1**count) * mean / root, found_inf)
            _set(average, mean, found_inf)
            _set(square, spread, found_inf)

    return step


def _sgd(
    params: Tensors, grads: Tensors, buffers: Tensors,
    *, weight_decay: float, momentum: float, lr: Any, dampening: float, nesterov: bool, maximize: bool, is_first_step: bool,
    grad_scale: torch.Tensor | None = None, found_inf: torch.Tensor | None = None,
) -> None:  # fmt: skip
    for place, (param, grad) in enumerate(zip(params, grads, strict=True)):
        wide, slope = accumulating(param), _gradient(grad, maximize, grad_scale)
        if weight_decay:
            slope = slope + weight_decay * wide
        if momentum:
            before = accumulating(buffers[place])
            moving = slope if is_first_step else before * momentum + slope * (1 - dampening)
            _set(buffers[place], moving, found_inf)
            slope = slope + moving * momentum if nesterov else moving
        _set(param, wide - lr * slope, found_inf)


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "_fused_adam_": _adam(decoupled=False),
    "_fused_adam_.tensor_lr": _adam(decoupled=False),
    "_fused_adamw_": _adam(decoupled=True),
    "_fused_adamw_.tensor_lr": _adam(decoupled=True),
    "_fused_sgd_": _sgd,
    "_fused_sgd_.tensor_lr": _sgd,
}
