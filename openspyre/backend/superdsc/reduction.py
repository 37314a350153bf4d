"""Reductions of the card: a fold over the dims that the result lacks. The result is listed among the inputs and not read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from openspyre.backend.superdsc.instance import Access, Instance, Workspace
from openspyre.backend.superdsc.nest import Nest, nest_of
from openspyre.backend.superdsc.pointwise import Masked, fold_over, number, reduced_labels
from openspyre.program.model import Operand, Reduce, Step
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.ops.expression import Lane, Value, constant, convert, trace
from openspyre.spec.ops.row import Fold, Row

_Body = Callable[[Value], Value]


def lower_reduction(instance: Instance, workspace: Workspace, row: Row) -> list[Step]:
    op = instance.op
    nest, source, target = _nest(instance)
    factor = op.constant("scaling_factor")

    def finish(total: Value) -> Value:
        scaled = total * constant(total, number(factor), Lane.FLOAT) if factor is not None else total
        return convert(scaled, Lane.FLOAT)

    body = row.body or (lambda x: x)
    assert row.fold is not None
    return [_fold(nest, nest.operand(source), nest.operand(target), row.fold, body, finish)]


def lower_exx2(instance: Instance, workspace: Workspace) -> list[Step]:
    """Mean and mean of squares along the stick: lanes 0 and 1 of the result's stick, in the result's format."""
    op = instance.op
    nest, source, target = _nest(instance)
    scale = op.constant("exx2scale")
    zero = op.constant("useZeroMean")
    if scale is None:
        raise InvalidArgument(f"{op.name}: constantInfo_ lacks exx2scale")
    share = number(scale)
    zero_mean = zero is not None and number(zero) != 0.0

    def finish(total: Value) -> Value:
        return total * constant(total, share, Lane.FLOAT)

    mean, squares = statistics(nest, target)
    first = (lambda x: x * 0.0) if zero_mean else (lambda x: x)
    read = nest.operand(source)
    return [
        _fold(nest, read, mean, Fold.SUM, first, finish),
        _fold(nest, read, squares, Fold.SUM, lambda x: x * x, finish),
    ]


def statistics(nest: Nest, access: Access) -> tuple[Operand, Operand]:
    """The two values that exx2 leaves in a stick."""
    mean = nest.operand(access)
    return mean, replace(mean, offset=mean.offset + 1)


def _nest(instance: Instance) -> tuple[Nest, Access, Access]:
    op = instance.op
    source, target = instance.accesses[op.inputs[0]], instance.accesses[op.outputs[0]]
    reduced = reduced_labels(op, target)
    return nest_of(instance, (source, target), reduced, lane=source.tensor.stick), source, target


def _fold(nest: Nest, read: Operand, written: Operand, combine: Fold, body: _Body, finish: _Body) -> Reduce:
    masked = Masked(nest)

    def masked_body(x: Value, *counters: Value) -> Value:
        return body(masked(x, counters))

    code = trace(masked_body, (Lane.FLOAT, *(Lane.INT,) * len(masked.counters)))
    after = trace(lambda total, index: finish(total), (Lane.FLOAT, Lane.INT))
    return fold_over(nest, (read, *masked.counters), (written,), code, combine, after)
