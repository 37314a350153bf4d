"""Reduction rows: some dims are folded, ascending, lanes in halves (contract N6)."""

from __future__ import annotations

from openspyre.spec.ops.expression import Lane, Value, call, to_bool, to_float
from openspyre.spec.ops.row import Fold, Kind, Promotion, Row, Samples


def _row(name: str, summary: str, fold: Fold, **fields) -> Row:  # type: ignore[no-untyped-def]
    fields.setdefault("artifact", name)
    fields.setdefault("inductor", (name,))
    return Row(name=name, kind=Kind.REDUCTION, summary=summary, fold=fold, **fields)


def _mean(total: Value, share: Value) -> Value:
    return to_float(total) * share


def _root(total: Value) -> Value:
    return call("sqrt", total)


REDUCTIONS: tuple[Row, ...] = (
    _row("sum", "sum along dims", Fold.SUM, documented=True, promotion=Promotion.SUM,
         aten=("sum", "sum.dim_IntList", "sum.IntList_out")),
    _row("mean", "mean along dims", Fold.SUM, documented=True, promotion=Promotion.INT_TO_FLOAT, finish=_mean, integers=False,
         aten=("mean", "mean.dim", "mean.out")),
    _row("amax", "largest along dims", Fold.MAX, artifact="max", documented=True, aten=("amax", "amax.out", "max"), inductor=("max",)),
    _row("amin", "smallest along dims", Fold.MIN, artifact="min", documented=True, aten=("amin", "amin.out", "min"), inductor=("min",)),
    _row("prod", "product along dims", Fold.PROD, promotion=Promotion.SUM, samples=Samples(low=0.5, high=1.5),
         aten=("prod", "prod.dim_int", "prod.int_out")),
    _row("any", "whether any holds", Fold.ANY, promotion=Promotion.BOOL, body=lambda x: to_bool(x),
         aten=("any", "any.dim", "any.dims", "any.out", "any.dims_out", "any.all_out")),
    _row("all", "whether all hold", Fold.ALL, promotion=Promotion.BOOL, body=lambda x: to_bool(x),
         aten=("all", "all.dim", "all.dims", "all.out", "all.dims_out", "all.all_out")),
    _row("absmax", "largest magnitude along dims", Fold.MAX, documented=True, aten=(), inductor=(),
         body=lambda x: call("abs", x) if x.lane is Lane.FLOAT else call("abs_i", x)),
    _row("norm2", "square root of the sum of squares", Fold.SUM, body=lambda x: to_float(x) * to_float(x), finish=_root,
         aten=(), inductor=(), integers=False, ulps=2),
    _row("argmax", "where the largest is, the first of equals", Fold.ARG_MAX, aten=("argmax", "argmax.out")),
    _row("argmin", "where the smallest is, the first of equals", Fold.ARG_MIN, aten=("argmin", "argmin.out")),
)  # fmt: skip
