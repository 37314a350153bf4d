"""Scaled dot-product attention: queries and keys scaled, a contraction, this row, a contraction, in one program."""

from __future__ import annotations

from openspyre.spec.ops.expression import Lane, Value, select, to_float
from openspyre.spec.ops.row import Kind, Precision, Row
from openspyre.spec.ops.row_expression import Along
from openspyre.spec.ops.rows import safe_softmax

_MINUS_INFINITY = float("-inf")


def _weights(along: Along, scores: Value, *masks: Value) -> Value:
    """softmax(scores + mask) along the keys; a query that may look at none gets weights of 0.

    A mask adds to the scores, or tells by truth values what may be looked at.
    """
    x = to_float(scores)
    for mask in masks:
        x = select(mask, x, _MINUS_INFINITY) if mask.lane is Lane.BOOL else x + mask
    return safe_softmax(along, x)


ATTENTION: tuple[Row, ...] = (
    Row(
        "attention_weights",
        Kind.ROWS,
        "softmax(scores + mask) along the keys, 0 where all are masked; with two contractions: attention",
        artifact="openspyre.attention_weights",
        composite=Precision.OWN,
        aten=("_scaled_dot_product_fused_attention_overrideable",),
        body=_weights,
        integers=False,
    ),
)
