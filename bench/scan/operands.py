"""The operands of the scan, by the letters and words its statements use."""

from __future__ import annotations

from collections.abc import Callable

import torch

from openspyre.spec.ops.row import Samples

DTYPES = (torch.float16, torch.float32, torch.int64, torch.bool)
_SIDE = 1024
_SIZES = {
    "x": (1024, 1024), "y": (1024, 1024), "v": (1024,), "c": (1024, 1), "flat": (1048576,), "thin": (1024, 64), "narrow": (1024, 64),
    "image": (4, 16, 128, 128), "other": (4, 16, 128, 128), "quarter": (4, 16, 64, 64), "w": (16,), "g": (4, 4),
    "heads": (8, 16, 128, 64), "batch": (16, 256, 256), "smalls": (4096, 16, 16), "kernel": (16, 16, 3, 3), "square": (16, 16, 3, 3), "point": (32, 16, 1, 1),
    "depth": (16, 1, 3, 3), "small_images": (16, 64, 32, 32), "kernels": (64, 64, 3, 3), "patch": (64, 16, 8, 8), "signal": (4, 64, 4096), "kernel1": (64, 64, 3),
    "half_signal": (4, 64, 2048), "volume": (1, 8, 16, 32, 32), "gates": (1024, 1024), "cells": (1024, 256), "triples": (349525, 3), "turn": (4, 2, 3),
}  # fmt: skip


def _numbers(samples: Samples, dtype: torch.dtype, size: tuple[int, ...]) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.rand(size) > 0.5
    if not dtype.is_floating_point:
        values = torch.randint(0 if samples.low >= 0 else -9, 10, size)
        return torch.where(values == 0, 3, values) if samples.nonzero else values
    values = samples.low + (samples.high - samples.low) * torch.rand(size)
    return (torch.where(values.abs() < 0.1, 0.7, values) if samples.nonzero else values).to(dtype)


def _makers(samples: Samples | None, dtype: torch.dtype) -> dict[str, Callable[[], torch.Tensor]]:
    drawn = {name: (lambda size=size: _numbers(Samples(), dtype, size)) for name, size in _SIZES.items()}
    asked = samples or Samples()
    return drawn | {f"s{place}": lambda: _numbers(asked, dtype, (_SIDE, _SIDE)) for place in range(4)} | {
        "e": lambda: _numbers(Samples(0.5, 2.0), dtype, (16,)),
        "chance": lambda: _numbers(Samples(0.05, 0.95), dtype, (_SIDE, _SIDE)),
        "grid": lambda: _numbers(Samples(-1.0, 1.0), dtype, (4, 128, 128, 2)),
        "one": lambda: torch.ones((), dtype=dtype),
            "edges": lambda: torch.linspace(-4.0, 4.0, 64).to(dtype),
        "single": lambda: _numbers(Samples(), torch.float32, (_SIDE, _SIDE)),
        "mask": lambda: torch.rand(_SIDE, _SIDE) > 0.5,
        "order": lambda: torch.randperm(_SIDE),
        "places": lambda: torch.rand(_SIDE, _SIDE).argsort(1),
        "all_places": lambda: torch.randperm(_SIDE * _SIDE),
        "classes": lambda: torch.randint(0, 16, (4, 128, 128)),
    }  # fmt: skip


def operands(statement: str, samples: Samples | None, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The tensors that a statement names, on the CPU; the same in every run."""
    torch.manual_seed(0)
    words = set(compile(statement, "the scan", "eval").co_names)
    return {name: make() for name, make in _makers(samples, dtype).items() if name in words}
