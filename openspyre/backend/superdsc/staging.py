"""Sums over cores that have their parts in scratchpads: the parts go to memory first, and the sum back to every core of the group.

A step of this card sums over cores in memory alone. On hardware the partial sums go round the ring; the numbers are the same.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from openspyre.artifact.superdsc import PRESENT, Component, Tensor
from openspyre.backend.superdsc.instance import Access, Instance, Workspace
from openspyre.backend.superdsc.nest import nest_of
from openspyre.backend.superdsc.pointwise import Lowering, map_over
from openspyre.program.model import Map, Step
from openspyre.spec.ops.expression import Lane, trace


def needs_staging(instance: Instance) -> bool:
    """Whether some dim is summed over cores and a tensor lies in their scratchpads."""
    op = instance.op
    summed = any(
        axis.split > 1 and not any(op.tensors[n].scale(axis.label) == PRESENT for n in op.outputs)
        for axis in instance.axes
    )
    return summed and any(tensor.component is Component.SCRATCHPAD for tensor in op.tensors)


def lower_staged(instance: Instance, workspace: Workspace, lower: Lowering) -> list[Step]:
    op = instance.op
    before: list[Step] = []
    after: list[Step] = []
    accesses = list(instance.accesses)
    for number, access in enumerate(instance.accesses):
        if access.tensor.component is not Component.SCRATCHPAD:
            continue
        twin = accesses[number] = _in_memory(instance, access, workspace)
        if number in op.outputs:
            after += [_copy(part, twin, access) for part in parts_of(instance, access)]
        else:
            before.append(_copy(parts_of(instance, access)[0], access, twin))
    return [*before, *lower(replace(instance, accesses=tuple(accesses)), workspace), *after]


def _in_memory(instance: Instance, access: Access, workspace: Workspace) -> Access:
    return placed(instance, access.tensor, workspace)


def placed(instance: Instance, like: Tensor, workspace: Workspace) -> Access:
    """A tensor of its own in memory with the dims of another, one stick behind the other."""
    tensor = replace(like, component=Component.MEMORY, gaps=(), owners=())
    strides, inner = {}, tensor.elems_per_stick
    for label in tensor.order:
        strides[label] = inner
        along = prod(stick.size for stick in tensor.sticks if stick.label == label)
        inner *= max(1, instance.size(label) // along) if tensor.scale(label) == PRESENT else 1
    return Access(tensor, strides, workspace.symbol, workspace.take(inner * tensor.bytes_per_element), 0)


def parts_of(instance: Instance, access: Access) -> list[Instance]:
    """The instance over the dims a tensor has. Cores with the same part of it are in one instance each."""
    kept = [place for place, axis in enumerate(instance.axes) if access.moves(axis.label)]
    axes = tuple(instance.axes[place] for place in kept)
    groups: list[dict[tuple[int, ...], int]] = []
    for slices, core in instance.core_of.items():
        own = tuple(slices[place] for place in kept)
        group = next((group for group in groups if own not in group), None)
        if group is None:
            groups.append(group := {})
        group[own] = core
    return [Instance(instance.op, axes, instance.first, instance.accesses, group) for group in groups]


def _copy(part: Instance, source: Access, target: Access) -> Map:
    lane = target.tensor.stick if target.moves(target.tensor.stick) else None  # None: one value a stick
    nest = nest_of(part, (source, target), lane=lane)
    code = trace(lambda x: x, (Lane.INT,))
    return map_over(nest, (nest.operand(source, bits=True),), (nest.operand(target, bits=True),), code)
