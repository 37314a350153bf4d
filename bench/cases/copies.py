"""Copies between host and card, against memcpy of the same bytes. Both sides: warm buffers, allocated before."""

from __future__ import annotations

import ctypes
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from bench.registry import case
from bench.timing import Effort, Pair


@dataclass(frozen=True, slots=True)
class Shape:
    """A tensor to move; as text, the part of a case's name that tells it."""

    size: tuple[int, ...]
    dtype: torch.dtype = torch.float16

    def __str__(self) -> str:
        kind = {torch.float16: "fp16", torch.float32: "fp32"}[self.dtype]
        return f"{kind} {'x'.join(map(str, self.size))}"


ALIGNED = [Shape(size) for size in ((2048, 2048), (4096, 11008), (8, 1024, 1024), (32, 2048, 128), (4, 32, 512, 128))]
UNALIGNED = [Shape(size) for size in ((4096, 1000), (2048, 2049), (65536, 80), (8, 1024, 1023), (2, 32, 1024, 96))]
FP32 = [Shape(size, torch.float32) for size in ((2048, 2048), (4096, 1000), (8, 1024, 1024))]


def _memcpy(count: int) -> Callable[[], object]:
    """The faster of libc's memcpy and torch's copy of bytes, which is the same in one thread and splits in several."""
    source, target = torch.ones(count, dtype=torch.uint8), torch.zeros(count, dtype=torch.uint8)
    copies = (partial(ctypes.memmove, target.data_ptr(), source.data_ptr(), count), partial(target.copy_, source))
    fastest = min(copies, key=lambda copy: min(timeit.repeat(copy, number=1, repeat=15)))
    return lambda held=(source, target): fastest()


def _copy(shape: Shape, statement: str) -> Pair:
    host = torch.rand(shape.size).to(shape.dtype)
    names = {"host": host, "card": host.to("spyre"), "back": torch.zeros_like(host)}
    return Pair(statement, _memcpy(host.nbytes), names)


def _to_card(shape: Shape, effort: Effort) -> Pair:
    return _copy(shape, "card.copy_(host)")


def _to_host(shape: Shape, effort: Effort) -> Pair:
    return _copy(shape, "back.copy_(card)")


for _direction, _run in (("in", _to_card), ("out", _to_host)):
    case(f"copy {_direction}, aligned {{}}", asked=1.5, goal=1.0, baseline="memcpy", over=ALIGNED)(_run)
    case(f"copy {_direction}, unaligned {{}}", asked=2.0, baseline="memcpy", over=UNALIGNED)(_run)
    case(f"copy {_direction}, {{}}", asked=2.5, baseline="memcpy", over=FP32)(_run)
