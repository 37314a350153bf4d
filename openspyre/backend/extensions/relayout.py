"""Relayouts: elements go from one host view to another, whatever the layouts under them."""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.extensions.description import Description, Tensor
from openspyre.program.model import Operand, OperandKind, Step, StepKind, View
from openspyre.spec.errors import InternalError


def lower(description: Description, step: Step) -> Step:
    """Operands tell where the two buffers begin; their views tell the rest."""
    tensors = description.tensors
    whole = tuple(
        Operand(OperandKind.SPLAT, number, 0, (), 0, tensor.dtype, tensor.format.name)
        for number, tensor in enumerate(tensors)
    )
    views = tuple(_view(description, tensor, number) for number, tensor in enumerate(tensors))
    return replace(step, kind=StepKind.RELAYOUT, loops=(), lane=None, inputs=whole[:1], outputs=whole[1:], views=views)


def _view(description: Description, tensor: Tensor, number: int) -> View:
    view = tensor.view
    if view is None:
        raise InternalError(f"{description.row!r} moves a tensor that has no host view")
    return View(
        symbol=number,
        dtype=tensor.dtype,
        layout=tensor.layout,
        buffer_dtype=view.buffer_dtype,
        buffer_size=view.buffer_size,
        buffer_stride=view.buffer_stride,
        offset=view.offset,
        size=tuple(dim.size for dim in description.dims),
        stride=view.strides,
    )
