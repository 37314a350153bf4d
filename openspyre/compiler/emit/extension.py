"""An op that the hardware does not have: documented fields as far as they can say it, and one record of ours for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.model import Description, Lanes, ScalarSlot, Tensor
from openspyre.artifact.superdsc import SuperDsc
from openspyre.compiler import ir
from openspyre.compiler.emit.description import describe
from openspyre.compiler.emit.lowering import Lowering
from openspyre.compiler.emit.operation import Extent, Operand, Operation, superdsc_of
from openspyre.compiler.emit.walk import Walk, walk_of
from openspyre.compiler.sticks import Lanes as Sticks
from openspyre.compiler.sticks import StickAccess
from openspyre.spec.formats import require_supported
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE


def extension_op(
    op: ir.Op, buffers: Mapping[str, ir.Buffer], lowering: Lowering, symbol: Callable[[Address], int]
) -> SuperDsc:
    described, places = describe(op, buffers)
    dims = len(described.dims)
    inputs = tuple(_number(o, dims) if isinstance(o, ScalarSlot) else o for o in described.inputs)
    description = replace(described, inputs=inputs)
    from_begin = TABLE[description.row].by_view  # views have their offset in themselves
    bases = iter(lowering.place(place.buffer) + (0 if from_begin else place.byte) for place in places)
    numbers = iter([operand for operand in op.inputs if isinstance(operand, ir.Scalar)])
    extents = tuple(_extent(description, index) for index in range(dims))
    operands = []
    given = {id(new) for new, old in zip(inputs, described.inputs, strict=True) if isinstance(old, ScalarSlot)}
    for tensor in description.tensors:
        if id(tensor) in given:
            form = tensor.layout.device_dtype
            operands.append(Operand(form, lowering.number(next(numbers), form)))
        else:
            operands.append(Operand(tensor.format, next(bases), _walk(tensor, extents)))
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


def _number(slot: ScalarSlot, dims: int) -> Tensor:
    form = require_supported(slot.dtype).device
    layout = SpyreTensorLayout([1, form.elems_per_stick()], [-1, -1], form)
    return Tensor(slot.dtype, layout, Lanes.SPLAT, None, (0,) * dims)


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
