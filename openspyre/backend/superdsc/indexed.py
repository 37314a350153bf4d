"""Gathers and scatters: `identity` with an index tensor that chooses along one dim of its input or of its output."""

from __future__ import annotations

from openspyre.artifact.superdsc import Indirection
from openspyre.backend.superdsc.instance import Instance, Workspace
from openspyre.backend.superdsc.nest import nest_of
from openspyre.backend.superdsc.pointwise import step_of
from openspyre.program.model import Step, StepKind
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
    nest = nest_of(instance, (source, target), lane=target.tensor.stick, across=False)
    along = index.tensor.stick
    if instance.size(along) > index.tensor.elems_per_stick and index.strides[along] != index.tensor.elems_per_stick:
        raise InvalidArgument(f"{op.name}: the index tensor's sticks along {along} do not follow each other")
    places = nest.operand(index, as_format=DataFormats.IEEE_INT32)
    kind = StepKind.GATHER if table is source else StepKind.SCATTER
    code = trace(lambda x: x, (Lane.INT,))
    inputs = (nest.operand(source, bits=True), places)
    return [
        step_of(
            nest, kind, inputs, (nest.operand(target, bits=True),),
            code=code, index_stride=table.strides[chosen], index_bound=table.room,
        )
    ]  # fmt: skip
