"""Scatters: rows into a target, or elements one by one into a flat one."""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.extensions.description import Description, Lanes, Tensor
from openspyre.backend.extensions.flat import flat_step
from openspyre.backend.extensions.operands import loops_of
from openspyre.program.model import Operand, Step, StepKind
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
    """One point per element, one element per point; the dim of the index is no loop."""
    step = flat_step(description)
    inputs, outputs = ([_without_last(o) for o in operands] for operands in (step.inputs, step.outputs))
    along = step.outputs[0].strides[-1]
    return replace(
        step,
        kind=StepKind.SCATTER,
        loops=step.loops[:-1],
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        index_stride=along,
    )


def _without_last(operand: Operand) -> Operand:
    return replace(operand, strides=operand.strides[:-1])
