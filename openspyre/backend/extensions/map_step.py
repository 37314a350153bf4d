"""Pointwise ops: the row's expression over every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from openspyre.artifact.extensions.description import Constant, Description, Operand
from openspyre.backend.extensions.operands import lane_of, nest_of, register_of
from openspyre.program.model import Map
from openspyre.spec.encodings import float_of
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE
from openspyre.spec.ops.expression import Code, Lane, Value, constant, convert, trace

Body = Callable[..., Value | tuple[Value, ...]]


def lower(description: Description) -> Map:
    body = TABLE[description.row].body
    if body is None:
        raise InternalError(f"the op table says no way to compute {description.row!r}")
    return Map(*nest_of(description).head, code_of(storing(body, description), description))


def code_of(body: Body, description: Description) -> Code:
    """Code from the op's operands as they are loaded, each first made what the expression expects."""
    loaded = [operand for operand in description.inputs if not isinstance(operand, Constant)]
    if not loaded:
        raise InternalError(f"{description.row!r} has nothing but constants to compute with")

    def loading(*values: Value) -> Value | tuple[Value, ...]:
        given = iter(values)
        return body(*(_given(operand, values[0], given) for operand in description.inputs))

    return trace(loading, tuple(register_of(operand) for operand in loaded))


def _given(operand: Operand, any_value: Value, loaded: Iterator[Value]) -> Value:
    if isinstance(operand, Constant):
        return constant(any_value, float_of(operand.bits), Lane.FLOAT)
    return convert(next(loaded), lane_of(operand))


def storing(body: Body, description: Description) -> Body:
    """The same expression with its results made what the outputs' formats are written from."""
    lanes = tuple(lane_of(output) for output in description.outputs)

    def stored(*values: Value) -> tuple[Value, ...]:
        returned = body(*values)
        results = returned if isinstance(returned, tuple) else (returned,)
        return tuple(convert(value, lane) for value, lane in zip(results, lanes, strict=True))

    return stored
