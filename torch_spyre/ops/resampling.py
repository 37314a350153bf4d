"""Images in other sizes: channels dealt out as pixels; nearest, linear and cubic interpolation, one dim after the other, the last one first.

What is looked up along one dim are whole rows of the others. torch's compositions look every element up by all of its places at
once, two (or four) times as often for each dim; the arithmetic, and with it every bit, is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch

from torch_spyre.ops.accumulation import accumulating, accumulation_dtype
from torch_spyre.ops.memory_formats import strided_like
from torch_spyre.torch_seams import resolve

Tensor = torch.Tensor
_CUBIC = -0.75


def _nearest(x: Tensor, size: Sequence[int], *scales: float | None) -> Tensor:
    """Dims that shrink come first, and the last dim before those that grow: the least is moved."""
    made, dims = x, len(size)
    for d in sorted(range(dims), key=lambda d: (size[d] > x.shape[d - dims], -d)):
        given, old = (scales[d] if scales else None), x.shape[d - dims]
        scale = old / (old * given) if given is not None and given > 0 else old / size[d]
        places = torch.arange(size[d], dtype=torch.float32, device=x.device)
        made = made.index_select(d - dims, (places * scale).to(torch.int64))
    return strided_like(x, made)


def _linear(x: Tensor, size: Sequence[int], align_corners: bool, *scales: float | None) -> Tensor:
    """low + (high - low) * part, in float32."""
    made, dims = x, len(size)
    for d in reversed(range(dims)):
        old = x.shape[d - dims]
        place = _places(x, old, size[d], align_corners, scales[d] if scales else None).clamp(min=0.0)
        low = place.to(torch.int64)
        part, high = (place - low).clamp(0.0, 1.0), (low + 1).clamp(max=old - 1)

        def between(x: Tensor, dim: int, low: Tensor = low, high: Tensor = high, part: Tensor = part) -> Tensor:
            below = x.index_select(dim, low)
            return torch.addcmul(below, x.index_select(dim, high) - below, _along(dim, part))

        made = _across(made, d - dims, between)
    return strided_like(x, made.to(x.dtype))


def _cubic(x: Tensor, size: Sequence[int], align_corners: bool, *scales: float | None) -> Tensor:
    """Four neighbours along each dim, weighted, in float32; beyond the border the outermost stands."""
    made = x
    for d in (1, 0):
        old = x.shape[d - 2]
        place = _places(x, old, size[d], align_corners, scales[d] if scales else None)
        low = place.floor()
        weights = _cubic_weights((place - low).clamp(0.0, 1.0))
        first = low.to(torch.int64) - 1
        near = [(first + k).clamp(0, old - 1) for k in range(4)]

        def weighted(x: Tensor, dim: int, near: Sequence[Tensor] = near, weights: Sequence[Tensor] = weights) -> Tensor:
            pairs = zip(near, weights, strict=True)
            return reduce(torch.add, [x.index_select(dim, k) * _along(dim, w) for k, w in pairs])

        made = _across(made, d - 2, weighted)
    return strided_like(x, made.to(x.dtype))


_FILLED = 16  # elements of a dim that make its sticks worth turning to it


def _across(x: Tensor, dim: int, computed: Callable[[Tensor, int], Tensor]) -> Tensor:
    """What is computed of elements along a dim, in float32. Where sticks run along it, they are turned to the dim before it once,
    not for each element that is looked up."""
    if dim != -1 or x.dim() < 2 or x.shape[-2] < _FILLED:
        return computed(accumulating(x.contiguous()), dim)
    return computed(accumulating(x.transpose(-1, -2).contiguous()), -2).transpose(-1, -2)


def _places(x: Tensor, old: int, new: int, align_corners: bool, given: float | None) -> Tensor:
    """Where the new elements along a dim stand among the old ones."""
    i = torch.arange(new, device=x.device).to(accumulation_dtype(x.dtype))
    if align_corners:
        return ((old - 1.0) / (new - 1.0) if new > 1 else 0.0) * i
    scale = 1.0 / given if given is not None and given > 0 else old / new
    return scale * (i + 0.5) - 0.5


def _cubic_weights(t: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    def near(x: Tensor) -> Tensor:
        return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC

    return far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)


def _along(dim: int, row: Tensor) -> Tensor:
    """A row of numbers as a tensor that runs along a dim, counted from the end."""
    return row.reshape(-1, *(1,) * (-dim - 1))


def _pixel_shuffle(x: Tensor, factor: int) -> Tensor:
    """Whole rows go to their places first, those of one new row one behind the other; then their elements are dealt out."""
    if x.dim() < 3 or factor <= 0 or x.shape[-3] % (factor * factor) or x.numel() == 0:
        steps = resolve("torch._decomp.decomposition_table")[torch.ops.aten.pixel_shuffle.default]
        refused: Tensor = steps(x, factor)  # torch's own errors
        return refused
    *outer, channels, height, width = x.shape
    parts = x.reshape(-1, channels // factor**2, factor, factor, height, width).permute(0, 1, 4, 2, 3, 5)
    rows = parts.reshape(*outer, channels // factor**2, height * factor, factor * width)
    places = torch.arange(factor * width, device=x.device)
    dealt = places % factor * width + places // factor
    return strided_like(x, rows.index_select(-1, dealt))


def _of_floats(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Integers are torch's own to round."""

    def kernel(x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        if x.dtype.is_floating_point:
            return function(x, *arguments, *keywords.values())
        steps = resolve("torch._decomp.decomposition_table")[getattr(torch.ops.aten, name).default]
        whole: Tensor = steps(x, *arguments, **keywords)
        return whole

    return kernel


COMPOSITIONS: dict[str, Callable[..., Tensor]] = {
    "upsample_nearest1d": _nearest,
    "upsample_nearest2d": _nearest,
    "pixel_shuffle": _pixel_shuffle,
    **{
        name: _of_floats(name, function)
        for name, function in (
            ("upsample_linear1d", _linear),
            ("upsample_bilinear2d", _linear),
            ("upsample_trilinear3d", _linear),
            ("upsample_bicubic2d", _cubic),
        )
    },
}
