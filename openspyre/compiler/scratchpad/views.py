"""How an op divides a tensor over the cores: which device dims, into how many slices, and which core has which.

Two ops see the same slice of a tensor on every core if their views of it are equal: only then can it stay in the scratchpads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from openspyre.compiler.emit.operation import Extent, Operand, Operation
from openspyre.compiler.ir import Buffer
from openspyre.spec.addressing import row_major
from openspyre.spec.hardware import HARDWARE, Shape


@dataclass(frozen=True, slots=True)
class Slicing:
    """A device dim, named by its stride in device elements, in `split` slices: core c has slice c // apart % split."""

    stride: int
    steps: int  # of the whole dim: sticks where lanes run along it
    split: int
    apart: int


@dataclass(frozen=True, slots=True)
class View:
    """`slices` of those device dims that are divided, by stride; `cores` of the op."""

    slices: tuple[Slicing, ...]
    cores: int

    @property
    def parts(self) -> int:
        """How many different slices of the tensor there are."""
        return prod(one.split for one in self.slices)

    @property
    def is_whole(self) -> bool:
        """Whether every core has a slice of its own."""
        return self.parts == self.cores


def core_strides(splits: Sequence[int], *, last_fastest: bool = False) -> tuple[int, ...]:
    """Cores from one slice of a dim to the next: the first dim goes round fastest, or the last of a product that is split along it."""
    order = list(range(len(splits)))
    if last_fastest:
        order = [order[-1], *order[:-1]]
    apart, found = 1, [0] * len(splits)
    for place in order:
        found[place] = apart
        apart *= splits[place]
    return tuple(found)


def cores_of(operation: Operation) -> int:
    return prod(extent.split for extent in operation.dims)


def is_product(operation: Operation) -> bool:
    known = HARDWARE.get(operation.op)
    return known is not None and known.shape is Shape.CONTRACTION


def view_of(operation: Operation, operand: Operand, buffer: Buffer, *, k_fast: bool = True) -> View | str:
    """An op's view of one of its tensors, or why it is no division of the tensor's device dims."""
    splits = [extent.split for extent in operation.dims]
    strides = core_strides(splits, last_fastest=k_fast and is_product(operation) and splits[-1] > 1)
    walk = operand.walk
    assert walk is not None and buffer.layout is not None
    sizes = {
        step: size
        for step, size in zip(row_major(tuple(buffer.layout.device_size)), buffer.layout.device_size, strict=True)
        if size > 1
    }
    found = []
    for d in walk.order:
        extent = operation.dims[d]
        if extent.split == 1:
            continue
        steps = _steps(extent, d == walk.lane, operand)
        if sizes.get(walk.strides[d]) != steps:
            return f"{operation.op} divides {steps} steps that are no device dim of it"
        if steps % extent.split:
            return f"{operation.op} divides {steps} steps into {extent.split}"
        found.append(Slicing(walk.strides[d], steps, extent.split, strides[d]))
    return View(tuple(sorted(found, key=lambda one: one.stride)), cores_of(operation))


def _steps(extent: Extent, along: bool, operand: Operand) -> int:
    return extent.size // operand.format.elems_per_stick() if along else extent.size
