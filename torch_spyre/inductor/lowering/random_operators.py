"""Random numbers in graphs are those of eager mode: the same operators draw them, in the graph's order, from the card's generator.

Inductor would draw them from 63-bit seeds in loops of its own. It knows `rand`, `randn` and their like by name, so those are told
by others that mean the same; whatever else draws stays whole. `rand_like` and its like are spelled by the
operators that fill a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre.inductor.lowering.lower_call import CallLowering
from torch_spyre.inductor.lowering.tensor_spec import TensorSpec
from torch_spyre.ops.sampling import permutation

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


def _permutation(n: int, *, dtype: torch.dtype = torch.int64, device: torch.device, **options: Any) -> Any:
    return permutation(n, dtype, device)


RETOLD: dict[Any, Callable[..., Any]] = {
    _aten.rand.default: _like(_aten.rand_like.default),
    _aten.randn.default: _like(_aten.randn_like.default),
    _aten.randint.low: _integers,
    _aten.randint.default: _integers_from_zero,
    _aten.randperm.default: _permutation,
}


def _drawn(
    target: str, arguments: Callable[[list[Any]], list[Any]]
) -> Callable[[CallLowering, list[Any], TensorSpec], None]:
    """A functional call by way of the one that fills its result; graphs have the card's own generator only."""

    def draw(lowering: CallLowering, given: list[Any], out: TensorSpec) -> None:
        lowering.run(target, [out, *arguments(given), None], [out])

    return draw


GRAPH_LOWERINGS = {
    "aten.rand_like.default": _drawn("aten.uniform_.default", lambda given: [0.0, 1.0]),
    "aten.randn_like.default": _drawn("aten.normal_.default", lambda given: [0.0, 1.0]),
    "aten.randint_like.default": _drawn("aten.random_.from", lambda given: [0, given[1]]),
    "aten.randint_like.low_dtype": _drawn("aten.random_.from", lambda given: given[1:3]),
}
