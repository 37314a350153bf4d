"""`ReStickifyOpHBM`: the same elements with another dim along the sticks. Rows that memory does not have are read as zeros and not written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from openspyre.artifact.superdsc import Axis
from openspyre.backend.superdsc.instance import Access, Instance, Workspace
from openspyre.backend.superdsc.pointwise import lower_copy
from openspyre.program.model import Step


def lower_restickify(instance: Instance, workspace: Workspace) -> list[Step]:
    return [step for box in _boxes(instance) for step in lower_copy(box, workspace)]


def _boxes(instance: Instance) -> Iterator[Instance]:
    """The part of each dim that is there: its whole sticks, and what is left of the last one."""
    ranges = [list(_ranges(axis, instance.accesses)) for axis in instance.axes]
    for chosen in product(*ranges):
        axes = tuple(replace(axis, size=size, valid=None) for axis, (_, size) in zip(instance.axes, chosen, strict=True))
        begins = {axis.label: first for axis, (first, _) in zip(instance.axes, chosen, strict=True)}
        first = {label: begin + instance.first.get(label, 0) for label, begin in begins.items()}
        accesses = tuple(_moved(access, begins) for access in instance.accesses)
        yield replace(instance, axes=axes, first=first, accesses=accesses)


def _ranges(axis: Axis, accesses: tuple[Access, ...]) -> Iterator[tuple[int, int]]:
    size = min([axis.elements, *(access.rows[axis.label] for access in accesses if axis.label in access.rows)])
    along = max(prod(stick.size for stick in access.tensor.sticks if stick.label == axis.label) for access in accesses)
    whole = size // along * along
    if whole:
        yield 0, whole
    if size > whole:
        yield whole, size - whole


def _moved(access: Access, begins: dict[str, int]) -> Access:
    for label, begin in begins.items():
        access = access.moved(label, begin)
    return access
