"""torch._scaled_mm: a product of 8-bit floats, scaled as a whole or row by row.

The product is spyre::scaled_mm's; what torch checks of shapes and dtypes is checked here, on all devices alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from openspyre.spec.errors import InvalidArgument


def _scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,  # sums are float32 either way
) -> torch.Tensor:
    _check(a, b, scale_a, scale_b, bias)
    if scale_result is None:
        return torch.ops.spyre.scaled_mm(a, b, scale_a, scale_b, bias, out_dtype or a.dtype)
    product = torch.ops.spyre.scaled_mm(a, b, scale_a, scale_b, bias, torch.float32)
    return (product * scale_result).to(out_dtype or a.dtype)


def _scaled_mm_out(*arguments: Any, out: torch.Tensor, **keywords: Any) -> torch.Tensor:
    result = _scaled_mm(*arguments, **keywords)
    return out.resize_(result.shape).copy_(result)


def _check(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, bias: torch.Tensor | None
) -> None:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise InvalidArgument(f"_scaled_mm multiplies [M, K] and [K, N], not {list(a.shape)} and {list(b.shape)}")
    for tensor in (a, b):
        if tensor.dtype not in (torch.float8_e4m3fn, torch.float8_e5m2fnuz):
            raise InvalidArgument(f"_scaled_mm multiplies float8_e4m3fn and float8_e5m2fnuz, not {tensor.dtype}")
    rows, columns = a.shape[0], b.shape[1]
    for name, scale, fits in (("scale_a", scale_a, [rows, 1]), ("scale_b", scale_b, [1, columns])):
        if scale.numel() != 1 and list(scale.shape) != fits:
            raise InvalidArgument(f"{name} of size {list(scale.shape)}: one number or {fits} is wanted")
    if bias is not None and list(bias.shape) != [columns]:
        raise InvalidArgument(f"bias of size {list(bias.shape)}: [{columns}] is wanted")


COMPOSITIONS: dict[str, Callable[..., Any]] = {"_scaled_mm": _scaled_mm, "_scaled_mm.out": _scaled_mm_out}
