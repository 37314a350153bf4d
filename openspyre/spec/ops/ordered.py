"""Rows along which the order of elements matters: running sums and products, sorted rows.

Operands lie in flat buffers, row behind row. Dims of such an op: the rows, the elements of one, and for sorted rows those kept.
"""

from openspyre.spec.ops.row import Fold, Kind, Promotion, Row, Samples

ORDERED: tuple[Row, ...] = (
    Row("cumsum", Kind.SCAN, "sum of all elements up to each, along a dim", artifact="openspyre.cumsum", fold=Fold.SUM,
        promotion=Promotion.SUM, by_element=True, aten=("cumsum", "cumsum_", "cumsum.out")),
    Row("cumprod", Kind.SCAN, "product of all elements up to each, along a dim", artifact="openspyre.cumprod", fold=Fold.PROD,
        promotion=Promotion.SUM, by_element=True, samples=Samples(low=0.5, high=1.5),
        aten=("cumprod", "cumprod_", "cumprod.out")),
    Row("largest_first", Kind.SORT, "rows sorted downwards: the first elements and where they were",
        artifact="openspyre.largest_first", fold=Fold.MAX, by_element=True, aten=("topk", "sort", "sort.stable")),
    Row("smallest_first", Kind.SORT, "rows sorted upwards: the first elements and where they were",
        artifact="openspyre.smallest_first", fold=Fold.MIN, by_element=True, aten=("topk", "sort", "sort.stable")),
    Row("topkvalue", Kind.SEARCH, "the k largest along a dim, the largest first", artifact="topkvalue", documented=True,
        fold=Fold.MAX, integers=False),
    Row("topkindex", Kind.SEARCH, "where the k largest along a dim are", artifact="topkindex", documented=True,
        fold=Fold.ARG_MAX, integers=False),
)  # fmt: skip
