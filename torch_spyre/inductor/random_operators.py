"""Random numbers in graphs are drawn as in eager mode, from the card's generator.

Inductor would draw them from 63-bit seeds in loops of its own. It knows `rand` and `randn` by name, so those are told by others
that mean the same, and whatever else draws stays whole; a random operator is never computed twice for a backward graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_aten = torch.ops.aten


def stays_whole(overload: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in overload.tags


def _like(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(size: Sequence[int], **options: Any) -> Any:
        options.pop("pin_memory", None)
        return draw(torch.empty(size, **options))

    return drawn


def _integers(low: int, high: int, size: Sequence[int], *, dtype: torch.dtype = torch.int64, **options: Any) -> Any:
    options.pop("pin_memory", None)
    return _aten.randint_like.low_dtype(torch.empty(size, dtype=dtype, **options), low, high)


def _integers_from_zero(high: int, size: Sequence[int], **options: Any) -> Any:
    return _integers(0, high, size, **options)


RETOLD: dict[Any, Callable[..., Any]] = {
    _aten.rand.default: _like(_aten.rand_like.default),
    _aten.randn.default: _like(_aten.randn_like.default),
    _aten.randint.low: _integers,
    _aten.randint.default: _integers_from_zero,
}
