"""An op that the hardware does not have: documented fields as far as they can say it, and one record of ours for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.extensions.description import Description, Lanes, Tensor
from openspyre.artifact.superdsc import SuperDsc
from openspyre.compiler import ir
from openspyre.compiler.emit.description import describe
from openspyre.compiler.emit.lowering import Lowering
from openspyre.compiler.emit.operation import Extent, Operand, Operation, superdsc_of
from openspyre.compiler.emit.walk import Walk, walk_of
from openspyre.compiler.sticks import Lanes as Sticks
from openspyre.compiler.sticks import StickAccess
from openspyre.spec.ops import TABLE


def extension_op(
    op: ir.Op, buffers: Mapping[str, ir.Buffer], lowering: Lowering, symbol: Callable[[Address], int]
) -> SuperDsc:
    description, begins = describe(op, buffers)
    from_begin = TABLE[description.row].by_view  # views have their offset in themselves
    extents = tuple(_extent(description, index) for index in range(len(description.dims)))
    operands = []
    for tensor, begin in zip(description.tensors, begins, strict=True):
        if isinstance(begin, ir.Scalar):
            operands.append(Operand(tensor.format, lowering.number(begin, tensor.format)))
        else:
            place = lowering.place(begin.buffer) + (0 if from_begin else begin.byte)
            operands.append(Operand(tensor.format, place, _walk(tensor, extents)))
    results = len(description.outputs)
    lanes = [tensor.lane_dim for tensor in (*description.outputs, *description.tensors) if tensor.lane_dim is not None]
    operation = Operation(
        op=f"openspyre.{description.row}",
        dims=extents,
        lane=lanes[0] if lanes else None,
        inputs=tuple(operands[:-results]),
        targets=tuple(operands[-results:]),
        unit=TABLE[description.row].unit.value,
    )
    return replace(superdsc_of(operation, symbol), extension=description)


def _extent(description: Description, index: int) -> Extent:
    """Whole sticks of the dims that run along them, and equal parts for all cores."""
    dim = description.dims[index]
    lanes = max((t.elems_per_stick for t in description.tensors if t.lane_dim == index), default=1)
    unit = lanes * dim.split
    return Extent(dim.size, max(-(-dim.size // unit), 1) * unit, dim.split)


def _walk(tensor: Tensor, extents: tuple[Extent, ...]) -> Walk:
    """Where strides do not make a walk the documents know, its dims alone are told."""
    lanes = Sticks.SPLAT if tensor.lane_dim is None else Sticks.VECTOR
    if tensor.lanes is not Lanes.VIEW:
        access = StickAccess(lanes, tensor.lane_dim, 0, tensor.strides)
        found = walk_of(access, [extent.size for extent in extents], tensor.layout)
        if isinstance(found, Walk):
            return found
    strides = tensor.view.strides if tensor.view is not None else tensor.strides
    moving = sorted((abs(stride), d) for d, stride in enumerate(strides) if stride and d != tensor.lane_dim)
    order = [d for _, d in moving] + ([] if tensor.lane_dim is None else [tensor.lane_dim])
    return Walk(tensor.lane_dim, tuple(order), (0,) * len(extents), (), 1, 0, 0)
