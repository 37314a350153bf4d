"""`ReStickifyOpHBM`: the same elements with another dim along the sticks. Rows that memory does not have are read as zeros and not written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from openspyre.artifact.superdsc import Axis
from openspyre.backend.superdsc.instance import Access, Instance, Workspace
from openspyre.backend.superdsc.pointwise import lower_copy
from openspyre.program.model import Step


def lower_restickify(instance: Instance, workspace: Workspace) -> list[Step]:
    return [step for box in _boxes(instance) for step in lower_copy(box, workspace)]


def _boxes(instance: Instance) -> Iterator[Instance]:
    """The part of each dim that is there: along the target's sticks at once, else its whole sticks, and what is left of the last one."""
    target = instance.accesses[instance.op.outputs[0]].tensor
    known = instance.op.axis[target.stick].valid is not None  # else lanes behind the last row are zeros
    lane = target.stick if len(target.sticks) == 1 and known else None
    ranges = {axis.label: list(ranges_of(axis, instance.accesses)) for axis in instance.axes if axis.label != lane}
    for axis in instance.axes:
        if axis.split > 1 and axis.label in ranges and ranges[axis.label] != [(0, axis.size)]:
            # Its slices end in different ways: each by itself.
            for index in range(axis.split):
                yield from _boxes(instance.slice_of(axis.label, index))
            return
    for chosen in product(*ranges.values()):
        yield instance.box(dict(zip(ranges, chosen, strict=True)))


def ranges_of(axis: Axis, accesses: tuple[Access, ...]) -> Iterator[tuple[int, int]]:
    """First element and size of its whole sticks, and of the rest, as far as they are there for all tensors."""
    size = min([axis.elements, *(access.rows[axis.label] for access in accesses if axis.label in access.rows)])
    along = max(prod(stick.size for stick in access.tensor.sticks if stick.label == axis.label) for access in accesses)
    whole = size // along * along
    if whole:
        yield 0, whole
    if size > whole:
        yield whole, size - whole
