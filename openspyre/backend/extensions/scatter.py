"""Scatters: rows into a target, or elements one by one into a flat one."""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.extensions.description import Description, Lanes, Tensor
from openspyre.backend.extensions.flat import flat_nest
from openspyre.backend.extensions.operands import nest_of
from openspyre.program.model import LaneBlock, LoopNest, Operand, OperandKind, Scatter
from openspyre.spec.ops import TABLE, Indexing
from openspyre.spec.ops.expression import Code


def lower(description: Description, code: Code) -> Scatter:
    if TABLE[description.row].by_element:
        return _elements(description, code)
    target, last = description.outputs[0], len(description.dims) - 1
    nest, along = nest_of(without_index_dim(description)), target.strides[last]
    bound, adds = description.dims[last].size, _adds(description)
    if target.lane_dim != last:
        return Scatter(*nest.head, code, along, bound, adds)
    nest, indices = index_per_lane(nest)
    places = replace(nest.outputs[0], tile_stride=along)
    per_lane = replace(nest, inputs=(nest.inputs[0], indices), outputs=(places,))
    return Scatter(*per_lane.head, code, 0, bound, adds)


def _adds(description: Description) -> bool:
    return TABLE[description.row].indexing is Indexing.ADD


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


def index_per_lane(nest: LoopNest) -> tuple[LoopNest, Operand]:
    """The nest, and its index as a vector; a single index is a vector of one."""
    if nest.inputs[1].kind is OperandKind.VECTOR:
        return nest, nest.inputs[1]
    return replace(nest, lane=LaneBlock(nest.lane.lanes, 1, -1)), replace(nest.inputs[1], kind=OperandKind.VECTOR)


def _elements(description: Description, code: Code) -> Scatter:
    """One point per element, one element per point; the dim of the index is no dim of the step."""
    nest = flat_nest(description)
    inputs, outputs = (tuple(map(_without_last, operands)) for operands in (nest.inputs, nest.outputs))
    walked = replace(nest, dims=nest.dims[:-1], inputs=inputs, outputs=outputs)
    along = nest.outputs[0].strides[-1]
    return Scatter(*walked.head, code, along, description.dims[-1].size, _adds(description))


def _without_last(operand: Operand) -> Operand:
    return replace(operand, strides=operand.strides[:-1])
