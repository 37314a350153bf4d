"""Contraction rows: sums of products on the matrix unit (contract N5).

Dims of such an op, in order: batch dims, m, n, k (reduced). The first operand runs along k in its sticks, the
second along n or, at some cost, along k, the result along n.
"""

from openspyre.spec.ops.row import Fold, Kind, Precision, Row, Unit

CONTRACTIONS: tuple[Row, ...] = (
    Row(
        "batchmatmul",
        Kind.CONTRACTION,
        "out[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]",
        artifact="batchmatmul",
        documented=True,
        unit=Unit.PT,
        aten=(
            "mm",
            "bmm",
            "addmm",
            "baddbmm",
            "mv",
            "addmv",
            "dot",
            "mm.out",
            "bmm.out",
            "addmm.out",
            "baddbmm.out",
            "addmv.out",
            "convolution",
        ),
        operands=2,
        fixed=(("beta", 0), ("beta", 1), ("alpha", 1)),  # numbers of addmm that spare an op
        integers=False,
    ),
    Row(
        "sum_of_products",
        Kind.REDUCTION,
        "sum along dims of a * b: a product with a vector, for which the matrix unit would be idle but for one column, "
        "and products of integers, which it does not know",
        artifact="openspyre.sum_of_products",
        operands=2,
        composite=Precision.FP32,
        body=lambda a, b: a * b,
        fold=Fold.SUM,
    ),
)
