"""Padding by reflection and replication, and its gradients: dim by dim, whole pieces are put side by side."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch

from torch_spyre.ops.memory_formats import strided_like
from torch_spyre.torch_seams import resolve

Tensor = torch.Tensor
Piece = Callable[[Tensor, int, int], Tensor]  # of a tensor along a dim, so many elements


def _before(x: Tensor, dim: int, count: int) -> Tensor:
    return x.narrow(dim, 1, count).flip(dim)


def _after(x: Tensor, dim: int, count: int) -> Tensor:
    return x.narrow(dim, x.shape[dim] - 1 - count, count).flip(dim)


def _first(x: Tensor, dim: int, count: int) -> Tensor:
    return x.narrow(dim, 0, 1).expand(*x.shape[:dim], count, *x.shape[dim + 1 :])


def _last(x: Tensor, dim: int, count: int) -> Tensor:
    return x.narrow(dim, x.shape[dim] - 1, 1).expand(*x.shape[:dim], count, *x.shape[dim + 1 :])


def _sides(x: Tensor, padding: Sequence[int]) -> list[tuple[int, int, int]]:
    """(dim, elements before, elements behind), outermost first."""
    dims = len(padding) // 2
    return [(x.dim() - dims + i, *padding[2 * (dims - 1 - i) :][:2]) for i in range(dims)]  # type: ignore[misc]


def _padded(name: str, before: Piece, behind: Piece) -> Callable[[Tensor, Sequence[int]], Tensor]:
    def kernel(x: Tensor, padding: Sequence[int]) -> Tensor:
        if _is_checked_by_torch(x, padding):
            return _of_torch(name)(x, padding)
        made = x
        for dim, left, right in _sides(x, padding):
            pieces = [before(made, dim, left)] if left else []
            pieces += [made, behind(made, dim, right)] if right else [made]
            made = torch.cat(pieces, dim) if len(pieces) > 1 else made
        return strided_like(x, made.clone() if made is x else made)

    return kernel


def _reflection_gradient(name: str) -> Callable[[Tensor, Tensor, Sequence[int]], Tensor]:
    def kernel(gradient: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
        if _is_checked_by_torch(x, padding):
            return _of_torch(name)(gradient, x, padding)
        for dim, left, right in reversed(_sides(x, padding)):
            gradient = _folded(gradient, dim, left, right)
        return gradient

    return kernel


def _folded(gradient: Tensor, dim: int, left: int, right: int) -> Tensor:
    """What lies in the padding along a dim, added where it was reflected from: the dim is cut where another part is added."""
    size = gradient.shape[dim] - left - right
    parts = [(left, 0, size, gradient)]  # (first element, from, to, tensor)
    if left:
        parts.append((0, 1, left + 1, gradient.narrow(dim, 0, left).flip(dim)))
    if right:
        parts.append((0, size - 1 - right, size - 1, gradient.narrow(dim, left + size, right).flip(dim)))
    cuts = sorted({end for _, first, last, _ in parts for end in (first, last)})
    pieces = []
    for start, end in itertools.pairwise(cuts):
        taken = [
            part.narrow(dim, at + start - first, end - start)
            for at, first, last, part in parts
            if first <= start and end <= last
        ]
        whole = taken[0]
        for more in taken[1:]:
            whole = whole + more
        pieces.append(whole)
    return torch.cat(pieces, dim) if len(pieces) > 1 else pieces[0].clone()


def _is_checked_by_torch(x: Tensor, padding: Sequence[int]) -> bool:
    """What torch refuses, and padding below zero, which cuts: torch's own steps know."""
    dims = len(padding) // 2
    if x.dim() not in (dims + 1, dims + 2) or x.numel() == 0 or min(padding) < 0:
        return True
    return any(max(left, right) >= x.shape[dim] for dim, left, right in _sides(x, padding))


def _of_torch(name: str) -> Callable[..., Tensor]:
    steps: Callable[..., Tensor] = resolve("torch._decomp.decomposition_table")[getattr(torch.ops.aten, name).default]
    return steps


COMPOSITIONS: dict[str, Callable[..., Tensor]] = {
    f"{name}_pad{dims}d": _padded(f"{name}_pad{dims}d", before, behind)
    for name, before, behind in (("reflection", _before, _after), ("replication", _first, _last))
    for dims in (1, 2, 3)
} | {
    f"reflection_pad{dims}d_backward": _reflection_gradient(f"reflection_pad{dims}d_backward") for dims in (1, 2, 3)
}  # fmt: skip
