"""Parameters lie as a graph reads them: one that every reader would move or turn is re-tiled once instead of in each launch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import torch

from openspyre.compiler.ir import Access, Buffer, Op, Program, Role
from openspyre.compiler.legality import turned
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.device.layouts import device_tensor_layout, set_spyre_tensor_layout

log = logging.getLogger("spyre.inductor")

Wish = tuple[int, SpyreTensorLayout]  # an input's place, and how all that read it would have it


def wishes(lowered: Program, names: Sequence[str]) -> tuple[Wish, ...]:
    """Inputs that the program only reads through a relayout or turns in a contraction, always for the same dim."""
    found = ((place, _wanted(lowered, lowered.buffer(name))) for place, name in enumerate(names))
    return tuple((place, layout) for place, layout in found if layout is not None)


def retile(wanted: Sequence[Wish], inputs: Sequence[torch.Tensor]) -> list[int]:
    """Grant the wishes that concern whole parameters in the default layout (another one is a user's choice); whose."""
    granted = []
    for place, layout in wanted:
        parameter = inputs[place]
        if isinstance(parameter, torch.nn.Parameter) and _is_whole(parameter) and _has_default(parameter):
            set_spyre_tensor_layout(parameter.detach(), layout)
            log.info("a parameter %s is re-tiled as %s: graphs read it so", tuple(parameter.shape), layout)
            granted.append(place)
    return granted


def _wanted(lowered: Program, buffer: Buffer) -> SpyreTensorLayout | None:
    if buffer.role is not Role.INPUT:
        return None
    readers = [op for op in lowered.ops if any(access.buffer == buffer.name for access in op.accesses)]
    buffers = {each.name: each for each in lowered.buffers} if readers else {}
    along = {_stick_dim(op, buffer, buffers) for op in readers}
    if len(along) != 1 or None in along:
        return None
    (stick,) = along
    rank = len(buffer.size)
    order = [dim for dim in range(rank) if dim != stick] + [stick]
    return SpyreTensorLayout(list(buffer.size), list(buffer.stride), buffer.dtype, order)


def _stick_dim(op: Op, buffer: Buffer, buffers: Mapping[str, Buffer]) -> int | None:
    """The buffer's dim that a relayout of all of it, or a contraction that turns it, wants on the stick; else None."""
    if op.row == "relayout":
        source, lane = op.inputs[0], _lane_of(op.outputs[0], buffers)
    else:
        source, lane = turned(op, buffers), len(op.dims) - 2
    if lane is None or not isinstance(source, Access) or source.offset or source.buffer != buffer.name:
        return None
    walked = (source.strides[lane], op.dims[lane].size)
    dims = [dim for dim, shape in enumerate(zip(buffer.stride, buffer.size, strict=True)) if shape == walked]
    return dims[0] if dims else None


def _lane_of(target: Access, buffers: Mapping[str, Buffer]) -> int | None:
    """The op's dim along the sticks of a temporary."""
    moved = buffers[target.buffer]
    if moved.role is not Role.TEMP or moved.layout is None:
        return None
    return next((d for d, stride in enumerate(target.strides) if stride == moved.layout.stride_map[-1]), None)


def _is_whole(tensor: torch.Tensor) -> bool:
    return tensor.storage_offset() == 0 and tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


def _has_default(tensor: torch.Tensor) -> bool:
    size, stride = list(tensor.shape), list(tensor.stride())
    return device_tensor_layout(tensor) == SpyreTensorLayout(size, stride, tensor.dtype, list(range(len(size))))
