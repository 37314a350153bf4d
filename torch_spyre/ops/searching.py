"""searchsorted and bucketize: places in sorted rows, found by halving, so that no table of values x boundaries is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.ops.compositions import with_out

Number = int | float | bool
_aten = torch.ops.aten


def places(rows: torch.Tensor, values: torch.Tensor, *, right: bool) -> torch.Tensor:
    """How many elements of a sorted row are below each value, or not above it (`right`); NaN is above all.

    Rows are as many as the values have, or one for all of them.
    """
    count = rows.shape[-1]
    table, wanted = (rows, values) if rows.dim() > 1 else (rows, values.reshape(-1))
    reached = torch.zeros_like(wanted, dtype=torch.int64)
    step = 1 << int(count).bit_length() >> 1
    while step:
        probe = reached + step
        met = table.gather(-1, (probe - 1).clamp(max=count - 1))
        passed = met <= wanted if right else met < wanted
        reached = torch.where(passed & (probe <= count), probe, reached)
        step //= 2
    if wanted.is_floating_point():
        reached = reached.masked_fill(wanted.isnan(), count)
    return reached.view(values.shape)


def _searchsorted(
    rows: torch.Tensor, values: torch.Tensor, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    alike = rows.dim() == 1 or (rows.dim() == values.dim() and rows.shape[:-1] == values.shape[:-1])
    if not alike or rows.dtype != values.dtype or side not in (None, "right" if right else "left"):
        on_host = [None if x is None else torch.zeros(x.shape, dtype=x.dtype) for x in (rows, values, sorter)]
        _aten.searchsorted.Tensor(*on_host[:2], right=right, side=side, sorter=on_host[2])  # torch's errors
    if sorter is not None:
        rows = rows.gather(-1, sorter)
    found = places(rows, values, right=right or side == "right")
    return found.to(torch.int32) if out_int32 else found


def _search_number(rows: torch.Tensor, value: Number, **options: Any) -> torch.Tensor:
    if rows.dim() != 1:
        _aten.searchsorted.Scalar(torch.zeros(rows.shape, dtype=rows.dtype), value)  # torch's errors
    return _searchsorted(rows, torch.full((), value, dtype=rows.dtype, device=rows.device), **options)


def _bucketize(values: torch.Tensor, rows: torch.Tensor, **options: Any) -> torch.Tensor:
    if rows.dim() != 1:
        _aten.bucketize.Tensor(torch.zeros_like(values, device="cpu"), torch.zeros_like(rows, device="cpu"))
    return _searchsorted(rows, values, **options)


def _bucketize_number(value: Number, rows: torch.Tensor, **options: Any) -> torch.Tensor:
    return _search_number(rows, value, **options)


_PLAIN: dict[str, Callable[..., torch.Tensor]] = {
    "searchsorted.Tensor": _searchsorted,
    "searchsorted.Scalar": _search_number,
    "bucketize.Tensor": _bucketize,
    "bucketize.Scalar": _bucketize_number,
}
COMPOSITIONS = _PLAIN | {f"{name}_out": with_out(operator) for name, operator in _PLAIN.items()}
