"""One execution of a SuperDSC with everything known: sizes, splits, where each tensor begins, how far apart its elements are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.superdsc import PRESENT, Axis, Component, Indirection, SuperDsc, Tensor
from openspyre.spec.errors import InvalidArgument

Locate = Callable[[int], Address]  # from a tensor's start to argument and byte
ArgumentBytes = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor as an execution walks it. `strides`: elements per step of a dim, per stick for the dim along its sticks."""

    tensor: Tensor
    strides: dict[str, int]
    symbol: int
    byte: int
    room: int  # steps of the indexed dim that memory has; 0 if nothing is indexed
    fewer: tuple[tuple[str, int], ...] = ()  # dims of which memory has fewer rows than are walked

    def moves(self, label: str) -> bool:
        return self.tensor.scale(label) == PRESENT and label in self.strides

    def moved(self, label: str, by: int) -> Access:
        """The same from so many elements further along a dim."""
        if not self.moves(label) or by == 0:
            return self
        per_stick = prod(stick.size for stick in self.tensor.sticks if stick.label == label)
        return replace(self, byte=self.byte + by // per_stick * self.strides[label] * self.tensor.bytes_per_element)


@dataclass(slots=True)
class Workspace:
    """Memory for what a lowering keeps between its own steps: one symbol behind the arguments, used anew by every op."""

    symbol: int
    bytes: int = 0
    taken: int = 0

    def begin(self) -> None:
        """Another op: nobody needs what lies there."""
        self.taken = 0

    def take(self, bytes_: int) -> int:
        """The first byte of so many."""
        first = self.taken
        self.taken += -(-bytes_ // 128) * 128
        self.bytes = max(self.bytes, self.taken)
        return first


@dataclass(frozen=True, slots=True)
class Instance:
    """An op over a box of its iteration space: all of it, divided over cores, or the part of one core."""

    op: SuperDsc
    axes: tuple[Axis, ...]
    first: dict[str, int]  # where the box begins in each dim
    accesses: tuple[Access, ...]
    core_of: dict[tuple[int, ...], int]  # slices in the order of the axes -> core

    def size(self, label: str) -> int:
        return next(axis.size for axis in self.axes if axis.label == label)

    def part(self, label: str, first: int, size: int) -> Instance:
        """The same over `size` elements of a dim from `first` on, which begins a stick. Parts of a dim go to one core each."""
        axes = tuple(replace(axis, size=size) if axis.label == label else axis for axis in self.axes)
        if any(axis.label == label and axis.split > 1 for axis in axes):
            raise InvalidArgument(f"{self.op.name}: {label} does not fill its sticks and cannot be divided over cores")
        accesses = tuple(access.moved(label, first) for access in self.accesses)
        return replace(
            self, axes=axes, first={**self.first, label: self.first.get(label, 0) + first}, accesses=accesses
        )


def instances(op: SuperDsc, locate: Locate, argument_bytes: ArgumentBytes) -> list[Instance]:
    """One instance where the cores' addresses follow from the first one's, else one for every core."""
    groups = _groups(op)
    fewer = [_absent_rows(op, tensor, groups[0], locate, argument_bytes) for tensor in op.tensors]
    strides = [
        _strides(op, tensor, locate, argument_bytes, dict(f)) for tensor, f in zip(op.tensors, fewer, strict=True)
    ]
    found = []
    for group in groups:
        bases = [
            _base(op, tensor, moved, group, locate) for tensor, (moved, _) in zip(op.tensors, strides, strict=True)
        ]
        if all(base is not None for base in bases):
            accesses = tuple(
                Access(tensor, moved, base.parameter or 0, base.byte, room, absent)
                for tensor, (moved, room), base, absent in zip(op.tensors, strides, bases, fewer, strict=True)
                if base is not None
            )
            found.append(Instance(op, op.axes, {}, accesses, group))
        else:
            found += [_of_core(op, slices, core, strides, fewer, locate) for slices, core in group.items()]
    return found


def _groups(op: SuperDsc) -> list[dict[tuple[int, ...], int]]:
    """Cores by their slices. More cores than slices repeat the work: only what they leave in their own scratchpads matters."""
    found: list[dict[tuple[int, ...], int]] = []
    for core, slices in enumerate(op.slices):
        group = next((group for group in found if slices not in group), None)
        if group is None:
            found.append(group := {})
        group[slices] = core
    keeps = any(op.tensors[number].component is Component.SCRATCHPAD for number in op.outputs)
    return found if keeps else found[:1]


def _absent_rows(
    op: SuperDsc,
    tensor: Tensor,
    group: dict[tuple[int, ...], int],
    locate: Locate,
    argument_bytes: ArgumentBytes,
) -> tuple[tuple[str, int], ...]:
    """A gap of a restickify is memory that is not walked, or padding that is not in memory: the fields can be equal.

    Addresses of the other cores settle it, or the length of the argument.
    """
    unsure = [label for label in tensor.order if _may_be_absent(op, tensor, label)]
    if not unsure:
        return ()

    def verdict(absent: tuple[bool, ...]) -> tuple[bool, bool, bool]:
        strides, _ = _strides(op, tensor, locate, argument_bytes, dict(rows(absent)))
        last = tensor.order[-1]
        extent = dict(rows(absent)).get(last, _extent(op, tensor, last))
        span = strides[last] * extent * tensor.bytes_per_element
        at = locate(tensor.starts[next(iter(group.values()))])
        length = argument_bytes(at.parameter or 0) - at.byte
        return _base(op, tensor, strides, group, locate) is not None, span == length, span <= length

    def rows(absent: tuple[bool, ...]) -> tuple[tuple[str, int], ...]:
        found = zip(unsure, absent, strict=True)
        return tuple((label, op.axis[label].size - tensor.gap(label)) for label, away in found if away)

    return rows(max(product((True, False), repeat=len(unsure)), key=verdict))


def _may_be_absent(op: SuperDsc, tensor: Tensor, label: str) -> bool:
    other = {stick.label: stick.size for each in op.tensors for stick in each.sticks}
    return (
        op.op == "ReStickifyOpHBM"
        and tensor.component is Component.MEMORY
        and tensor.scale(label) == PRESENT
        and label != tensor.stick
        and 0 < tensor.gap(label) < other.get(label, 0)
    )


def _strides(
    op: SuperDsc, tensor: Tensor, locate: Locate, argument_bytes: ArgumentBytes, fewer: dict[str, int]
) -> tuple[dict[str, int], int]:
    """Elements per step of each dim, and how many steps of the indexed dim there are."""
    unknown = tensor.indexed if tensor.indirection is Indirection.VALUE else None
    extents = {label: _extent(op, tensor, label) for label in tensor.order} | fewer
    room = 0
    if unknown is not None:
        # The extent of an indexed dim stands in no field: the argument's bytes tell.
        at = locate(tensor.starts[0]) if tensor.component is Component.MEMORY else None
        bytes_left = argument_bytes(at.parameter or 0) - at.byte if at is not None else 0
        others = 128 * prod(extent for label, extent in extents.items() if label != unknown)
        room = extents[unknown] = max(1, bytes_left // others)
    strides: dict[str, int] = {}
    inner = tensor.elems_per_stick
    for label in tensor.order:
        strides[label] = inner
        inner *= extents[label]
    return strides, room


def _extent(op: SuperDsc, tensor: Tensor, label: str) -> int:
    """Steps of a dim in the tensor's memory: sticks for the dim along them, gaps included."""
    if tensor.scale(label) != PRESENT:
        return 1
    axis = op.axis[label]
    size = axis.size if tensor.component is Component.MEMORY else _held(op, tensor, axis)
    elements = size + tensor.gap(label)
    per_stick = prod(stick.size for stick in tensor.sticks if stick.label == label)
    return max(1, -(-elements // per_stick))


def _held(op: SuperDsc, tensor: Tensor, axis: Axis) -> int:
    """What a core's scratchpad has of a dim: by the tensor's own division where it has one."""
    if tensor.owners:
        return axis.size // (1 + max(dict(own).get(axis.label, 0) for own in tensor.owners))
    return axis.per_core


def slice_elements(op: SuperDsc, tensor: Tensor, strides: dict[str, int], slices: tuple[int, ...]) -> int:
    """Elements from the tensor's begin to a slice's, in memory."""
    total = 0
    for axis, index in zip(op.axes, slices, strict=True):
        if tensor.scale(axis.label) == PRESENT and axis.label in strides and axis.label != tensor.indexed:
            per_stick = prod(stick.size for stick in tensor.sticks if stick.label == axis.label)
            total += index * (axis.per_core // per_stick) * strides[axis.label]
    return total


def _base(
    op: SuperDsc, tensor: Tensor, strides: dict[str, int], group: dict[tuple[int, ...], int], locate: Locate
) -> Address | None:
    """Where slice 0 of a tensor begins, if all other slices lie where its strides say."""
    if tensor.component is Component.SCRATCHPAD:
        starts = {tensor.starts[core] for core in group.values()}
        return Address(None, starts.pop()) if len(starts) == 1 else None
    base: Address | None = None
    for slices, core in group.items():
        found = locate(tensor.starts[core]) + -slice_elements(op, tensor, strides, slices) * tensor.bytes_per_element
        if base is not None and found != base:
            return None
        base = found
    return base


def _of_core(
    op: SuperDsc,
    slices: tuple[int, ...],
    core: int,
    strides: list[tuple[dict[str, int], int]],
    fewer: list[tuple[tuple[str, int], ...]],
    locate: Locate,
) -> Instance:
    reduced = [
        axis.label
        for axis in op.axes
        if axis.split > 1 and not any(op.tensors[n].scale(axis.label) == PRESENT for n in op.outputs)
    ]
    if reduced:
        raise InvalidArgument(
            f"{op.name}: {', '.join(reduced)} is summed over cores, but their addresses do not follow from the division; "
            "one sum needs all its parts at regular places"
        )
    axes = tuple(replace(axis, size=axis.per_core, split=1) for axis in op.axes)
    first = {axis.label: index * axis.per_core for axis, index in zip(op.axes, slices, strict=True)}
    accesses = []
    for tensor, (moved, room), absent in zip(op.tensors, strides, fewer, strict=True):
        start = tensor.starts[core]
        at = Address(None, start) if tensor.component is Component.SCRATCHPAD else locate(start)
        accesses.append(Access(tensor, moved, at.parameter or 0, at.byte, room, absent))
    return Instance(op, axes, first, tuple(accesses), {(0,) * len(axes): core})
