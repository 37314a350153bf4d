"""Parameters lie as a graph reads them: one that every reader would move or turn is re-tiled once instead of in each launch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import torch

from openspyre.spec import progress
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.device.layouts import device_tensor_layout, set_spyre_tensor_layout

log = logging.getLogger("spyre.inductor")

Preference = tuple[int, SpyreTensorLayout]  # an input's place, and how it should lie

_retiling = threading.Lock()


def movable(inputs: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Places of whole parameters in the default layout (another one is a user's choice) that could lie otherwise."""
    return tuple(
        place
        for place, tensor in enumerate(inputs)
        if isinstance(tensor, torch.nn.Parameter) and tensor.dim() > 1 and _is_whole(tensor) and _has_default(tensor)
    )


def retile(wanted: Sequence[Preference], inputs: Sequence[torch.Tensor]) -> list[int]:
    """Grant the preferences; whose."""
    granted = []
    for number, (place, layout) in enumerate(wanted):
        progress.stage("re-tiling weights", f"{number + 1} of {len(wanted)}")
        parameter = inputs[place]
        with _retiling:
            if not movable([parameter]):  # a graph of another thread had its wish first
                continue
            set_spyre_tensor_layout(parameter.detach(), layout)
        log.info("a parameter %s is re-tiled as %s: graphs read it so", tuple(parameter.shape), layout)
        granted.append(place)
    return granted


def _is_whole(tensor: torch.Tensor) -> bool:
    return tensor.storage_offset() == 0 and tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


def _has_default(tensor: torch.Tensor) -> bool:
    size, stride = list(tensor.shape), list(tensor.stride())
    return device_tensor_layout(tensor) == SpyreTensorLayout(size, stride, tensor.dtype, list(range(len(size))))
