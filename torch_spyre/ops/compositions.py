"""Operators without a row of their own that others make up: out= of two results, sums over batches, numbers for NaN.

Each part is rounded to the tensors' format, where a row would round once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre.ops.accumulation import accumulating
from torch_spyre.torch_seams import resolve


def into(results: tuple[torch.Tensor, ...], outs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Results into the tensors given for them, which take their size."""
    for result, out in zip(results, outs, strict=True):
        if out.device != result.device:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{result.device} and {out.device}! Give an out= on {result.device}"
            )
        if out.shape != result.shape:
            out.resize_(result.shape)
        out.copy_(result)
    return outs


def with_out(operator: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The out= form of an operator with one result."""

    def kernel(*arguments: Any, out: torch.Tensor, **keywords: Any) -> torch.Tensor:
        return into((operator(*arguments, **keywords),), (out,))[0]

    return kernel


def _in_place(operator: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def kernel(x: torch.Tensor, *arguments: Any, **keywords: Any) -> torch.Tensor:
        return x.copy_(operator(x, *arguments, **keywords))

    return kernel


def _with_outs(operator: Callable[..., Any], *names: str) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The out= form of an operator with several results."""

    def kernel(*arguments: Any, **keywords: Any) -> tuple[torch.Tensor, ...]:
        outs = tuple(keywords.pop(name) for name in names)
        return into(operator(*arguments, **keywords), outs)

    return kernel


def _aminmax(x: torch.Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    dims = tuple(range(x.dim())) if dim is None else (dim,)
    return torch.amin(x, dims, keepdim), torch.amax(x, dims, keepdim)


def _roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    """Along every rolled dim the result is two blocks that changed places; without dims, of all elements in a row."""
    if not shifts:
        raise RuntimeError("`shifts` required")  # torch's words, as below
    if not dims and len(shifts) == 1:
        return _roll(x.reshape(-1), shifts, (0,)).view(x.shape)
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if x.numel() == 0:
        return x.clone()
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        ahead = shift % size
        x = torch.cat((x.narrow(dim, size - ahead, ahead), x.narrow(dim, 0, size - ahead)), dim)
    return x


def _addbmm(
    summand: torch.Tensor, batch1: torch.Tensor, batch2: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """A sum over batch and k is a sum over one longer k."""
    if batch1.dim() != 3 or batch2.dim() != 3 or batch1.shape[0] != batch2.shape[0]:
        torch.baddbmm(summand, batch1, batch2)  # torch's own error
    first = batch1.transpose(0, 1).flatten(1)
    return torch.addmm(summand, first, batch2.flatten(0, 1), beta=beta, alpha=alpha)


# The largest number that is one on the card and on the host: finfo's is infinite here or there (N1).
_LARGEST = {torch.float16: 65472.0, torch.bfloat16: 8556380160.0}


def _nan_to_num(
    x: torch.Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> torch.Tensor:
    if not x.dtype.is_floating_point:
        return x.clone()
    largest = _LARGEST.get(x.dtype, torch.finfo(x.dtype).max)
    for found, number in (
        (torch.isnan(x), 0.0 if nan is None else nan),
        (x == float("inf"), largest if posinf is None else posinf),
        (x == float("-inf"), -largest if neginf is None else neginf),
    ):
        x = x.masked_fill(found, number)
    return x


def _round_decimals(x: torch.Tensor, *, decimals: int) -> torch.Tensor:
    """In float32: neither a power of ten nor the number by that power need fit into 16 bits."""
    if not x.dtype.is_floating_point:
        raise NotImplementedError(f"round with decimals is for floating-point tensors, not {x.dtype}")
    wide, scale = accumulating(x), 10.0 ** abs(decimals)
    whole = torch.round(wide * scale) / scale if decimals > 0 else torch.round(wide / scale) * scale
    return whole.to(x.dtype)


def _log_sigmoid(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The second result is the CPU's aid to its gradient; other devices leave it empty."""
    return -torch.nn.functional.softplus(-x), x.new_empty(0)


def _log_sigmoid_gradient(gradient: torch.Tensor, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return gradient * torch.sigmoid(-x)


def _glu_gradient(gradient: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """1 - sigmoid(x) is sigmoid(-x), which keeps its digits where sigmoid(x) is near 1."""
    values, gates = accumulating(x).chunk(2, dim)
    through = gradient * torch.sigmoid(gates)
    return torch.cat([through, through * values * torch.sigmoid(-gates)], dim).to(x.dtype)


_HALVES = (torch.float16, torch.bfloat16)


def _logsumexp(x: torch.Tensor, dim: list[int], keepdim: bool = False) -> torch.Tensor:
    """Sums in float32. The card's logarithm has 16 bits: what is left of the sum beside it brings the others."""
    if not x.dtype.is_floating_point:
        x = x.to(torch.get_default_dtype())
    dims = dim or list(range(x.dim()))
    if x.numel() == 0 and not all(x.shape[d] for d in dims):
        return torch.log(torch.sum(x.exp(), dims, keepdim))
    top = torch.amax(x, dims, True)
    top = accumulating(top.masked_fill(top.abs() == float("inf"), 0.0))
    total = torch.sum(torch.exp(accumulating(x) - top), dims, keepdim)
    top = top if keepdim else top.squeeze(dims)
    if x.dtype not in _HALVES:
        return torch.log(total) + top
    near = accumulating(torch.log(total.to(x.dtype)))
    rest = total * torch.exp(-near) - 1.0
    return (top + torch.where(near.abs() < 1e3, near + rest * (1.0 - 0.5 * rest), near)).to(x.dtype)


def _celu(x: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")  # torch's words
    return torch.ops.aten.elu(x, alpha, 1.0, 1.0 / alpha)


def _binary_cross_entropy(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, reduction: int = 1
) -> torch.Tensor:
    """Logarithms as the tensors are, everything else in float32; none is below -100."""
    above, below = (torch.clamp_min(each, -100.0) for each in (torch.log(x), torch.log1p(-x)))
    loss = (accumulating(target) - 1.0) * below - accumulating(target) * above
    loss = loss if weight is None else loss * weight
    whole = loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()
    return whole.to(x.dtype)


def _grid_sampler_2d(x: torch.Tensor, grid: torch.Tensor, *how: int | bool) -> torch.Tensor:
    """torch's own steps, in float32: 16 bits have no room for a place in an image and its part between two pixels."""
    steps = resolve("torch._decomp.decomposition_table")[torch.ops.aten.grid_sampler_2d.default]
    return steps(accumulating(x), accumulating(grid), *how).to(x.dtype)


def _equal(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.shape == y.shape and bool(torch.all(x == y))


def _index_put(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> torch.Tensor:
    """By its other name, under which the gradient of an index calls it."""
    return torch.ops.aten.index_put_(x, indices, values, accumulate)


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "sort.values_stable": _with_outs(torch.ops.aten.sort.stable, "values", "indices"),
    "topk.values": _with_outs(torch.ops.aten.topk.default, "values", "indices"),
    "max.dim_max": _with_outs(torch.ops.aten.max.dim, "max", "max_values"),
    "min.dim_min": _with_outs(torch.ops.aten.min.dim, "min", "min_indices"),
    "aminmax": _aminmax,
    "aminmax.out": _with_outs(_aminmax, "min", "max"),
    "equal": _equal,
    "_index_put_impl_": _index_put,
    "addbmm": _addbmm,
    "addbmm_": _in_place(_addbmm),
    "addbmm.out": with_out(_addbmm),
    "roll": _roll,
    "nan_to_num": _nan_to_num,
    "nan_to_num.out": with_out(_nan_to_num),
    "round.decimals": _round_decimals,
    "round_.decimals": _in_place(_round_decimals),
    "round.decimals_out": with_out(_round_decimals),
    "log_sigmoid_forward": _log_sigmoid,
    "log_sigmoid_backward": _log_sigmoid_gradient,
    "glu_backward": _glu_gradient,
    "grid_sampler_2d": _grid_sampler_2d,
    "celu": _celu,
    "celu_": _in_place(_celu),
    "celu.out": with_out(_celu),
    "logsumexp": _logsumexp,
    "logsumexp.out": with_out(_logsumexp),
    "binary_cross_entropy": _binary_cross_entropy,
}
