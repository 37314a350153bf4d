"""A graph of the corpus as data: a function, what it is given, how many launches it should be and what cannot be in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Given:
    """An operand: drawn on the host, moved, then seen through `view`."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    view: Callable[[torch.Tensor], torch.Tensor] | None = None
    on_card: bool = True

    def seen(self, view: Callable[[torch.Tensor], torch.Tensor]) -> Given:
        return replace(self, view=view)

    def draw(self, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        if self.dtype is torch.bool:
            return torch.rand(self.shape, generator=generator) > 0.4
        if not self.dtype.is_floating_point:
            return torch.randint(int(self.low), int(self.high), self.shape, generator=generator).to(self.dtype)
        return (self.low + (self.high - self.low) * torch.rand(self.shape, generator=generator)).to(self.dtype)


@dataclass(frozen=True)
class Graph:
    """One row of the corpus. `left_out` are the operators that run between the launches, `why` is the reason."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Given, ...]
    bundles: int = 1
    left_out: tuple[str, ...] = ()
    on_cpu: tuple[str, ...] = ()
    why: str = ""
    module: Callable[[], nn.Module] | None = None
    dynamic: bool = False
    rounds_to_16_bits: bool = False  # although no operand has 16 bits
    own_strides: bool = False  # eager's strides on the card are not those of torch on the CPU
    other_bits: str = ""  # why compiled and eager differ in bits

    def __post_init__(self) -> None:
        assert bool(self.why) == bool(self.left_out or self.on_cpu), f"{self.name}: what is left out needs a reason"


def graph(name: str, function: Callable[..., Any], *inputs: Given, **facts: Any) -> Graph:
    return Graph(name, function, inputs, **facts)


def half(*shape: int, low: float = -2.0, high: float = 2.0) -> Given:
    return Given(torch.float16, shape, low, high)


def bfloat(*shape: int, low: float = -2.0, high: float = 2.0) -> Given:
    return Given(torch.bfloat16, shape, low, high)


def single(*shape: int, low: float = -2.0, high: float = 2.0) -> Given:
    return Given(torch.float32, shape, low, high)


def int32(*shape: int, low: int = -9, high: int = 10) -> Given:
    return Given(torch.int32, shape, low, high)


def int64(*shape: int, low: int = 0, high: int = 8) -> Given:
    return Given(torch.int64, shape, low, high)


def truth(*shape: int) -> Given:
    return Given(torch.bool, shape)


def on_host(given: Given) -> Given:
    return replace(given, on_card=False)
