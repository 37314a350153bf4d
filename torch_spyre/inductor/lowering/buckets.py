"""Which sizes share a program: all up to the next multiple of a step, which the user names, or which the size decides."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from openspyre.spec.errors import OptionWarning
from torch_spyre._inductor import config
from torch_spyre.inductor.graph import Growth

_STEP = 64  # elements of a stick: up to there a dim is padded in memory anyway
_STEPS = 8  # of a power of two: at most an eighth of a large size is padding


@dataclass(frozen=True, slots=True)
class Buckets:
    """`granularity`: buckets are its multiples; None: each is a multiple of 64, and of an eighth of the power of two above the size."""

    granularity: int | None = None

    def padded(self, size: int, most: int = 0) -> int:
        """What a size is padded to. Without a granularity, it is the largest extent (size + `most`) that becomes a round number."""
        if self.granularity is not None:
            return -(-size // self.granularity) * self.granularity
        size += most
        step = max(_STEP, (1 << (size - 1).bit_length()) // _STEPS)
        return -(-size // step) * step - most


def buckets_of(growth: Growth, name: str) -> Buckets:
    """The least size that `mark_dynamic` names is the granularity, if the largest is a multiple of it and there are few enough buckets;
    else the smallest that leaves few enough. Where no largest is named, the size decides."""
    if growth.largest is None:
        return Buckets()
    if growth.least is not None and growth.largest % growth.least == 0 and _are_few(growth.least, growth.largest):
        return Buckets(growth.least)
    first = max(1, config.min_default_granularity)
    chosen = next(
        (g for g in range(first, growth.largest) if growth.largest % g == 0 and _are_few(g, growth.largest)),
        growth.largest,
    )
    if growth.least is not None:
        warnings.warn(
            f"{name} is padded to multiples of {chosen}: mark_dynamic(min={growth.least}, max={growth.largest}) would give "
            f"{-(-growth.largest // growth.least)} buckets; min must divide max, at most {config.max_buckets} times (MAX_BUCKETS)",
            OptionWarning,
            stacklevel=2,
        )
    return Buckets(chosen)


def _are_few(granularity: int, largest: int) -> bool:
    return largest // granularity <= config.max_buckets
