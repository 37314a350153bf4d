"""Expressions over whole rows: what the op table says of a composite.

A body is an expression with folds inside, `e = exp(x - along.max(x)); e / along.sum(e)`; a fold's result is one value per row.
Each primitive and each fold becomes an op of the card that rounds to its format (contract N4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from openspyre.spec.ops.expression import Lane, Value, constant, convert, to_bool, to_float, trace
from openspyre.spec.ops.row import Fold

FOLD, ROW, WIDEN, NARROW = "fold.", "row.", "widen", "narrow"
MOMENTS = (f"{FOLD}mean_of_exx2", f"{FOLD}square_of_exx2")


@dataclass(frozen=True, slots=True)
class Along:
    """The row an expression runs along: `length` elements of it, in `dims` dims."""

    length: int
    dims: int = 1

    def fold(self, fold: Fold, x: Value) -> Value:
        if fold in (Fold.ANY, Fold.ALL):
            return x.tracer.emit(FOLD + fold.value, (to_bool(x),), Lane.BOOL)
        return _fold(fold.value, x)

    def sum(self, x: Value) -> Value:
        return _fold("sum", x)

    def max(self, x: Value) -> Value:
        return _fold("max", x)

    def mean(self, x: Value) -> Value:
        """The sum times fp32(1 / length)."""
        return _fold("mean", x)

    def arg_max(self, x: Value) -> Value:
        """Where the largest is, the first of equals."""
        return x.tracer.emit(FOLD + Fold.ARG_MAX.value, (to_float(x),), Lane.INT)

    def moments(self, x: Value) -> tuple[Value, Value]:
        """Mean and mean of squares: the hardware's `exx2`. Both are fp32."""
        first, second = (x.tracer.emit(opcode, (to_float(x),), Lane.FLOAT) for opcode in MOMENTS)
        return first, second


def row(name: str, *operands: Value | float) -> Value:
    """The result of another row of the table."""
    anchor = next(operand for operand in operands if isinstance(operand, Value))
    lifted = tuple(o if isinstance(o, Value) else constant(anchor, float(o), Lane.FLOAT) for o in operands)
    return anchor.tracer.emit(ROW + name, lifted, Lane.FLOAT)


def widen(x: Value) -> Value:
    """x in fp32: what is computed of it is fp32, too."""
    return x.tracer.emit(WIDEN, (to_float(x),), Lane.FLOAT)


def narrow(x: Value) -> Value:
    """x rounded to 16 bits: the next op computes in them."""
    return x.tracer.emit(NARROW, (to_float(x),), Lane.FLOAT)


def trace_row(
    body: Callable[..., Value | tuple[Value, ...]],
    along: Along,
    lanes: Sequence[Lane],
    attributes: Mapping[str, object],
) -> tuple[Value, ...]:
    """The results of a body on symbolic operands; operands come as they are loaded (truth values as 0.0 or 1.0)."""
    found: list[Value] = []

    def capture(*values: Value) -> Value:
        operands = (convert(value, lane) for value, lane in zip(values, lanes, strict=True))
        returned = body(along, *operands, **attributes)
        found.extend(returned if isinstance(returned, tuple) else (returned,))
        return values[0]

    trace(capture, tuple(Lane.FLOAT if lane is Lane.BOOL else lane for lane in lanes))
    return tuple(found)


def _fold(name: str, x: Value) -> Value:
    x = to_float(x)
    return x.tracer.emit(FOLD + name, (x,), Lane.FLOAT)
