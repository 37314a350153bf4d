"""One execution of a SuperDSC with everything known: sizes, splits, where each tensor begins, how far apart its elements are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.superdsc import PRESENT, Axis, Component, Indirection, SuperDsc, Tensor
from openspyre.spec.errors import InvalidArgument

Locate = Callable[[int], Address]  # from a tensor's start to argument and byte


@dataclass(frozen=True, slots=True)
class Arguments:
    """Bytes of each argument. Those of `pools` hold many tensors: their length tells nothing about one, but what an op wrote there."""

    bytes: tuple[int, ...]
    pools: frozenset[int] = frozenset()
    # By the byte of a pool at which it begins: bytes of a tensor, 0 if they are not known.
    filled: Mapping[int, int] = field(default_factory=dict)

    def behind(self, at: Address) -> int:
        """Bytes from there to the end of the argument, or of the tensor of a pool that an op wrote there."""
        rest = self.bytes[at.parameter or 0] - at.byte
        return self.filled.get(at.byte) or rest if at.parameter in self.pools else rest


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor as an execution walks it. `strides`: elements per step of a dim, per stick for the dim along its sticks."""

    tensor: Tensor
    strides: dict[str, int]
    symbol: int
    byte: int
    room: int  # steps of the indexed dim that memory has; 0 if nothing is indexed
    rows: dict[str, int] = field(default_factory=dict)  # of dims that memory has less of than is walked

    def moves(self, label: str) -> bool:
        return self.tensor.scale(label) == PRESENT and label in self.strides

    def moved(self, label: str, by: int) -> Access:
        """The same from so many elements further along a dim, where a stick begins."""
        if not self.moves(label) or by == 0 or label == self.tensor.indexed:
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
        return self.axis(label).size

    def slice_of(self, label: str, index: int) -> Instance:
        """One slice of a divided dim, by the cores that have it."""
        place = next(place for place, axis in enumerate(self.axes) if axis.label == label)
        begin = index * self.axes[place].per_core
        axes = (*self.axes[:place], _part(self.axes[place], index), *self.axes[place + 1 :])
        accesses = tuple(_less_rows(access.moved(label, begin), label, begin) for access in self.accesses)
        own = {(*at[:place], 0, *at[place + 1 :]): core for at, core in self.core_of.items() if at[place] == index}
        first = {**self.first, label: begin + self.first.get(label, 0)}
        return replace(self, axes=axes, first=first, accesses=accesses, core_of=own)

    def box(self, ranges: dict[str, tuple[int, int]]) -> Instance:
        """The part of it from `first` on, `size` elements long, of some dims."""
        axes = []
        for axis in self.axes:
            _, size = ranges.get(axis.label, (0, axis.size))
            axes.append(replace(axis, size=size, valid=None) if axis.label in ranges else axis)
        first = {label: begin + self.first.get(label, 0) for label, (begin, _) in ranges.items()}
        accesses = self.accesses
        for label, (begin, _) in ranges.items():
            accesses = tuple(access.moved(label, begin) for access in accesses)
        return replace(self, axes=tuple(axes), first={**self.first, **first}, accesses=accesses)

    def axis(self, label: str) -> Axis:
        return next(axis for axis in self.axes if axis.label == label)


def instances(op: SuperDsc, locate: Locate, arguments: Arguments) -> list[Instance]:
    """One instance where the cores' addresses follow from the first one's, else one for every core."""
    groups = _groups(op)
    absent = [absent_rows(op, tensor, locate, arguments) for tensor in op.tensors]
    strides = [_strides(op, tensor, locate, arguments, rows) for tensor, rows in zip(op.tensors, absent, strict=True)]
    found = []
    for group in groups:
        bases = [
            _base(op, tensor, moved, group, locate) for tensor, (moved, _) in zip(op.tensors, strides, strict=True)
        ]
        if all(base is not None for base in bases):
            accesses = tuple(
                Access(tensor, moved, base.parameter or 0, base.byte, room, rows)
                for tensor, (moved, room), base, rows in zip(op.tensors, strides, bases, absent, strict=True)
                if base is not None
            )
            found.append(Instance(op, op.axes, {}, accesses, group))
        else:
            found += [_of_core(op, slices, core, strides, absent, locate) for slices, core in group.items()]
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


def _strides(
    op: SuperDsc, tensor: Tensor, locate: Locate, arguments: Arguments, rows: dict[str, int]
) -> tuple[dict[str, int], int]:
    """Elements per step of each dim, and how many steps of the indexed dim there are."""
    unknown = tensor.indexed if tensor.indirection is Indirection.VALUE else None
    extents = {label: _extent(op, tensor, label) for label in tensor.order} | rows
    room = 0
    if unknown is not None:
        # The extent of an indexed dim stands in no field: the argument's bytes tell, or who filled the table.
        bytes_left = arguments.behind(locate(tensor.starts[0])) if tensor.component is Component.MEMORY else 0
        others = 128 * prod(extent for label, extent in extents.items() if label != unknown)
        room = extents[unknown] = max(1, bytes_left // others)
    strides: dict[str, int] = {}
    inner = tensor.elems_per_stick
    for label in tensor.order:
        strides[label] = inner
        inner *= extents[label]
    return strides, room


def absent_rows(op: SuperDsc, tensor: Tensor, locate: Locate, arguments: Arguments) -> dict[str, int]:
    """Dims of a restickify of which memory has fewer rows than are walked. No field tells a gap of rows that are not there
    from one of rows that are left out: the distances of the cores do, or the argument's length. The pool's length tells nothing."""
    if op.op != "ReStickifyOpHBM" or tensor.component is not Component.MEMORY:
        return {}
    # A dim is padded for the sticks of another tensor: by less than one of them, and behind one row at least.
    own = {stick.label for stick in tensor.sticks}
    padded = {stick.label: stick.size for other in op.tensors for stick in other.sticks if stick.label not in own}
    unsure = [label for label in tensor.order if 0 < tensor.gap(label) < min(padded.get(label, 0), op.axis[label].size)]
    argument = locate(tensor.starts[0]).parameter or 0
    known = argument not in arguments.pools and argument < len(arguments.bytes)  # an address may lead anywhere
    bytes_ = arguments.bytes[argument] if known else None
    best: tuple[tuple[bool, bool, bool], dict[str, int]] | None = None
    for choice in product((True, False), repeat=len(unsure)):
        rows = {
            label: op.axis[label].size - tensor.gap(label) for label, away in zip(unsure, choice, strict=True) if away
        }
        strides, _ = _strides(op, tensor, locate, arguments, rows)
        span = 128 * prod(({label: _extent(op, tensor, label) for label in tensor.order} | rows).values())
        group = {slices: core for core, slices in enumerate(op.slices)}
        regular = _base(op, tensor, strides, group, locate) is not None
        verdict = (regular, span == bytes_, bytes_ is None or span <= bytes_)
        if best is None or verdict > best[0]:
            best = verdict, rows
    return best[1] if best is not None else {}


def filled_by(op: SuperDsc, locate: Locate, arguments: Arguments) -> Iterator[tuple[int, int]]:
    """Tensors of a pool that an op writes: the byte at which each begins, and its bytes; 0 where an extension does not tell them,
    so that nobody takes it for a tensor that lay there before."""
    for tensor in (op.tensors[number] for number in op.outputs):
        if tensor.component is not Component.MEMORY or tensor.indirection is Indirection.VALUE:
            continue
        first = min((locate(start) for start in set(tensor.starts)), key=lambda at: at.byte)
        if first.parameter in arguments.pools and op.extension is not None:
            yield first.byte, 0
        elif first.parameter in arguments.pools:
            rows = absent_rows(op, tensor, locate, arguments)
            yield (
                first.byte,
                128 * prod(({label: _extent(op, tensor, label) for label in tensor.order} | rows).values()),
            )


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


def _slice_bytes(op: SuperDsc, tensor: Tensor, strides: dict[str, int]) -> list[tuple[int, int]]:
    """Of each divided dim that a tensor in memory moves along: its place among the axes, and bytes from slice to slice."""
    found = []
    for place, axis in enumerate(op.axes):
        label = axis.label
        if axis.split > 1 and tensor.scale(label) == PRESENT and label in strides and label != tensor.indexed:
            per_stick = prod(stick.size for stick in tensor.sticks if stick.label == label)
            found.append((place, axis.per_core // per_stick * strides[label] * tensor.bytes_per_element))
    return found


def _base(
    op: SuperDsc, tensor: Tensor, strides: dict[str, int], group: dict[tuple[int, ...], int], locate: Locate
) -> Address | None:
    """Where slice 0 of a tensor begins, if all other slices lie where its strides say."""
    if tensor.component is Component.SCRATCHPAD:
        starts = {tensor.starts[core] for core in group.values()}
        return Address(None, starts.pop()) if len(starts) == 1 else None
    steps = _slice_bytes(op, tensor, strides)
    base: Address | None = None
    seen: set[tuple[int, int]] = set()
    for slices, core in group.items():
        key = (tensor.starts[core], sum([slices[place] * step for place, step in steps]))
        if key in seen:
            continue
        seen.add(key)
        found = locate(key[0]) + -key[1]
        if base is not None and found != base:
            return None
        base = found
    return base


def _of_core(
    op: SuperDsc,
    slices: tuple[int, ...],
    core: int,
    strides: list[tuple[dict[str, int], int]],
    absent: list[dict[str, int]],
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
    axes = tuple(_part(axis, index) for axis, index in zip(op.axes, slices, strict=True))
    first = {axis.label: index * axis.per_core for axis, index in zip(op.axes, slices, strict=True)}
    accesses = []
    for tensor, (moved, room), rows in zip(op.tensors, strides, absent, strict=True):
        start = tensor.starts[core]
        at = Address(None, start) if tensor.component is Component.SCRATCHPAD else locate(start)
        accesses.append(Access(tensor, moved, at.parameter or 0, at.byte, room, rows))
    return Instance(op, axes, first, tuple(accesses), {(0,) * len(axes): core})


def _part(axis: Axis, index: int) -> Axis:
    """A core's part of a dim."""
    elements = min(max(axis.elements - index * axis.per_core, 0), axis.per_core)
    return Axis(axis.label, axis.per_core, 1, elements)


def _less_rows(access: Access, label: str, begin: int) -> Access:
    """Rows that memory has of a dim, counted from further on."""
    if label not in access.rows:
        return access
    return replace(access, rows={**access.rows, label: max(access.rows[label] - begin, 0)})
