"""nonzero: which elements are not 0. How many is a number that the host must know; all else is found on the card.

nonzero_static is told how many to give. The other's programs are of a bucket's size, so that masks that grow compile nothing anew.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from openspyre.spec.addressing import row_major
from torch_spyre.ops.compositions import with_out

_LEAST = 64


def nonzero(x: torch.Tensor) -> torch.Tensor:
    """[count, dims]: in the order of the elements, as on the CPU."""
    size = prod(x.shape)
    if size == 0 or x.dim() == 0:
        count = 0 if size == 0 else int(bool(x))
        return torch.empty((count, x.dim()), dtype=torch.int64, device=x.device)
    bucket = max(_LEAST, 1 << (size - 1).bit_length())
    chosen = torch.zeros(bucket, dtype=torch.bool, device=x.device)
    chosen[:size].view(x.shape).copy_(x if x.dtype is torch.bool else x != 0)
    reached = chosen.to(torch.int32).cumsum(0, dtype=torch.int32)
    behind = torch.where(chosen, reached - 1, bucket).to(torch.int64)
    found = torch.zeros(bucket + 1, dtype=torch.int64, device=x.device)
    found.scatter_(0, behind, torch.arange(bucket, device=x.device))
    columns = (
        [found // step % n for n, step in zip(x.shape, row_major(x.shape), strict=True)] if x.dim() > 1 else [found]
    )
    count = int(reached[-1])
    return torch.stack([column[:count] for column in columns]).t()  # it lies so on other devices, too


def nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> torch.Tensor:
    """[size, dims]: the first that have room, then fill_value. Nothing is asked of the host, so graphs have it without a cut."""
    options: dict[str, Any] = {"dtype": torch.int64, "device": x.device}
    if 0 in (size, x.dim(), x.numel()):
        return torch.full((size, x.dim()), fill_value, **options)
    chosen = (x if x.dtype is torch.bool else x != 0).reshape(-1)
    reached = chosen.to(torch.int32).cumsum(0, dtype=torch.int32)
    behind = torch.where(chosen, reached - 1, size).clamp(max=size).to(torch.int64)
    places = torch.arange(x.numel(), **options)
    found = torch.full((size + 1,), -1, **options).scatter(0, behind, places)[:size]
    columns = [found // step % n for n, step in zip(x.shape, row_major(x.shape), strict=True)]
    return torch.where((found < 0)[:, None], fill_value, torch.stack(columns, 1))


EAGER: dict[str, Callable[..., Any]] = {"nonzero": nonzero, "nonzero.out": with_out(nonzero)}
COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "nonzero_static": nonzero_static,
    "nonzero_static.out": with_out(nonzero_static),
}
