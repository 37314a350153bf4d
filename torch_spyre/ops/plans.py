"""What a compiled call is, eager or a whole graph: the data the C++ caches keep (csrc/torch/operators/plans.h)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from openspyre.clock import ClassTime
from openspyre.spec.layout import SpyreTensorLayout


@dataclass(frozen=True, slots=True)
class ResultPlan:
    """A result: the call's own tensor (`argument` >= 0, counted over its tensors on the card), or a new one."""

    argument: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    layout: SpyreTensorLayout | None


@dataclass(frozen=True, slots=True)
class ConstantTensor:
    """A tensor whose values are known: the bytes the host would store. It is on a card from the first launch there on."""

    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    layout: SpyreTensorLayout
    values: bytes


@dataclass(frozen=True, slots=True)
class CallPlan:
    """A call: program 0 computes nothing. `symbols`: tensor i of the call, or -1 - r for result r; `scalars`: (argument, encoding).

    `draws`: how many random numbers each draw takes; a scalar that is a word of a draw names it instead of an argument.
    A graph's own numbers are `constants`, encoded already, before its `scalars`, which count the launch's numbers; `fixed` are its inputs whose offset the program has built in, `shapes`
    the ids of the buffers' shapes it was specialised for. `tensors` are the program's last symbols. `predicted`: how long a real card would take, `described`: by step.
    """

    program: int
    symbols: tuple[int, ...]
    offsets: tuple[int, ...]
    scalars: tuple[tuple[int, str], ...]
    results: tuple[ResultPlan, ...]
    resize: tuple[int, ...] = ()
    pool_bytes: int = 0
    constants: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    shapes: tuple[int, ...] = ()
    draws: tuple[int, ...] = ()
    tensors: tuple[ConstantTensor, ...] = ()
    predicted: tuple[ClassTime, ...] = ()
    described: str = ""
