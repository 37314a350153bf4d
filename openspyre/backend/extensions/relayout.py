"""Relayouts: elements go from one host view to another, whatever the layouts under them."""

from __future__ import annotations

from openspyre.artifact.extensions.description import Description, Tensor
from openspyre.program.model import Operand, OperandKind, Relayout, View
from openspyre.spec.errors import InternalError


def lower(description: Description) -> Relayout:
    """Operands tell where the two buffers begin; their views tell the rest."""
    tensors = description.tensors
    whole = tuple(
        Operand(OperandKind.SPLAT, number, 0, (), 0, tensor.dtype, tensor.format.name)
        for number, tensor in enumerate(tensors)
    )
    source, target = (_view(description, tensor) for tensor in tensors)
    return Relayout(description.row, whole[:1], whole[1:], source, target)


def _view(description: Description, tensor: Tensor) -> View:
    view = tensor.view
    if view is None:
        raise InternalError(f"{description.row!r} moves a tensor that has no host view")
    return View(
        dtype=tensor.dtype,
        layout=tensor.layout,
        buffer_dtype=view.buffer_dtype,
        buffer_size=view.buffer_size,
        buffer_stride=view.buffer_stride,
        offset=view.offset,
        size=tuple(dim.size for dim in description.dims),
        stride=view.strides,
    )
