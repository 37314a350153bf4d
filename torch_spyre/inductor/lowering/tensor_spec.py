"""A tensor that is only its description: size, strides, offset, dtype, device and the name of its buffer.

Eager's lowerings ask tensors nothing more, so they serve graphs as well. Views of a stand-in are stand-ins. Numbers that each
launch brings anew are tensors without dims on the host, as eager has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from torch_spyre.inductor.border import make_wrapper_subclass, tree_map_only


class NotImportable(Exception):
    """A call that no lowering takes; it stays outside the bundle and the reason goes into the report."""


class SymbolicScalar(torch.Tensor):
    """A number of a launch, whose value nobody knows when the program is made; `place` is among the launch's numbers."""

    place: int

    @staticmethod
    def __new__(cls, place: int, dtype: torch.dtype) -> SymbolicScalar:
        made: SymbolicScalar = make_wrapper_subclass(cls, (), dtype=dtype, device=torch.device("cpu"))
        made.place = place
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise NotImportable(f"the program would depend on a number that only the launch knows ({func})")


class TensorSpec(torch.Tensor):
    """Holds no elements; `buffer` names where they would be."""

    buffer: str

    @staticmethod
    def __new__(
        cls,
        buffer: str,
        dtype: torch.dtype,
        size: Sequence[int],
        stride: Sequence[int],
        offset: int,
        device: torch.device,
    ) -> TensorSpec:
        made: TensorSpec = make_wrapper_subclass(
            cls, size, strides=stride, storage_offset=offset, dtype=dtype, device=device
        )
        made.buffer = buffer
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Views only: they are computed on the meta device."""
        base = next(value for value in args if isinstance(value, TensorSpec))
        returned = func(*tree_map_only(TensorSpec, _meta, args), **(kwargs or {}))
        return tree_map_only(torch.Tensor, lambda made: _like(base, made), returned)


def _meta(tensor: TensorSpec) -> torch.Tensor:
    reach = (
        sum((n - 1) * abs(s) for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if prod(tensor.shape) else 0
    )
    room = torch.empty(tensor.storage_offset() + reach + 1, dtype=tensor.dtype, device="meta")
    return room.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _like(base: TensorSpec, made: torch.Tensor) -> TensorSpec:
    return TensorSpec(base.buffer, made.dtype, made.shape, made.stride(), int(made.storage_offset()), base.device)
