"""Expressions over whole rows: what the op table says of a normalisation.

A body is an expression with folds inside, `e = exp(x - along.max(x)); e / along.sum(e)`; a fold's result is one value per row.
Everything in between is fp32 (contract N4).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from openspyre.spec.ops.expression import Lane, Value, convert, to_float, trace
from openspyre.spec.ops.row import Fold

FOLDS: dict[str, Fold] = {f"fold.{fold.value}": fold for fold in (Fold.SUM, Fold.PROD, Fold.MAX, Fold.MIN)}


@dataclass(frozen=True, slots=True)
class Along:
    """The row an expression runs along, `length` elements of it: reduced as a reduction of its own would be (contract N6)."""

    length: int

    def sum(self, x: Value) -> Value:
        return _fold(Fold.SUM, x)

    def max(self, x: Value) -> Value:
        return _fold(Fold.MAX, x)

    def min(self, x: Value) -> Value:
        return _fold(Fold.MIN, x)

    def mean(self, x: Value) -> Value:
        """The sum times fp32(1 / length)."""
        (share,) = struct.unpack("<f", struct.pack("<f", 1 / self.length))
        return self.sum(x) * float(share)


def trace_row(
    body: Callable[..., Value | tuple[Value, ...]], length: int, lanes: Sequence[Lane], attributes: Mapping[str, object]
) -> tuple[Value, ...]:
    """The results of a body on symbolic operands; operands come as they are loaded (truth values as 0.0 or 1.0)."""
    found: list[Value] = []

    def capture(*values: Value) -> Value:
        operands = (convert(value, lane) for value, lane in zip(values, lanes, strict=True))
        returned = body(Along(length), *operands, **attributes)
        found.extend(returned if isinstance(returned, tuple) else (returned,))
        return values[0]

    trace(capture, tuple(Lane.FLOAT if lane is Lane.BOOL else lane for lane in lanes))
    return tuple(found)


def _fold(fold: Fold, x: Value) -> Value:
    x = to_float(x)
    return x.tracer.emit(f"fold.{fold.value}", (x,), Lane.FLOAT)
