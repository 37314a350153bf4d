"""Dims and operands of a step: symbols are numbers of the record's tensors."""

from __future__ import annotations

from openspyre.artifact.extensions.description import (
    Constant,
    Description,
    Iota,
    Lanes,
    Operand,
    Tensor,
    lane_block,
    stick_dim,
)
from openspyre.program import model
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import DataFormats
from openspyre.spec.ops import TABLE, Fold
from openspyre.spec.ops.expression import Lane

_KINDS = {
    Lanes.VECTOR: model.OperandKind.VECTOR,
    Lanes.SPLAT: model.OperandKind.SPLAT,
    Lanes.VIEW: model.OperandKind.SPLAT,
}


def register_of(operand: Operand) -> Lane:
    """What a register holds once the operand is loaded: truth values in memory come as 0.0 or 1.0."""
    lane = lane_of(operand)
    return Lane.FLOAT if lane is Lane.BOOL and isinstance(operand, Tensor) else lane


def lane_of(operand: Operand) -> Lane:
    """What an op's expression sees of an operand, or must return for an output."""
    dtype = "int32" if isinstance(operand, Iota) else operand.dtype
    if dtype == "bool":
        return Lane.BOOL
    return Lane.FLOAT if "float" in dtype else Lane.INT


def block_lanes(description: Description, index: int) -> int:
    """Lanes of a block along a dim; 1 if no operand's sticks run along it."""
    along = tuple(tensor for tensor in description.tensors if tensor.lane_dim == index)
    return lane_block(along) if along else 1


def fold_of(description: Description) -> Fold:
    fold = TABLE[description.row].fold
    if fold is None:
        raise InternalError(f"the op table says no fold for {description.row!r}")
    return fold


def nest_of(description: Description) -> model.LoopNest:
    """A dim of the step for each of the record, lane dims counted in blocks, and every operand along them."""
    blocks = [block_lanes(description, index) for index in range(len(description.dims))]
    tensors = 0
    inputs = []
    for operand in description.inputs:
        match operand:
            case Tensor():
                inputs.append(_in_memory(operand, tensors, blocks))
                tensors += 1
            case Constant():
                pass  # part of the code
            case Iota():
                inputs.append(_iota(operand, blocks, stick_dim(description)))
    return model.LoopNest(
        name=description.row,
        dims=tuple(
            model.Dim(-(-dim.size // lanes), dim.split, dim.reduced)
            for dim, lanes in zip(description.dims, blocks, strict=True)
        ),
        lane=_lane(description),
        inputs=tuple(inputs),
        outputs=tuple(_in_memory(tensor, tensors + i, blocks) for i, tensor in enumerate(description.outputs)),
    )


def _lane(description: Description) -> model.LaneBlock:
    index = stick_dim(description)
    if index is None:
        return model.LaneBlock(lane_block(description.tensors), 1, -1)
    dim = description.dims[index]
    return model.LaneBlock(block_lanes(description, index), dim.size, index, dim.reduced)


def _in_memory(tensor: Tensor, number: int, blocks: list[int]) -> model.Operand:
    strides, tile_stride = [], 0
    for index, (stride, lanes) in enumerate(zip(tensor.strides, blocks, strict=True)):
        if index == tensor.lane_dim:
            sticks = lanes // tensor.elems_per_stick
            tile_stride = stride if sticks > 1 else 0
            strides.append(stride * sticks)
        else:
            strides.append(stride * lanes)
    return model.Operand(_KINDS[tensor.lanes], number, 0, tuple(strides), tile_stride, tensor.dtype, tensor.format.name)


def _iota(iota: Iota, blocks: list[int], lane: int | None) -> model.Operand:
    strides = tuple(stride * lanes for stride, lanes in zip(iota.strides, blocks, strict=True))
    within = 0 if lane is None else iota.strides[lane]
    return model.Operand(model.OperandKind.IOTA, 0, iota.offset, strides, within, "int32", DataFormats.IEEE_INT32.name)
