"""Ops by elements: operands in flat buffers, where the host's offset is the card's."""

from __future__ import annotations

from openspyre.artifact.extensions.description import Description, Tensor
from openspyre.program.model import Dim, LaneBlock, LoopNest, Operand, OperandKind
from openspyre.spec.errors import InternalError

_FEWEST_LANES = 32  # of a block, though only one is used


def flat_nest(description: Description) -> LoopNest:
    """A dim of the step for each of the record, one element per point."""
    inputs = len(description.inputs)
    operands = tuple(flat_operand(tensor, number) for number, tensor in enumerate(description.tensors))
    return LoopNest(
        name=description.row,
        dims=tuple(Dim(dim.size) for dim in description.dims),
        lane=LaneBlock(_FEWEST_LANES, 1, -1),
        inputs=operands[:inputs],
        outputs=operands[inputs:],
    )


def flat_operand(tensor: Tensor, number: int) -> Operand:
    view = tensor.view
    if view is None or not _is_flat(tensor, view.buffer_size):
        raise InternalError("an op by elements needs flat buffers: one dim, the default layout")
    return Operand(OperandKind.SPLAT, number, 0, view.strides, 0, tensor.dtype, tensor.format.name)


def _is_flat(tensor: Tensor, size: tuple[int, ...]) -> bool:
    return size == (1,) or (len(size) == 1 and tensor.layout.stride_map[-1] == 1)
