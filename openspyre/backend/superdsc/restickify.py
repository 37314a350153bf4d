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
    ranges = [
        [(0, size_of(axis, instance.accesses))] if axis.label == lane else list(ranges_of(axis, instance.accesses))
        for axis in instance.axes
    ]
    for chosen in product(*ranges):
        yield instance.box({axis.label: part for axis, part in zip(instance.axes, chosen, strict=True)})


def size_of(axis: Axis, accesses: tuple[Access, ...]) -> int:
    """Elements of a dim that are there for all tensors."""
    return min([axis.elements, *(access.rows[axis.label] for access in accesses if axis.label in access.rows)])


def ranges_of(axis: Axis, accesses: tuple[Access, ...]) -> Iterator[tuple[int, int]]:
    """First element and size of its whole sticks, and of the rest."""
    size = size_of(axis, accesses)
    along = max(prod(stick.size for stick in access.tensor.sticks if stick.label == axis.label) for access in accesses)
    whole = size // along * along
    if whole:
        yield 0, whole
    if size > whole:
        yield whole, size - whole
