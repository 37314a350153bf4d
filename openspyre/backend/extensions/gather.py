"""Indexed ops: rows or elements found through an index tensor.

The last dim of the description is the one the index counts along: it is no loop, its stride is what the index is multiplied by.
Where the table's sticks run along that dim, every lane has an index of its own.
"""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.extensions.description import Description, Tensor
from openspyre.backend.extensions import scatter
from openspyre.backend.extensions.operands import lane_of, loops_of, register_of
from openspyre.program.model import LaneBlock, OperandKind, Step, StepKind
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE, Indexing
from openspyre.spec.ops.expression import Code, convert, trace


def lower(description: Description, step: Step) -> Step:
    row = TABLE[description.row]
    values = description.inputs[0]
    if not isinstance(values, Tensor) or not isinstance(description.inputs[1], Tensor):
        raise InternalError(f"{description.row!r} takes a tensor and an index tensor")
    lowered = _gather(description) if row.indexing is Indexing.READ else scatter.lower(description)
    return replace(
        lowered,
        name=step.name,
        code=_copy(values, description.outputs[0]),
        index_bound=description.dims[-1].size,
        accumulate=row.indexing is Indexing.ADD,
    )


def _copy(source: Tensor, target: Tensor) -> Code:
    """Nothing at all where the elements stay what they are: the card then moves bytes."""
    if (source.dtype, source.format) == (target.dtype, target.format):
        return trace(lambda value: value, (register_of(source),))
    return trace(lambda value: convert(value, lane_of(target)), (register_of(source),))


def _gather(description: Description) -> Step:
    table, index = description.inputs
    assert isinstance(table, Tensor) and isinstance(index, Tensor)
    along, last = table.strides[-1], len(description.dims) - 1
    step = loops_of(scatter.without_index_dim(description))
    if table.lane_dim != last:
        return replace(step, kind=StepKind.GATHER, index_stride=along)
    places = replace(step.inputs[0], kind=OperandKind.SPLAT, tile_stride=along)
    indices = step.inputs[1]
    if index.lane_dim is None:  # a single index is a vector of one
        step = replace(step, lane=LaneBlock(_lanes(step), 1, -1))
        indices = replace(indices, kind=OperandKind.VECTOR)
    return replace(step, kind=StepKind.GATHER, inputs=(places, indices))


def _lanes(step: Step) -> int:
    return step.lane.lanes if step.lane is not None else 64
