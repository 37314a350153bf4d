"""Scaled dot-product attention: a contraction, this row, a contraction, in one program.

The contractions are rounded to the tensors' format; from the scores to the weights everything is fp32 (contract N4).
"""

from __future__ import annotations

from openspyre.spec.ops.expression import Lane, Value, select, to_float
from openspyre.spec.ops.row import Kind, Row
from openspyre.spec.ops.row_expression import Along
from openspyre.spec.ops.rows import safe_softmax

_MINUS_INFINITY = float("-inf")


def _weights(along: Along, scores: Value, *masks: Value, scale: float) -> Value:
    """softmax(scores * scale + mask) along the keys; a query that may look at none gets weights of 0.

    A mask adds to the scores, or tells by truth values what may be looked at, or is the distance from query to key, of which
    only those behind count (causal).
    """
    x = to_float(scores) * scale
    for mask in masks:
        match mask.lane:
            case Lane.FLOAT:
                x = x + mask
            case Lane.BOOL:
                x = select(mask, x, _MINUS_INFINITY)
            case Lane.INT:
                x = select(mask <= 0, x, _MINUS_INFINITY)
    return safe_softmax(along, x)


ATTENTION: tuple[Row, ...] = (
    Row(
        "attention_weights",
        Kind.ROWS,
        "softmax(scores * scale + mask) along the keys, 0 where all are masked; with two contractions: attention",
        artifact="openspyre.attention_weights",
        aten=("_scaled_dot_product_fused_attention_overrideable",),
        body=_weights,
        integers=False,
    ),
)
