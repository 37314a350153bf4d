"""Names of dims: hints speak of "M" and "N", and these say which dims of which tensors are meant. No pass reads them yet."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from openspyre.spec.errors import InvalidArgument

_sizes: dict[str, int] = {}
_names = WeakTensorKeyDictionary()


def declare_tensor_dim(name: str, size: int) -> None:
    """A name for dims of this size."""
    if not isinstance(size, int) or size < 1:
        raise InvalidArgument(f"dim {name!r} cannot have size {size!r}: a whole number from 1 up is wanted")
    _sizes[name] = size


def name_tensor_dims(tensor: torch.Tensor, names: Sequence[str]) -> None:
    """Names for all dims of a tensor; each must be declared, and its size the dim's."""
    if len(names) != tensor.dim():
        raise InvalidArgument(f"a tensor of size {tuple(tensor.shape)} needs {tensor.dim()} names, got {list(names)}")
    for name, extent in zip(names, tensor.shape, strict=True):
        if name not in _sizes:
            raise KeyError(f"dim {name!r} is not declared: declare_tensor_dim({name!r}, {extent})")
        if _sizes[name] != extent:
            raise InvalidArgument(f"dim {name!r} was declared with size {_sizes[name]}, the tensor's has {extent}")
    _names[tensor] = tuple(names)


def tensor_dim_names(tensor: torch.Tensor) -> tuple[str, ...] | None:
    """The names given to a tensor's dims, if any."""
    names: tuple[str, ...] | None = _names.get(tensor)
    return names
