"""Where a module's weights lie once it is on the card: a linear layer's with out_features on the stick.

The matrix unit reads the second operand of x @ W.t() along its columns; a weight tiled so is read as it lies, any other is
turned by every call, block by block. An embedding's may lie row by row (`place_embedding_weights`): each row in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from openspyre.spec import progress
from openspyre.spec.errors import UnsupportedFormat
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.layouts import device_tensor_layout, set_spyre_tensor_layout

ROOM = (  # what helps a model that is larger than the card
    "use fewer bits (16: dtype=torch.float16, or model.to(torch.float16) first), leave a part on the host (transformers: "
    "device_map='auto'), or give the card more memory (OPENSPYRE_CARD_MEMORY_GIB)"
)
embeddings_too = False  # whether a module that moves gets its tables laid by rows as well
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
    found = list(_linear_weights(module))
    for number, weight in enumerate(found):
        progress.stage("re-tiling weights", f"{number + 1} of {len(found)}")
        if id(weight) in looked_up or weight.device.type != DEVICE_NAME or weight.dim() != 2 or weight.numel() == 0:
            continue
        if device_tensor_layout(weight) is None:
            raise _without_format(module, weight)
        size, stride = list(weight.shape), list(weight.stride())
        if device_tensor_layout(weight) == SpyreTensorLayout(size, stride, weight.dtype, [0, 1]):
            set_spyre_tensor_layout(weight.detach(), SpyreTensorLayout(size, stride, weight.dtype, [1, 0]))
    if embeddings_too:
        place_embedding_weights(module)


def _without_format(module: torch.nn.Module, weight: torch.Tensor) -> UnsupportedFormat:
    name = next((name for name, found in module.named_parameters() if found is weight), "weight")
    dtype = str(weight.dtype).removeprefix("torch.")
    return UnsupportedFormat(
        f"{name} of {type(module).__name__} is {dtype}, for which the card has no format, so that its products would all run on "
        'the CPU: convert the model first, model.to(torch.float16).to("spyre"), or load it as '
        "from_pretrained(..., dtype=torch.float16)"
    )


def place_embedding_weights(module: torch.nn.Module) -> None:
    """Lay tables with the vocabulary outermost; those shared with a linear layer, and layouts of the user's, stay."""
    linear = {id(weight) for weight in _linear_weights(module)}
    for part in module.modules():
        if isinstance(part, _LOOKED_UP) and id(part.weight) not in linear and part.weight.device.type == DEVICE_NAME:
            _lay_by_rows(part.weight)


def _lay_by_rows(table: torch.Tensor) -> None:
    (rows, columns), stride = table.shape, list(table.stride())
    default = SpyreTensorLayout([rows, columns], stride, table.dtype, [0, 1])
    if table.numel() and device_tensor_layout(table) == default:
        lanes = default.elems_per_stick()
        size, steps = [rows, -(-columns // lanes), lanes], [stride[0], lanes * stride[1], stride[1]]
        by_rows = SpyreTensorLayout(device_size=size, stride_map=steps, device_dtype=default.device_dtype)
        set_spyre_tensor_layout(table.detach(), by_rows)


def _linear_weights(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    for part in module.modules():
        names = next((names for kind, names in _LINEAR.items() if isinstance(part, kind)), ())
        weights = (getattr(part, name) for name in names)
        yield from (weight for weight in weights if weight is not None and not torch.nn.parameter.is_lazy(weight))
