"""Which memory format torch's CPU gives a result: channels_last where the strides of an image (or of a kernel) look like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.torch_seams import resolve

Tensor = torch.Tensor
_suggested = resolve("torch._prims_common.suggest_memory_format")


def strided_like(image: Tensor, result: Tensor) -> Tensor:
    """The result of an operator on images, with the strides it has on the CPU."""
    return _in_format(_suggested(image), result)


def following_its_input(operator: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An operator on images whose result takes the format of its first argument."""

    def kernel(image: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        return strided_like(image, operator(image, *arguments, **keywords))

    return kernel


def of_convolution(image: Tensor, kernel: Tensor) -> torch.memory_format:
    """Both have four or five dims; one of them is enough."""
    suggested = _suggested(image)
    return _suggested(kernel) if suggested is torch.contiguous_format else suggested


def strided_like_convolution(image: Tensor, kernel: Tensor, result: Tensor) -> Tensor:
    """A result of a convolution (or a gradient of one), with the strides it has on the CPU."""
    if image.dim() == 3:  # the CPU takes rows for images of one row
        flat = strided_like_convolution(image.contiguous().unsqueeze(2), kernel.unsqueeze(2), result.unsqueeze(2))
        return flat.squeeze(2)
    return _in_format(of_convolution(image, kernel), result)


def _in_format(wanted: torch.memory_format, result: Tensor) -> Tensor:
    if wanted is torch.contiguous_format:
        return result
    # A size of one has any stride; a clone gives it the format's own.
    done = result.is_contiguous(memory_format=wanted) and 1 not in result.shape
    return result if done else result.clone(memory_format=wanted)
