"""What becomes of operators on spyre before a graph is bundled: where eager has a row, Inductor's decompositions step aside,
and where eager composes an operator of others, graphs get the same composition.

Then a graph computes the same in the same way as eager (contract N4), and one row does what ten would.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.inductor.border import (
    OpOverload,
    constant_folder,
    decompositions,
    decompositions_of_torch,
    embedding_bag,
    fast_random_decomps,
    to_copy,
    tree_leaves,
)
from torch_spyre.inductor.lowering import random_operators
from torch_spyre.ops import composed, eager
from torch_spyre.torch_seams import wrap


def keep_whole() -> None:
    """Once; tables that were already made from Inductor's are changed as well."""
    read_infinities()
    fold_as_aten_does()
    for table in (decompositions, fast_random_decomps()):
        for overload, decomposition in list(table.items()):
            if isinstance(overload, OpOverload) and _stays(overload):
                table[overload] = _by_device(_as_it_is, decomposition)
        for overload, make in OTHERWISE.items():
            table[overload] = make(table.get(overload, _as_it_is))
        for overload, composition in (composed.table() | random_operators.RETOLD).items():
            table[overload] = _by_device(composition, table.get(overload, _as_it_is))


def follow_libraries() -> None:
    """Before each graph is decomposed: libraries bring operators when they are imported."""
    for overload, composition in composed.ADOPTED.items():
        for table in (decompositions, fast_random_decomps()):
            table.setdefault(overload, _by_device(composition, _as_it_is))


def read_infinities() -> None:
    """Inductor folds constants by computing them on the device and reading them; the host reads a 16-bit infinity as NaN."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def add_node_replacement(self: Any, node: torch.fx.Node, tensor: torch.Tensor) -> None:
            narrow = tensor.device.type == DEVICE_NAME and tensor.dtype in (torch.float16, torch.bfloat16)
            original(self, node, tensor.float() if narrow else tensor)

        return add_node_replacement

    wrap(constant_folder, "add_node_replacement", make)


def fold_as_aten_does() -> None:
    """A vector times matrices: torch's decomposition looks at the matrices as they lie, its kernel at them transposed, and only
    what lies in one piece becomes one product, added up in another order than many."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def should_fold(first: torch.Tensor, second: torch.Tensor, is_out: bool = False) -> Any:
            if first.dim() == 1 and second.dim() > 2 and _is_ours(second):
                return original(second.mT, first, is_out)
            return original(first, second, is_out)

        return should_fold

    wrap(decompositions_of_torch, "should_fold", make)


def _stays(overload: Any) -> bool:
    spelled = overload in (torch.ops.aten.linspace.default, torch.ops.aten.index_reduce.default)
    return spelled or random_operators.stays_whole(overload) or eager.binding_of(str(overload)) is not None


def _as_it_is(*args: Any, **kwargs: Any) -> Any:
    """No decomposition."""
    return NotImplemented


def _by_device(ours: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
    """What decomposes our device's tensors, and what those of other devices."""

    @functools.wraps(others)
    def decompose(*args: Any, **kwargs: Any) -> Any:
        if any(map(_is_ours, tree_leaves((args, kwargs)))):
            return ours(*args, **kwargs)
        return others(*args, **kwargs)

    return decompose


def _moves_whole(others: Callable[..., Any]) -> Callable[..., Any]:
    """A part of a tensor arrives dense on another device, as eager has it; Inductor's device_put would promise its strides."""

    @functools.wraps(others)
    def decompose(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        target = x.device if kwargs.get("device") is None else torch.device(kwargs["device"])
        if target.type != x.device.type and (_is_ours(target) or _is_ours(x)) and not x.is_contiguous():
            return NotImplemented
        return others(x, *args, **kwargs)

    return decompose


def _bags(others: Callable[..., Any]) -> Callable[..., Any]:
    return _by_device(_bags_without_end, others)


def _bags_without_end(weight: Any, indices: Any, offsets: Any, *more: Any) -> Any:
    """The end of the last bag is the end of the indices. With it among the offsets, torch describes a bag too many for all
    devices but the CPU, where this runs."""
    defaults: tuple[Any, ...] = (False, 0, False, None, False, -1)
    frequency, mode, sparse, weights, with_end, padding = (*more, *defaults[len(more) :])
    if not with_end:
        return NotImplemented
    return embedding_bag(weight, indices, offsets[:-1], frequency, mode, sparse, weights, False, padding)


def _is_ours(leaf: Any) -> bool:
    device = leaf.device if isinstance(leaf, torch.Tensor) else leaf
    return isinstance(device, torch.device) and device.type == DEVICE_NAME


# Operators with a decomposition of ours for graphs alone, made from torch's.
OTHERWISE: dict[Any, Callable[[Callable[..., Any]], Callable[..., Any]]] = {to_copy: _moves_whole, embedding_bag: _bags}
