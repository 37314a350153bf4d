"""Indexed ops: rows or elements found through an index tensor.

The last dim of the description is the one the index counts along: it is no dim of the step, its stride is what the index is multiplied by.
Where the table's sticks run along that dim, every lane has an index of its own.
"""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.extensions.description import Description, Tensor
from openspyre.backend.extensions import scatter
from openspyre.backend.extensions.operands import lane_of, nest_of, register_of
from openspyre.program.model import Gather, OperandKind, Scatter
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE, Indexing
from openspyre.spec.ops.expression import Code, convert, trace


def lower(description: Description) -> Gather | Scatter:
    table, index = description.inputs
    if not isinstance(table, Tensor) or not isinstance(index, Tensor):
        raise InternalError(f"{description.row!r} takes a tensor and an index tensor")
    code = _copy(table, description.outputs[0])
    if TABLE[description.row].indexing is not Indexing.READ:
        return scatter.lower(description, code)
    along, last = table.strides[-1], len(description.dims) - 1
    nest, bound = nest_of(scatter.without_index_dim(description)), description.dims[last].size
    if table.lane_dim != last:
        return Gather(*nest.head, code, along, bound)
    nest, indices = scatter.index_per_lane(nest)
    places = replace(nest.inputs[0], kind=OperandKind.SPLAT, tile_stride=along)
    return Gather(*replace(nest, inputs=(places, indices)).head, code, 0, bound)


def _copy(source: Tensor, target: Tensor) -> Code:
    """Nothing at all where the elements stay what they are: the card then moves bytes."""
    if (source.dtype, source.format) == (target.dtype, target.format):
        return trace(lambda value: value, (register_of(source),))
    return trace(lambda value: convert(value, lane_of(target)), (register_of(source),))
