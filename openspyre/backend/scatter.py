"""Scatters: rows into a target, or elements one by one into a flat one."""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.geometry import lane_block
from openspyre.artifact.model import Description, Lanes, Tensor
from openspyre.backend.operands import loops_of
from openspyre.program.model import LaneBlock, Loop, Operand, OperandKind, Step, StepKind
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE


def lower(description: Description) -> Step:
    if TABLE[description.row].by_element:
        return _elements(description)
    target, last = description.outputs[0], len(description.dims) - 1
    if target.lane_dim == last:
        raise InternalError(f"{description.row!r}: a scatter of rows has its lanes along them, not along the index")
    step = loops_of(without_index_dim(description))
    return replace(step, kind=StepKind.SCATTER, index_stride=target.strides[last])


def without_index_dim(description: Description) -> Description:
    """The same op over the dims it walks; a tensor along whose sticks the index counts is found by its first element."""
    last = len(description.dims) - 1

    def shorter(tensor: Tensor) -> Tensor:
        if tensor.lane_dim == last:
            tensor = replace(tensor, lanes=Lanes.SPLAT, lane_dim=None)
        return replace(tensor, strides=tensor.strides[:last])

    return replace(
        description,
        dims=description.dims[:last],
        inputs=tuple(shorter(operand) if isinstance(operand, Tensor) else operand for operand in description.inputs),
        outputs=tuple(shorter(tensor) for tensor in description.outputs),
    )


def _elements(description: Description) -> Step:
    """In a flat buffer the host's offset is the card's: one point per element, one element per point."""
    operands = [_element(tensor, number) for number, tensor in enumerate(description.tensors)]
    target = description.outputs[0].view
    assert target is not None
    return Step(
        name=description.row,
        kind=StepKind.SCATTER,
        loops=tuple(Loop(dim.size) for dim in description.dims[:-1]),
        lane=LaneBlock(lane_block(description.tensors), 1, -1),
        inputs=tuple(operands[:2]),
        outputs=tuple(operands[2:]),
        index_stride=target.strides[-1],
    )


def _element(tensor: Tensor, number: int) -> Operand:
    view = tensor.view
    flat = view is not None and (view.buffer_size == (1,) or (len(view.buffer_size) == 1 and tensor.layout.stride_map[-1] == 1))
    if view is None or not flat:
        raise InternalError("an op by elements needs flat buffers: one dim, the default layout")
    return Operand(OperandKind.SPLAT, number, 0, view.strides[:-1], 0, tensor.dtype, tensor.format.name)
