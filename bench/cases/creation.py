"""New tensors: torch.empty and its like on the card, against the same call for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench.registry import ONE, case
from bench.timing import Effort, Pair


def plain_empty() -> Callable[..., torch.Tensor]:
    """torch.empty as torch has it, without our seam around it."""
    return getattr(torch.empty, "__wrapped__", torch.empty)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement over a device `d`, a dtype `half` and a tensor `x` there; as text, its own source."""

    source: str

    def __str__(self) -> str:
        return self.source


CREATIONS = [
    Statement(source)
    for source in (
        "empty(64, device=d)",
        "empty(64, dtype=half, device=d)",
        "empty((4, 128, 256), dtype=half, device=d)",
        "empty_strided((128, 64), (1, 128), dtype=half, device=d)",
        "empty_like(x)",
        "x.new_empty((32, 64))",
    )
]


def _names(device: str, empty: Callable[..., torch.Tensor]) -> dict[str, object]:
    return {
        "d": torch.device(device),
        "half": torch.float16,
        "empty": empty,
        "empty_strided": torch.empty_strided,
        "empty_like": torch.empty_like,
        "x": torch.ones(32, 64, dtype=torch.float16).to(device),
    }


@case("{}", asked=1.5, baseline="CPU", threads=ONE, over=CREATIONS)
def creation(statement: Statement, effort: Effort) -> Pair:
    """Made and dropped at once, so the memory of both sides is cached."""
    source = statement.source
    return Pair(source, source, _names("spyre", torch.empty), _names("cpu", plain_empty()))


@case("torch.empty(64) on the CPU, package loaded", asked=1.5, goal=1.2, baseline="without", threads=ONE)
def untouched_cpu(effort: Effort) -> Pair:
    """What our seam around torch.empty costs those who do not use the card."""
    return Pair("empty(64)", "empty(64)", {"empty": torch.empty}, {"empty": plain_empty()})
