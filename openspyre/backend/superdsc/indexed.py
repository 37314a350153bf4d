"""Gathers and scatters: `identity` with an index tensor that chooses along one dim of its input or of its output."""

from __future__ import annotations

from openspyre.artifact.superdsc import Indirection
from openspyre.backend.superdsc.instance import Instance, Workspace
from openspyre.backend.superdsc.nest import nest_of
from openspyre.backend.superdsc.restickify import ranges_of
from openspyre.program.model import Gather, Scatter, Step
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats
from openspyre.spec.ops.expression import Lane, trace


def lower_indexed(instance: Instance, workspace: Workspace) -> list[Step]:
    op = instance.op
    if op.index is None:
        raise InvalidArgument(f"{op.name}: a value_tensor without an index tensor")
    index = instance.accesses[op.index]
    source, target = instance.accesses[op.inputs[0]], instance.accesses[op.outputs[0]]
    table = source if source.tensor.indirection is Indirection.VALUE else target
    chosen = table.tensor.indexed
    if chosen is None or table.tensor.stick == chosen:
        raise InvalidArgument(f"{op.name}: the index must choose along a dim outside the sticks, found {chosen}")
    along = index.tensor.stick
    if instance.size(along) <= index.tensor.elems_per_stick or index.strides[along] == index.tensor.elems_per_stick:
        return [_step(instance)]
    # Sticks of the index that do not follow each other: whole ones, and what is left.
    return [_step(instance.box({along: part})) for part in ranges_of(instance.axis(along), (index,))]


def _step(instance: Instance) -> Gather | Scatter:
    op = instance.op
    assert op.index is not None
    index = instance.accesses[op.index]
    source, target = instance.accesses[op.inputs[0]], instance.accesses[op.outputs[0]]
    table = source if source.tensor.indirection is Indirection.VALUE else target
    assert table.tensor.indexed is not None
    nest = nest_of(instance, (source, target), lane=target.tensor.stick, across=False, beside=(index,))
    places = nest.operand(index, as_format=DataFormats.IEEE_INT32)
    head = nest.head((nest.operand(source, bits=True), places), (nest.operand(target, bits=True),))
    code, stride = trace(lambda x: x, (Lane.INT,)), table.strides[table.tensor.indexed]
    if table is source:
        return Gather(*head, code, stride, table.room, cores=nest.cores())
    return Scatter(*head, code, stride, table.room, accumulate=False, cores=nest.cores())
