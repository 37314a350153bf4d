"""Contraction rows: sums of products on the matrix unit (contract N5).

Dims of such an op, in order: batch dims, m, n, k (reduced). The first operand runs along k in its sticks, the second along n.
"""

from openspyre.spec.ops.row import Kind, Row, Unit

CONTRACTIONS: tuple[Row, ...] = (
    Row(
        "batchmatmul",
        Kind.CONTRACTION,
        "out[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]",
        artifact="batchmatmul",
        documented=True,
        unit=Unit.PT,
        aten=("mm", "bmm", "mm.out", "bmm.out"),
        inductor=("dot",),
        operands=2,
        integers=False,
    ),
)
