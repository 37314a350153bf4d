"""Replaces every composite by the card's ops that it is made of, each of which rounds to its format (contract N4).

Comes before layouts are chosen, so that everything behind it deals with what a card runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from math import prod

from openspyre.compiler.composite import SLIM, Expansion
from openspyre.compiler.ir import Access, Buffer, Constant, Iota, Op, Operand, Program, Role, Scalar
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE, Fold, Kind, Precision, Promotion, Row
from openspyre.spec.ops.expression import Lane, Value, constant
from openspyre.spec.ops.row_expression import Along, trace_row, widen

Body = Callable[..., Value | tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class ExpandComposites:
    """No options."""

    def run(self, program: Program) -> Program:
        buffers, ops = list(program.buffers), list[Op]()
        for op in program.ops:
            made = expanded(op)
            buffers += made[0]
            ops += made[1]
        return replace(program, buffers=tuple(buffers), body=tuple(ops))


def expanded(op: Op) -> tuple[list[Buffer], list[Op]]:
    """The temps and ops that an op is made of; the op itself if it is one of the card's."""
    row = TABLE[op.row]
    if row.kept_where is not None:
        return _triangle(op, row.kept_where)
    precision = row.composite or (Precision.FP32 if row.widened is not None and _is_narrow(op) else None)
    if precision is None or not all(dim.size for dim in op.dims) or not _is_real(op, row) or _has_constants(op, row):
        return [], [op]
    reduced = [dim for dim in op.dims if dim.reduced]
    along = Along(prod(dim.size for dim in reduced), sum(dim.size > 1 for dim in reduced))
    lanes = [lane_of(operand) for operand in op.inputs]
    results = trace_row(_body(row, len(op.outputs)), along, lanes, dict(op.attributes) if row.kind is Kind.ROWS else {})
    if len(results) < len(op.outputs):
        raise InternalError(f"{op.row!r} has {len(results)} results for {len(op.outputs)} outputs")
    work = Expansion(op, results[0].tracer, precision)
    work.store([value.number for value in results[: len(op.outputs)]])
    return work.buffers, work.ops


def _triangle(op: Op, kept_where: str) -> tuple[list[Buffer], list[Op]]:
    """With a diagonal known now, the mask is a constant: x where it holds, else 0."""
    x, apart, diagonal = op.inputs
    known = isinstance(diagonal, Scalar) and diagonal.word is not None
    if not known or not isinstance(x, Access) or not isinstance(apart, Iota) or "int" in x.dtype:
        return [], [op]
    moving = [d for d, stride in enumerate(apart.strides) if stride]
    size = tuple(op.dims[d].size for d in moving)
    mask = Buffer(f"{op.name}.mask", "bool", size, row_major(size), Role.TEMP)
    along = dict(zip(moving, mask.stride, strict=True))
    count = replace(apart, strides=tuple(apart.strides[d] for d in moving))
    made = Access(mask.name, 0, mask.stride, "bool")
    read = replace(made, strides=tuple(along.get(d, 0) for d in range(len(op.dims))))
    dims = tuple(op.dims[d] for d in moving)
    origin = op.origin.changed("decomposition", "ExpandComposites", "a mask, and what it lets through")
    compare = Op(mask.name, kept_where, dims, (count, diagonal), (made,), origin=origin, hints=op.hints)
    if x.dtype == "bool":
        return [mask], [compare, replace(op, row="bitwise_and", inputs=(x, read), origin=origin)]
    kept = replace(op, row="where", inputs=(read, x, Constant.of(0.0, x.dtype)), origin=origin)
    return [mask], [compare, kept]


def _is_real(op: Op, row: Row) -> bool:
    """The card computes with floats and truth values; what is made of integers is this card's alone. Places are results that may be."""
    places = row.fold in (Fold.ARG_MAX, Fold.ARG_MIN)
    lanes = {lane_of(operand) for operand in (op.inputs if places else (*op.inputs, *op.outputs))}
    return Lane.INT not in lanes and (Lane.FLOAT in lanes or row.promotion is Promotion.BOOL)


def _has_constants(op: Op, row: Row) -> bool:
    """Whether the card has the op itself, with numbers that are known now as its constants."""
    numbers = [o for o in op.inputs[1:] if isinstance(o, Constant) or (isinstance(o, Scalar) and o.word is not None)]
    return 0 < len(row.constants) == len(numbers) == len(op.inputs) - 1 and {a.dtype for a in op.accesses} <= {
        SLIM,
        "bfloat16",
    }


def _is_narrow(op: Op) -> bool:
    return not any(access.dtype == "float32" for access in op.accesses)


def lane_of(operand: Operand) -> Lane:
    dtype = "int32" if isinstance(operand, Iota) else operand.dtype
    return Lane.BOOL if dtype == "bool" else Lane.FLOAT if "float" in dtype else Lane.INT


def _body(row: Row, results: int) -> Body:
    body = row.body if row.kind is Kind.ROWS else _pointwise(row)
    if row.kind is Kind.REDUCTION:
        body = _search(row, results) if row.fold in (Fold.ARG_MAX, Fold.ARG_MIN) else _reduction(row)
    if body is None:
        raise InternalError(f"the op table says no way to compute {row.name!r}")
    if row.composite is not Precision.FP32 and row.widened is None:
        return body

    def wide(along: Along, *operands: Value, **attributes: object) -> Value | tuple[Value, ...]:
        return body(along, *(widen(o) if o.lane is Lane.FLOAT else o for o in operands), **attributes)

    return wide


def _pointwise(row: Row) -> Body | None:
    body = row.widened or row.body
    return None if body is None else lambda along, *operands: body(*operands)


def _search(row: Row, results: int) -> Body:
    """The hardware finds the place of the largest: that of the smallest is the place of the largest of -x."""

    def found(along: Along, x: Value) -> Value | tuple[Value, ...]:
        down = row.fold is Fold.ARG_MAX
        place = along.arg_max(x if down else -x)
        return place if results == 1 else (along.fold(Fold.MAX if down else Fold.MIN, x), place)

    return found


def _reduction(row: Row) -> Body:
    """A map, a fold, a finish, which may take fp32(1 / folded elements) behind the total."""
    first, finish, fold = row.body or (lambda x: x), row.finish, row.fold
    if fold is None:
        raise InternalError(f"the op table says no fold for the reduction {row.name!r}")

    def folded(along: Along, *operands: Value) -> Value:
        total = along.fold(fold, first(*operands[: row.operands]))
        if finish is None:
            return total
        share = (constant(total, 1 / along.length, Lane.FLOAT),) if len(signature(finish).parameters) > 1 else ()
        return finish(total, *share, *operands[row.operands :])

    return folded
