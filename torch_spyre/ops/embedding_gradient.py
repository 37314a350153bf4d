"""The gradient of an embedding: rows of the result's gradient, added up where their indices say, in fp32 (float64 in its own)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.ops.accumulation import accumulating


def embedding_backward(
    gradient: torch.Tensor, indices: torch.Tensor, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> torch.Tensor:
    places = indices.reshape(-1)
    summands = accumulating(gradient.reshape(places.shape[0], gradient.shape[-1]))
    if scale_grad_by_freq:
        ones = torch.ones_like(places, dtype=summands.dtype)
        counts = summands.new_zeros(rows).index_put((places,), ones, accumulate=True)
        summands = summands / counts[places][:, None]
    if padding_idx >= 0:
        summands = summands.masked_fill((places == padding_idx)[:, None], 0.0)
    sums = summands.new_zeros(rows, gradient.shape[-1]).index_put((places,), summands, accumulate=True)
    return sums.to(gradient.dtype)


COMPOSITIONS: dict[str, Callable[..., Any]] = {"embedding_dense_backward": embedding_backward}
