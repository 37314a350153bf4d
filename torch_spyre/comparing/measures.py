"""How far a tensor is from what it should be."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_spyre.comparing.records import Difference

# As the card holds them: bits of the fraction, and below what magnitude numbers become zero.
_FRACTION_BITS = {torch.float32: 23, torch.float16: 9, torch.bfloat16: 9}
_SMALLEST = {torch.float32: 2.0**-126, torch.float16: 2.0**-31, torch.bfloat16: 2.0**-31}


def on_the_host(tensor: Tensor) -> Tensor:
    """The card's own numbers: exact in float32, where float16 on the way would round them again."""
    plain = tensor.detach()
    return (plain.float() if plain.is_floating_point() else plain).cpu()


def difference(here: Tensor, truth: Tensor, dtype: torch.dtype) -> Difference:
    """Of two tensors on the CPU; `dtype` tells the card's format."""
    elements = here.numel()
    if here.shape != truth.shape:
        return Difference(elements, decided=elements)
    if not (here.is_floating_point() and truth.is_floating_point()):
        return Difference(elements, decided=int((here != truth).sum()))
    zero = here == 0
    small = zero & (truth != 0) & (truth.abs() <= _SMALLEST.get(dtype, 0.0)) if zero.any() else zero
    counts = {"flushed": int(small.sum())}
    error = here - truth
    off, norm = _norm(error), _norm(truth)
    if not (math.isfinite(off) and math.isfinite(norm)):
        known = torch.isfinite(truth)
        counts["saturated"] = int((torch.isinf(here) & known).sum())
        counts["not_numbers"] = int((torch.isnan(here) & ~torch.isnan(truth)).sum())
        both = known & torch.isfinite(here)
        error, truth = error[both], truth[both]
        off, norm = _norm(error), _norm(truth)
    largest = float(truth.abs().max()) if truth.numel() else 0.0
    if not largest:
        return Difference(elements, float(off > 0), **counts)
    unit = 2.0 ** (math.floor(math.log2(largest)) - _FRACTION_BITS.get(dtype, 23))
    return Difference(elements, off / norm, float(error.abs().max()) / unit, **counts)


def _norm(values: Tensor) -> float:
    """Large numbers are masks: their squares would be beyond float32."""
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))
