"""Ops that the hardware does not have: steps of ours, from what their record says."""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.extensions.description import Description
from openspyre.artifact.superdsc import SuperDsc
from openspyre.backend.extensions.lowering import template
from openspyre.backend.superdsc.instance import Locate
from openspyre.program.model import Operand, OperandKind, Step
from openspyre.program.reach import itemsize


def lower_extension(op: SuperDsc, description: Description, locate: Locate) -> Step:
    """The step of an extension op, each tensor where its first core begins."""
    step = template(description, repr(description.attributes))
    places = [locate(tensor.starts[0]) for tensor in op.tensors]

    def bound(operand: Operand) -> Operand:
        if operand.kind is OperandKind.IOTA:
            return operand
        place = places[operand.symbol]
        bytes_each = itemsize(operand.data_format)
        return replace(operand, symbol=place.parameter or 0, offset=place.byte // bytes_each)

    return replace(
        step,
        name=op.name,
        inputs=tuple(bound(operand) for operand in step.inputs),
        outputs=tuple(bound(operand) for operand in step.outputs),
    )
