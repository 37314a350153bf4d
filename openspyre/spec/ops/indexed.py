"""Indexed rows: elements found through an index tensor.

The last dim of such an op is the one the index counts along: the tensor at `table` (or the target of a scatter) has a stride
for it, the op does not walk it. Dims before it are the places of the index and those of the rows it chooses.
"""

from __future__ import annotations

from openspyre.spec.ops.expression import Value, select, to_bool
from openspyre.spec.ops.row import Indexing, Kind, Row

_BEYOND = -3 << 29  # of an index out of range of its dim: with itself added, further below 0 than any table is long
_NEAR = (1 << 29) - 1  # indices that can be told in the message
MOST_FLAT = 1 << 30  # elements that a flat index may count


def _row(name: str, summary: str, indexing: Indexing, **fields) -> Row:  # type: ignore[no-untyped-def]
    fields.setdefault("artifact", f"openspyre.{name}")
    return Row(name=name, kind=Kind.INDEXED, summary=summary, indexing=indexing, operands=2, **fields)


def _flat(index: Value, size: Value, stride: Value, rest: Value) -> Value:
    """One more dim of a flat index; those below 0 count from the end. One out of range stays recognisable."""
    wrapped = select(index < 0, index + size, index)
    near = select(index < _NEAR, select(index < -_NEAR, -_NEAR, index), _NEAR)
    fits = to_bool(select(wrapped < 0, 0, select(wrapped < size, 1, 0)))
    return select(rest < 0, rest, select(fits, wrapped * stride + rest, near + _BEYOND))


INDEXED: tuple[Row, ...] = (
    _row("gather", "rows or elements of a table by an index tensor", Indexing.READ, artifact="identity", documented=True,
         aten=("embedding", "index_select", "index_select.out", "gather", "gather.out", "index.Tensor", "take", "flip")),
    _row("scatter", "rows or elements of a target, set through an index tensor", Indexing.WRITE,
         aten=("index_put_", "index_copy", "index_copy_", "index_copy.out", "index_fill_.int_Scalar", "scatter.src",
               "scatter_.src", "scatter.src_out", "scatter.value", "scatter_.value", "scatter.value_out", "scatter.reduce",
               "scatter_.reduce", "scatter.reduce_out", "scatter_reduce.two", "scatter_reduce_.two", "scatter_reduce.two_out")),
    _row("scatter_add", "rows or elements of a target, added to through an index tensor", Indexing.ADD,
         aten=("index_add", "index_add_", "index_add.out", "scatter_add", "scatter_add_", "scatter_add.out"),
         fixed=(("alpha", 1),)),
    _row("scatter_elements", "elements of a flat target, set one by one", Indexing.WRITE, by_element=True),
    _row("scatter_add_elements", "elements of a flat target, added to one by one", Indexing.ADD, by_element=True),
    Row("flat_index", Kind.POINTWISE, "an index of several dims as one number", artifact="openspyre.flat_index", operands=4,
        body=_flat, floats=False),
)  # fmt: skip
