"""The dtype in which compositions add up: fp32, but what is held in float64 stays there."""

from __future__ import annotations

import torch


def accumulating(x: torch.Tensor) -> torch.Tensor:
    return x.to(accumulation_dtype(x.dtype))


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float64 else torch.float32
