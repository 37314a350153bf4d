"""Compiled against eager on the card: the same bits, a NaN for a NaN (contract, "Eager and compiled")."""

from __future__ import annotations

import math
from collections.abc import Collection

import torch

Fetched = tuple[torch.Tensor, torch.dtype] | None


def otherwise_than_eager(
    compiled: list[Fetched], eager: list[Fetched], fallen: Collection[str], fallen_in_eager: Collection[str]
) -> str | None:
    """The first result with other bits than eager's, in one line that also names what the CPU did for one of them alone."""
    if len(compiled) != len(eager):
        return f"compiled: {len(compiled)} tensors returned, eager: {len(eager)}"
    for number, (mine, theirs) in enumerate(zip(compiled, eager, strict=True)):
        said = _otherwise(mine, theirs)
        if said:
            return f"compiled: result {number} {said}" + "".join(
                f"; the CPU did {', '.join(sorted(names))} for {who} alone"
                for who, names in (
                    ("eager", set(fallen_in_eager) - set(fallen)),
                    ("compiled", set(fallen) - set(fallen_in_eager)),
                )
                if names
            )
    return None


def _otherwise(mine: Fetched, theirs: Fetched) -> str | None:
    if mine is None or theirs is None:
        return None if mine is theirs else f"is {mine and 'present'}, eager's {theirs and 'present'}"
    (values, dtype), (others, wanted) = mine, theirs
    if dtype != wanted or values.shape != others.shape:
        return f"is {dtype} {tuple(values.shape)}, eager's {wanted} {tuple(others.shape)}"
    different = (_bits(values) != _bits(others)).any(-1)
    different &= ~(values.isnan() & others.isnan())
    if not different.any():
        return None
    spot = tuple(different.nonzero()[0].tolist())
    count = f"{int(different.sum())} of {different.numel()} by at most {_apart(values, others):.2g} of the largest"
    return f"at {list(spot)}, {count}: {values[spot].item()!r}, eager's {others[spot].item()!r}"


def _apart(values: torch.Tensor, others: torch.Tensor) -> float:
    """The greatest distance of two elements, as a part of the largest; infinite if one of the two is no number."""
    wide = torch.complex128 if values.is_complex() else torch.float64
    mine, theirs = values.to(wide), others.to(wide)
    same = (mine == theirs) | (mine.isnan() & theirs.isnan())
    gaps = (mine - theirs).abs()[~same]
    if not gaps.isfinite().all():
        return math.inf
    largest = theirs[theirs.isfinite()].abs().max() if theirs.isfinite().any() else 0.0
    return float(gaps.max() / largest) if gaps.numel() and largest else math.inf if gaps.numel() else 0.0


def _bits(values: torch.Tensor) -> torch.Tensor:
    """As bytes, the last dim those of an element; zeros of both signs are two."""
    return values.resolve_conj().resolve_neg().contiguous().unsqueeze(-1).view(torch.uint8)
