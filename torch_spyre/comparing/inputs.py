"""What a model is given, on the card: tensors, and objects that hold some, as caches do, in copies that the model may write into."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from torch_spyre.comparing.shadow import Twins, own_copy, tree_leaves, tree_map

CARD = torch.device("spyre")


class Inputs:
    """Brings them there, each once: what is one tensor on the CPU is one on the card."""

    def __init__(self, dtype: torch.dtype | None, truth: Twins) -> None:
        self._dtype, self._truth = dtype, truth
        self._moved: dict[int, Any] = {}

    def on_card(self, leaf: Any) -> Any:
        """`leaf` is of a tree of inputs that lives longer than this."""
        if id(leaf) in self._moved:
            return self._moved[id(leaf)]
        if isinstance(leaf, Tensor):
            self._moved[id(leaf)] = self._tensor(leaf)
        elif _holds_tensors(leaf, set()):
            self._moved[id(leaf)] = moved = copy.copy(leaf)
            for name, held in vars(leaf).items():
                vars(moved)[name] = tree_map(self._part, held)
        return self._moved.get(id(leaf), leaf)

    def _part(self, leaf: Any) -> Any:
        """Of an object, which may remember where its tensors are."""
        return CARD if isinstance(leaf, torch.device) else self.on_card(leaf)

    def _tensor(self, given: Tensor) -> Tensor:
        here = given.detach()
        here = (here.to(self._dtype) if self._dtype is not None and here.is_floating_point() else here).to(CARD)
        self._truth.set(here, own_copy(given))
        return here


def _holds_tensors(holder: Any, seen: set[int]) -> bool:
    if isinstance(holder, type | nn.Module) or not hasattr(holder, "__dict__") or id(holder) in seen:
        return False
    seen.add(id(holder))
    leaves = tree_leaves(list(vars(holder).values()))
    return any(isinstance(leaf, Tensor) or _holds_tensors(leaf, seen) for leaf in leaves)
