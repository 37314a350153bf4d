"""Creation rows: elements from the launch's numbers and from their own places (iota operands)."""

from __future__ import annotations

from openspyre.spec.ops.expression import Lane, Value, call, select, to_float, to_int
from openspyre.spec.ops.row import Kind, Row


def _row(name: str, summary: str, body, **fields) -> Row:  # type: ignore[no-untyped-def]
    return Row(
        name=name,
        kind=Kind.CREATION,
        summary=summary,
        artifact=fields.pop("artifact", f"openspyre.{name}"),
        body=body,
        **fields,
    )


def _arange(place: Value, start: Value, step: Value) -> Value:
    """One rounding: start + place * step."""
    if start.lane is Lane.FLOAT or step.lane is Lane.FLOAT:
        return call("fma", to_float(place), to_float(step), to_float(start))
    return to_int(place) * step + start


def _linspace(place: Value, back: Value, last: Value, start: Value, end: Value) -> Value:
    step = (end - start) / to_float(last)
    forwards = call("fma", to_float(place), step, start)
    return select(place < back, forwards, call("fma", -to_float(back), step, end))


def _causal(apart: Value) -> Value:
    return select(apart <= 0, 0.0, float("-inf"))


def _masked(keep: Value, x: Value) -> Value:
    return select(keep, x, 0)


CREATION: tuple[Row, ...] = (
    _row("fill", "the same number everywhere", lambda value: value, operands=0, scalars=("value",), artifact="constant", as_given=True,
         aten=("fill_.Scalar", "fill_.Tensor")),
    _row("iota", "an integer that follows from the place; zeros where it does not", lambda place: place, as_given=True, aten=("zero_",)),
    _row("linspace", "evenly from start to end, each half from its own side", _linspace, operands=3, scalars=("start", "end"),
         integers=False, aten=("linspace.out",)),
    _row("arange", "start + place * step", _arange, scalars=("start", "step"), aten=("arange.start_out",)),
    _row("eye", "ones where row and column agree", lambda apart: apart.equals(0), aten=("eye.m_out", "eye.out")),
    _row("causal_mask", "0 up to a query's own place, -inf behind it; `apart` is key - query", _causal, integers=False),
    _row("tril", "the lower triangle; `apart` is column - row", lambda x, apart, diagonal: _masked(apart <= diagonal, x), operands=2,
         kept_where="le", scalars=("diagonal",), aten=("tril", "tril_", "tril.out")),
    _row("triu", "the upper triangle; `apart` is column - row", lambda x, apart, diagonal: _masked(apart >= diagonal, x), operands=2,
         kept_where="ge", scalars=("diagonal",), aten=("triu", "triu_", "triu.out")),
)  # fmt: skip
