"""`shuffle`: a tensor in the scratchpads goes from one division over the cores to another. Each pair of cores is a copy."""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.superdsc import Axis, Component, SuperDsc, Tensor
from openspyre.backend.superdsc.instance import Access, Instance, Workspace
from openspyre.backend.superdsc.nest import nest_of
from openspyre.backend.superdsc.pointwise import map_over
from openspyre.program.model import Map, Step
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.ops.expression import Lane, trace

Box = dict[str, tuple[int, int]]


def lower_shuffle(instance: Instance, workspace: Workspace) -> list[Step]:
    op = instance.op
    source, target = instance.accesses[op.inputs[0]], instance.accesses[op.outputs[0]]
    for access in (source, target):
        if access.tensor.component is not Component.SCRATCHPAD or not access.tensor.owners:
            raise InvalidArgument(
                f"{op.name}: {access.tensor.name} needs a place in the scratchpads and its own coreIdToWkSlice_"
            )
    held = _owned(op, source.tensor)
    steps: list[Step] = []
    for core, wanted in enumerate(_owned(op, target.tensor)):
        done: set[tuple[tuple[str, tuple[int, int]], ...]] = set()
        # A core's own part first: no ring is needed for it.
        for owner in sorted(range(len(held)), key=lambda other: other != core):
            common = _common(held[owner], wanted, op)
            key = tuple(common.items()) if common is not None else ()
            if common is None or key in done:
                continue
            done.add(key)
            steps.append(_copy(instance, source, target, owner, core, common, held[owner], wanted))
    return steps


def _owned(op: SuperDsc, tensor: Tensor) -> list[Box]:
    """The part of the tensor in each core's scratchpad."""
    splits = {axis.label: 1 + max(dict(own).get(axis.label, 0) for own in tensor.owners) for axis in op.axes}
    sizes = {axis.label: axis.size // splits[axis.label] for axis in op.axes}
    for axis in op.axes:
        unit = tensor.elems_per_stick if axis.label == tensor.stick else 1
        if splits[axis.label] > 1 and axis.size % (splits[axis.label] * unit):
            raise InvalidArgument(
                f"{op.name}: coreIdToWkSlice_ of {tensor.name} has {splits[axis.label]} slices of {axis.label}, "
                f"whose {axis.size} elements do not divide into as many equal parts of whole sticks"
            )
    return [{label: (dict(own).get(label, 0) * size, size) for label, size in sizes.items()} for own in tensor.owners]


def _common(a: Box, b: Box, op: SuperDsc) -> Box | None:
    """What both have, if there are elements in it: nobody writes what is padding alone, nor reads it."""
    found: Box = {}
    for label, (first, size) in a.items():
        other, extent = b[label]
        begin, end = max(first, other), min(first + size, other + extent)
        if begin >= min(end, op.axis[label].elements):
            return None
        found[label] = (begin, end - begin)
    return found


def _copy(
    instance: Instance, source: Access, target: Access, owner: int, core: int, box: Box, held: Box, wanted: Box
) -> Map:
    axes = tuple(
        Axis(label, size, 1, min(size, instance.op.axis[label].elements - first))
        for label, (first, size) in box.items()
    )
    part = Instance(instance.op, axes, {}, instance.accesses, {(0,) * len(axes): core})
    read, written = _within(source, box, held), _within(target, box, wanted)
    nest = nest_of(part, (read, written), lane=target.tensor.stick)
    operand = replace(nest.operand(read, bits=True), owner=owner)
    code = trace(lambda x: x, (Lane.INT,))
    return map_over(nest, (operand,), (nest.operand(written, bits=True),), code)


def _within(access: Access, box: Box, held: Box) -> Access:
    """The access moved to where a box begins in what a core has."""
    for label, (first, _) in box.items():
        access = access.moved(label, first - held[label][0])
    return access
