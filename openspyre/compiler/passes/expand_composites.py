"""Replaces every composite by the card's ops that it is made of, each of which rounds to its format (contract N4).

Comes before layouts are chosen, so that everything behind it deals with what a card runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from math import prod

from openspyre.compiler.composite import Expansion
from openspyre.compiler.ir import Buffer, Iota, Op, Operand, Program
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
    if row.composite is None or not all(dim.size for dim in op.dims) or not _is_real(op, row):
        return [], [op]
    reduced = [dim for dim in op.dims if dim.reduced]
    along = Along(prod(dim.size for dim in reduced), sum(dim.size > 1 for dim in reduced))
    lanes = [lane_of(operand) for operand in op.inputs]
    results = trace_row(_body(row, len(op.outputs)), along, lanes, dict(op.attributes) if row.kind is Kind.ROWS else {})
    if len(results) < len(op.outputs):
        raise InternalError(f"{op.row!r} has {len(results)} results for {len(op.outputs)} outputs")
    work = Expansion(op, results[0].tracer)
    work.store([value.number for value in results[: len(op.outputs)]])
    return work.buffers, work.ops


def _is_real(op: Op, row: Row) -> bool:
    """The card computes with floats and truth values; what is made of integers is this card's alone. Places are results that may be."""
    places = row.fold in (Fold.ARG_MAX, Fold.ARG_MIN)
    lanes = {lane_of(operand) for operand in (op.inputs if places else (*op.inputs, *op.outputs))}
    return Lane.INT not in lanes and (Lane.FLOAT in lanes or row.promotion is Promotion.BOOL)


def lane_of(operand: Operand) -> Lane:
    dtype = "int32" if isinstance(operand, Iota) else operand.dtype
    return Lane.BOOL if dtype == "bool" else Lane.FLOAT if "float" in dtype else Lane.INT


def _body(row: Row, results: int) -> Body:
    body = row.body if row.kind is Kind.ROWS else _pointwise(row)
    if row.kind is Kind.REDUCTION:
        body = _search(row, results) if row.fold in (Fold.ARG_MAX, Fold.ARG_MIN) else _reduction(row)
    if body is None:
        raise InternalError(f"the op table says no way to compute {row.name!r}")
    if row.composite is not Precision.FP32:
        return body

    def wide(along: Along, *operands: Value, **attributes: object) -> Value | tuple[Value, ...]:
        return body(along, *(widen(o) if o.lane is Lane.FLOAT else o for o in operands), **attributes)

    return wide


def _pointwise(row: Row) -> Body | None:
    body = row.body
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
