"""Where a module's weights lie once it is on the card: a linear layer's with out_features on the stick.

The matrix unit reads the second operand of x @ W.t() along its columns; a weight tiled so is read as it lies, any other is
turned by every call, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.layouts import device_tensor_layout, set_spyre_tensor_layout

_LOOKED_UP = (torch.nn.Embedding, torch.nn.EmbeddingBag)
_LINEAR: dict[type[torch.nn.Module], tuple[str, ...]] = {
    torch.nn.Linear: ("weight",),
    torch.nn.MultiheadAttention: ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"),
}


def place_linear_weights(module: torch.nn.Module) -> None:
    """Re-tile the weights of all linear layers inside, if they have the default layout: a layout of the user's stays.

    A weight that an embedding shares keeps the default: rows are looked up along the stick, and the tied linear layer turns
    it in each call. Untie them (a clone for the head) where that costs more than the memory.
    """
    looked_up = {id(m.weight) for m in module.modules() if isinstance(m, _LOOKED_UP)}
    for weight in _linear_weights(module):
        if id(weight) in looked_up or weight.device.type != DEVICE_NAME or weight.dim() != 2 or weight.numel() == 0:
            continue
        size, stride = list(weight.shape), list(weight.stride())
        if device_tensor_layout(weight) == SpyreTensorLayout(size, stride, weight.dtype, [0, 1]):
            set_spyre_tensor_layout(weight.detach(), SpyreTensorLayout(size, stride, weight.dtype, [1, 0]))


def _linear_weights(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    for part in module.modules():
        names = next((names for kind, names in _LINEAR.items() if isinstance(part, kind)), ())
        weights = (getattr(part, name) for name in names)
        yield from (weight for weight in weights if weight is not None and not torch.nn.parameter.is_lazy(weight))
