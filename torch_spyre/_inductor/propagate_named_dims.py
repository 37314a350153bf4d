"""Names of dims: hints speak of "M" and "N", and these say which dims of which tensors are meant.

A graph sees the names that its inputs have when it is first called; from there they go through views and operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import mul

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
    """Names for all dims of a tensor; each must be declared.

    Their sizes need not be the tensor's own: a tensor of M * K elements can be named ["M", "K"] if it can be viewed as [M, K].
    """
    sizes = [declared_size(name, tensor) for name in names]
    shape = tuple(tensor.shape)
    if not _refines(shape, sizes) or named_strides(shape, tensor.stride(), sizes) is None:
        asked = ", ".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))
        raise InvalidArgument(
            f"a tensor of size {shape} has no dims [{asked}]: name its dims from the first to the last, with the sizes that "
            "declare_tensor_dim gives them; one dim may have several names, and several dims one, if their products agree"
        )
    _names[tensor] = tuple(zip(names, sizes, strict=True))


def tensor_dim_names(tensor: torch.Tensor) -> tuple[str, ...] | None:
    """The names given to a tensor's dims, if any."""
    found = named_sizes(tensor)
    return None if found is None else tuple(name for name, _ in found)


def named_sizes(tensor: torch.Tensor) -> tuple[tuple[str, int], ...] | None:
    """The named dims of a tensor with the sizes they were declared with."""
    found: tuple[tuple[str, int], ...] | None = _names.get(tensor)
    return found


def declared_size(name: str, tensor: torch.Tensor | None = None) -> int:
    if name not in _sizes:
        of = "" if tensor is None else f" of a tensor of size {tuple(tensor.shape)}"
        raise KeyError(f"dim {name!r}{of} is not declared: call declare_tensor_dim({name!r}, <its size>) first")
    return _sizes[name]


def _refines(size: Sequence[int], named: Sequence[int]) -> bool:
    """Whether names end where dims end, or dims where names do."""
    ends, others = set(accumulate(size, mul)), set(accumulate(named, mul))
    return ends <= others or others <= ends


def named_strides(size: Sequence[int], stride: Sequence[int], named: Sequence[int]) -> tuple[int, ...] | None:
    """Strides of a tensor seen in the sizes of its named dims; None if it cannot be seen so without a copy."""
    if prod(size) != prod(named):
        return None
    try:
        return torch.empty_strided(tuple(size), tuple(stride), device="meta").view(tuple(named)).stride()
    except RuntimeError:
        return None
