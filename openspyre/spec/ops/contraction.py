"""Contraction rows: sums of products on the matrix unit (contract N5).

Dims of such an op, in order: batch dims, m, n, k (reduced). The first operand runs along k in its sticks, the
second along n or, at some cost, along k, the result along n.
"""

from openspyre.spec.ops.expression import Value, select
from openspyre.spec.ops.row import Fold, Kind, Row, Unit


def _add_product(a: Value, product: Value, beta: Value, alpha: Value) -> Value:
    """Where beta is 0, a is not looked at, as in torch: its NaN does not count."""
    return select(beta.equals(0.0), 0.0, beta * a) + alpha * product


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
        inductor=("dot",),
        operands=2,
        integers=False,
    ),
    Row(
        "sum_of_products",
        Kind.REDUCTION,
        "sum along dims of a * b: a product with a vector, for which the matrix unit would be idle but for one column, "
        "and products of integers, which it does not know",
        artifact="openspyre.sum_of_products",
        operands=2,
        body=lambda a, b: a * b,
        fold=Fold.SUM,
    ),
    Row(
        "add_product",
        Kind.POINTWISE,
        "beta * a + alpha * product",
        artifact="openspyre.add_product",
        operands=2,
        scalars=("beta", "alpha"),
        constants=("beta", "alpha"),
        body=_add_product,
        integers=False,
    ),
)
