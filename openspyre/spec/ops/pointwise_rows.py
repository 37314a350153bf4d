"""How pointwise rows are written down, and the expressions several of them share."""

from __future__ import annotations

from openspyre.spec.ops.expression import Lane, Value, call, to_bool, to_float, to_int
from openspyre.spec.ops.row import Kind, OnTruths, Promotion, Row, Samples

POSITIVE = Samples(low=0.01, high=8.0)
NONZERO = Samples(nonzero=True)
UNIT = Samples(low=-1.0, high=1.0)
TRUTH_AND, TRUTH_OR, TRUTH_XOR, TRUTH_NOT = (
    OnTruths("mul"),
    OnTruths("maximum"),
    OnTruths("notequal"),
    OnTruths("equal", (0.0,)),
)


def pointwise(name: str, summary: str, body, **fields) -> Row:  # type: ignore[no-untyped-def]
    """A row whose artifact and aten names are its own unless told otherwise."""
    fields.setdefault("artifact", name)
    fields.setdefault("aten", (name,))
    return Row(name=name, kind=Kind.POINTWISE, summary=summary, body=body, **fields)


def function(name: str, summary: str, samples: Samples | None = None, **fields) -> Row:  # type: ignore[no-untyped-def]
    """A function of one fp32 value that is a primitive of the vector unit."""
    return pointwise(
        name,
        summary,
        lambda x: call(name, to_float(x)),
        promotion=Promotion.INT_TO_FLOAT,
        samples=samples or Samples(),
        **fields,
    )


def minimum(a: Value, b: Value) -> Value:
    return a._both(b, "min", "min_i")


def maximum(a: Value, b: Value) -> Value:
    return a._both(b, "max", "max_i")


def clamp(x: Value, low: Value, high: Value) -> Value:
    return minimum(maximum(x, low), high)


def plus_product(a: Value, b: Value, c: Value) -> Value:
    """a + b * c; of floats, rounded once."""
    if Lane.FLOAT not in (a.lane, b.lane, c.lane):
        return a + b * c
    return call("fma", to_float(b), to_float(c), to_float(a))


def both(a: Value, b: Value) -> Value:
    """Whether two predicates hold."""
    return to_bool(call("and", to_int(a), to_int(b)))


def either(a: Value, b: Value) -> Value:
    return to_bool(call("or", to_int(a), to_int(b)))
