"""A layer norm's three ops: `exx2` leaves mean and mean of squares in one stick, which the other two read."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from openspyre.artifact.superdsc import Constant
from openspyre.compiler import ir
from openspyre.compiler.emit.hardware_form import NoSuchOp
from openspyre.compiler.emit.nest import Nest, mask_value
from openspyre.compiler.emit.operation import Operation
from openspyre.spec.encodings import encode_constant
from openspyre.spec.formats import DataFormats

if TYPE_CHECKING:
    from openspyre.compiler.emit.lowering import Lowering


def moments(lowering: Lowering, op: ir.Op) -> Operation:
    source, mean, square = op.inputs[0], op.outputs[0], op.outputs[1]
    if not isinstance(source, ir.Access) or square != replace(mean, offset=mean.offset + 1):
        raise NoSuchOp("its two results do not lie side by side in a stick")
    nest = Nest(lowering, op, [source], mean, lane_size=2)
    if nest.lane is None or not op.dims[nest.kept[nest.lane]].reduced:
        raise NoSuchOp("exx2 of the hardware runs along the sticks")
    share = encode_constant(1 / prod(dim.size for dim in op.dims if dim.reduced), DataFormats.IEEE_FP32)
    masked = (nest.lane,) if nest.is_padded(nest.lane) else ()
    return Operation(
        op="exx2",
        dims=nest.extents,
        lane=nest.lane,
        inputs=(nest.operand(source),),
        targets=(nest.operand(mean),),
        constants=(
            Constant("exx2scale", DataFormats.IEEE_FP32, share),
            Constant("useZeroMean", DataFormats.IEEE_FP32, 0),
            *((mask_value(0.0, lowering.format(source)),) if masked else ()),
        ),
        masked=masked,
        accumulates=True,
    )


def norm_scale(lowering: Lowering, op: ir.Op) -> Operation:
    mean, square, eps, target = op.inputs[0], op.inputs[1], op.inputs[2], op.outputs[0]
    if not isinstance(mean, ir.Access) or square != replace(mean, offset=mean.offset + 1):
        raise NoSuchOp("its two statistics do not lie side by side in a stick")
    if not isinstance(eps, ir.Constant):
        raise NoSuchOp("eps is known at launch, layernormscale of the hardware has it as a constant")
    nest = Nest(lowering, op, [mean], target)
    form = DataFormats.IEEE_FP32
    return Operation(
        op="layernormscale",
        dims=nest.extents,
        lane=nest.lane,
        inputs=(replace(nest.operand(mean), one_lane=True),),
        targets=(nest.operand(target),),
        constants=(Constant("eps", form, encode_constant(eps.value, form)),),
    )


def norm(lowering: Lowering, op: ir.Op) -> Operation:
    target = op.outputs[0]
    nest = Nest(lowering, op, [operand for operand in op.inputs if isinstance(operand, ir.Access)], target)
    form = lowering.format(target)
    inputs = tuple(lowering.operand(nest, operand, form) for operand in op.inputs)
    return Operation("layernormnorm", nest.extents, nest.lane, inputs, (nest.operand(target),))
