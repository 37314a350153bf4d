"""The second and third op of a layer norm: they read what `exx2` left, two values in one stick."""

from __future__ import annotations

from openspyre.backend.superdsc.instance import Instance, Workspace
from openspyre.backend.superdsc.nest import nest_of
from openspyre.backend.superdsc.pointwise import map_over, number
from openspyre.backend.superdsc.reduction import statistics
from openspyre.program.model import Step
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.ops import TABLE
from openspyre.spec.ops.expression import Lane, Value, constant, trace


def lower_scale(instance: Instance, workspace: Workspace) -> list[Step]:
    op = instance.op
    source, target = instance.accesses[op.inputs[0]], instance.accesses[op.outputs[0]]
    eps = op.constant("eps")
    body = TABLE["layernormscale"].body
    if eps is None or body is None:
        raise InvalidArgument(f"{op.name}: constantInfo_ lacks eps")
    nest = nest_of(instance, (source, target), lane=target.tensor.stick)

    def scale(mean: Value, squares: Value) -> Value:
        return body(mean, squares, constant(mean, number(eps), Lane.FLOAT))

    code = trace(scale, (Lane.FLOAT, Lane.FLOAT))
    return [map_over(nest, statistics(nest, source), (nest.operand(target),), code)]


def lower_norm(instance: Instance, workspace: Workspace) -> list[Step]:
    """(x - mean) * scale * weight + bias; the mean is the first value of exx2's stick."""
    op = instance.op
    accesses = tuple(instance.accesses[n] for n in op.inputs)
    target = instance.accesses[op.outputs[0]]
    body = TABLE["layernormnorm"].body
    if len(accesses) != 5 or body is None:
        raise InvalidArgument(f"{op.name}: {len(accesses)} inputs, layernormnorm takes x, mean, scale, weight and bias")
    nest = nest_of(instance, (*accesses, target), lane=target.tensor.stick)
    mean, _ = statistics(nest, accesses[1])
    operands = (nest.operand(accesses[0]), mean, *(nest.operand(access) for access in accesses[2:]))
    code = trace(body, (Lane.FLOAT,) * 5)
    return [map_over(nest, operands, (nest.operand(target),), code)]
