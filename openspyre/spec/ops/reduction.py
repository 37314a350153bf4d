"""Reduction rows: some dims are folded, ascending, lanes in halves (contract N6)."""

from __future__ import annotations

from math import nan

from openspyre.spec.ops.expression import Lane, Value, call, select, to_bool, to_float, to_int
from openspyre.spec.ops.row import Fold, Kind, Precision, Promotion, Row, Samples

_OF_NOTHING = {Fold.SUM: 0.0, Fold.PROD: 1.0, Fold.ANY: 0.0, Fold.ALL: 1.0}


def _row(name: str, summary: str, fold: Fold, **fields) -> Row:  # type: ignore[no-untyped-def]
    fields.setdefault("of_nothing", _OF_NOTHING.get(fold))
    fields.setdefault("artifact", name)
    return Row(name=name, kind=Kind.REDUCTION, summary=summary, fold=fold, **fields)


def _mean(total: Value, share: Value) -> Value:
    return to_float(total) * share


def _root(total: Value) -> Value:
    return call("sqrt", total)


def _size(x: Value) -> Value:
    return call("abs", x) if x.lane is Lane.FLOAT else call("abs_i", to_int(x))


def _without_nan(x: Value) -> Value:
    return select(call("is_nan", x), 0.0, x) if x.lane is Lane.FLOAT else x


def _squared_deviation(x: Value, mean: Value) -> Value:
    return (x - mean) * (x - mean)


def _unbiased(total: Value, share: Value) -> Value:
    """The share of one less: 1 / share is the number of elements."""
    return total / (1 / share - 1)


def _norm(name: str, order: float, summary: str, fold: Fold, **fields) -> Row:  # type: ignore[no-untyped-def]
    return _row(name, summary, fold, aten=("linalg_vector_norm", "linalg_vector_norm.out"), integers=False,
                fixed=(("ord", order),), **fields)  # fmt: skip


def _spread(name: str, correction: int, summary: str, aten: tuple[str, ...], finish) -> Row:  # type: ignore[no-untyped-def]
    """The second operand is the mean along the same dims."""
    return _row(name, summary, Fold.SUM, operands=2, body=_squared_deviation, finish=finish, integers=False,
                aten=aten, fixed=(("correction", correction),), of_nothing=nan, ulps=2, composite=Precision.FP32)  # fmt: skip


_VARIANCE = ("var.correction", "var.correction_out", "var_mean.correction")
_DEVIATION = ("std.correction", "std.correction_out", "std_mean.correction")

REDUCTIONS: tuple[Row, ...] = (
    _row("sum", "sum along dims", Fold.SUM, documented=True, promotion=Promotion.SUM,
         aten=("sum", "sum.dim_IntList", "sum.IntList_out")),
    _row("mean", "mean along dims", Fold.SUM, documented=True, promotion=Promotion.INT_TO_FLOAT, finish=_mean, integers=False, of_nothing=nan,
         aten=("mean", "mean.dim", "mean.out")),
    _row("amax", "largest along dims", Fold.MAX, artifact="max", documented=True, aten=("amax", "amax.out", "max")),
    _row("amin", "smallest along dims", Fold.MIN, artifact="min", documented=True, aten=("amin", "amin.out", "min")),
    _row("prod", "product along dims", Fold.PROD, promotion=Promotion.SUM, samples=Samples(low=0.5, high=1.5),
         aten=("prod", "prod.dim_int", "prod.int_out")),
    _row("any", "whether any holds", Fold.ANY, promotion=Promotion.BOOL, body=lambda x: to_bool(x),
         composite=Precision.OWN, aten=("any", "any.dim", "any.dims", "any.out", "any.dims_out", "any.all_out")),
    _row("all", "whether all hold", Fold.ALL, promotion=Promotion.BOOL, body=lambda x: to_bool(x),
         composite=Precision.OWN, aten=("all", "all.dim", "all.dims", "all.out", "all.dims_out", "all.all_out")),
    _row("absmax", "largest magnitude along dims", Fold.MAX, documented=True, body=_size, integers=False,
         aten=("linalg_vector_norm", "linalg_vector_norm.out"), fixed=(("ord", float("inf")),)),
    _norm("absmin", float("-inf"), "smallest magnitude along dims", Fold.MIN, body=_size, composite=Precision.OWN),
    _norm("norm0", 0, "how many are not 0", Fold.SUM, body=lambda x: to_float(to_bool(x)), composite=Precision.FP32),
    _norm("norm1", 1, "sum of magnitudes", Fold.SUM, body=_size, composite=Precision.FP32),
    _norm("norm2", 2, "square root of the sum of squares", Fold.SUM, body=lambda x: x * x, finish=_root, composite=Precision.FP32),
    _row("count_nonzero", "how many are not 0", Fold.SUM, body=lambda x: to_int(to_bool(x)),
         aten=("count_nonzero", "count_nonzero.dim_IntList", "count_nonzero.out", "count_nonzero.dim_IntList_out")),
    _row("nansum", "sum along dims, NaN as 0", Fold.SUM, aten=("nansum", "nansum.out"), promotion=Promotion.SUM,
         body=_without_nan, composite=Precision.OWN),
    _spread("var", 1, "variance along dims", _VARIANCE, _unbiased),
    _spread("var_biased", 0, "mean square deviation along dims", _VARIANCE, _mean),
    _spread("std", 1, "standard deviation along dims", _DEVIATION, lambda total, share: _root(_unbiased(total, share))),
    _spread("std_biased", 0, "root of the mean square deviation", _DEVIATION, lambda total, share: _root(_mean(total, share))),
    _row("argmax", "where the largest is, the first of equals", Fold.ARG_MAX, artifact="topkindex", documented=True, aten=("argmax", "argmax.out")),
    _row("argmin", "where the smallest is, the first of equals", Fold.ARG_MIN, composite=Precision.OWN, aten=("argmin", "argmin.out")),
    _row("max_index", "the largest along a dim, and where it is", Fold.ARG_MAX, composite=Precision.OWN, aten=("max.dim",)),
    _row("min_index", "the smallest along a dim, and where it is", Fold.ARG_MIN, composite=Precision.OWN, aten=("min.dim",)),
)  # fmt: skip
