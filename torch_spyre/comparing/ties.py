"""Which of equal numbers comes first is nobody's error: the truth takes the card's order, wherever it is as right as its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_spyre.comparing.measures import on_the_host

_aten = torch.ops.aten
CHOOSING = frozenset(
    (
        _aten.argmax.default,
        _aten.argmin.default,
        _aten.max.dim,
        _aten.min.dim,
        _aten.sort.default,
        _aten.sort.stable,
        _aten.topk.default,
    )
)


def with_the_cards_order(
    func: Any, args: Sequence[Any], named: Mapping[str, Any], found: list[Tensor], made: list[Tensor]
) -> list[Tensor]:
    """`found`: the truth's results, of which the last are places; `made`: the card's. Rows are taken whole, or not."""
    told = {one.name: one.default_value for one in func._schema.arguments if one.has_default_value()}
    told |= {one.name: given for one, given in zip(func._schema.arguments, args, strict=False)} | dict(named)
    x, dim, places = told["self"], told["dim"], found[-1]
    if told.get("stable") or not x.dim():
        return found
    x, dim = (x.flatten(), 0) if dim is None else (x, dim % x.dim())
    size = [*x.shape[:dim], -1, *x.shape[dim + 1 :]]
    mine, theirs = places.reshape(size), on_the_host(made[-1]).reshape(size)
    as_right = (x.gather(dim, theirs) == x.gather(dim, mine)).all(dim, keepdim=True)
    return [*found[:-1], torch.where(as_right, theirs, mine).reshape(places.shape)]
