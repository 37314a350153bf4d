"""Operators that stay whole on spyre: where eager has a row, Inductor's decompositions step aside for the device's tensors.

Then a graph computes the same composite in the same way as eager (contract N4), and one row does what ten would.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.inductor.border import OpOverload, decompositions, fast_random_decomps, tree_leaves
from torch_spyre.ops import eager


def keep_whole() -> None:
    """Once; tables that were already made from Inductor's are changed as well."""
    for table in (decompositions, fast_random_decomps()):
        for overload, decomposition in list(table.items()):
            if isinstance(overload, OpOverload) and eager.binding_of(str(overload)) is not None:
                table[overload] = _elsewhere(decomposition)


def _elsewhere(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition for tensors of other devices; for ours, none."""

    @functools.wraps(decomposition)
    def decompose(*args: Any, **kwargs: Any) -> Any:
        leaves = tree_leaves((args, kwargs))
        if any(isinstance(leaf, torch.Tensor) and leaf.device.type == DEVICE_NAME for leaf in leaves):
            return NotImplemented
        return decomposition(*args, **kwargs)

    return decompose
