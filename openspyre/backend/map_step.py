"""Pointwise ops: the row's expression over every element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from openspyre.artifact.model import Description
from openspyre.backend.operands import lane_of, register_of
from openspyre.program.model import Step, StepKind
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE
from openspyre.spec.ops.expression import Code, Value, convert, trace

Body = Callable[..., Value | tuple[Value, ...]]


def lower(description: Description, step: Step) -> Step:
    body = TABLE[description.row].body
    if body is None:
        raise InternalError(f"the op table says no way to compute {description.row!r}")
    code = code_of(storing(body, description), description)
    return replace(step, kind=StepKind.MAP, code=code)


def code_of(body: Body, description: Description) -> Code:
    """Code from the op's operands as they are loaded, each first made what the expression expects."""
    lanes = tuple(lane_of(operand) for operand in description.inputs)

    def loading(*values: Value) -> Value | tuple[Value, ...]:
        return body(*(convert(value, lane) for value, lane in zip(values, lanes, strict=True)))

    return trace(loading, tuple(register_of(operand) for operand in description.inputs))


def storing(body: Body, description: Description) -> Body:
    """The same expression with its results made what the outputs' formats are written from."""
    lanes = tuple(lane_of(output) for output in description.outputs)

    def stored(*values: Value) -> tuple[Value, ...]:
        returned = body(*values)
        results = returned if isinstance(returned, tuple) else (returned,)
        return tuple(convert(value, lane) for value, lane in zip(results, lanes, strict=True))

    return stored
