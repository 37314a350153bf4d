"""Dims and operands of a step for an instance: along the sticks of what it writes, or point by point where a stick has several dims."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from openspyre.artifact.superdsc import ONE_LANE, Component
from openspyre.backend.superdsc.instance import Access, Instance
from openspyre.program.model import Dim, Head, LaneBlock, Operand, OperandKind, Space
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import STICK_BYTES, DataFormats

# The dtype by which the card reads a format's elements as numbers, and the one by which it moves their bits.
VALUES = {
    DataFormats.SEN169_FP16: "float16",
    DataFormats.IEEE_FP32: "float32",
    DataFormats.SEN143_FP8: "float8_e4m3fn",
    DataFormats.SEN152_FP8: "float8_e5m2fnuz",
    DataFormats.IEEE_INT32: "int32",
    DataFormats.SENUINT32: "int32",
    DataFormats.SENINT16: "int16",
    DataFormats.SENINT8: "int8",
}
_BITS = {1: ("int8", "SENINT8"), 2: ("int16", "SENINT16"), 4: ("int32", "IEEE_INT32")}


@dataclass(frozen=True, slots=True)
class Part:
    """A loop over a dim in steps of `unit` elements."""

    label: str
    extent: int
    unit: int
    split: int


@dataclass(frozen=True, slots=True)
class Nest:
    """`lane`: the dim whose blocks of `lanes` elements the vector unit takes at once; None: one element at a time."""

    instance: Instance
    parts: tuple[Part, ...]
    lane: str | None
    lanes: int
    reduced: frozenset[str]

    def head(self, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...]) -> Head:
        """What a step begins with."""
        return self.instance.op.name, self.dims(), self.lane_block(), inputs, outputs

    def dims(self) -> tuple[Dim, ...]:
        return tuple(Dim(part.extent, part.split, part.label in self.reduced) for part in self.parts)

    def lane_block(self) -> LaneBlock:
        if self.lane is None:
            return LaneBlock(self.lanes, 1, -1)
        place = next(i for i, part in enumerate(self.parts) if part.label == self.lane)
        return LaneBlock(self.lanes, self.instance.axis(self.lane).elements, place, self.lane in self.reduced)

    def cores(self) -> tuple[int, ...]:
        """The core of each slice, the first part's slices fastest."""
        labels = [axis.label for axis in self.instance.axes]
        ranges = [range(part.split) for part in reversed(self.parts)]
        found = []
        for chosen in product(*ranges):
            slices = dict.fromkeys(labels, 0)
            for part, index in zip(reversed(self.parts), chosen, strict=True):
                if part.split > 1:
                    slices[part.label] = index
            found.append(self.instance.core_of[tuple(slices[label] for label in labels)])
        return () if found == list(range(len(found))) else tuple(found)

    def operand(self, access: Access, *, bits: bool = False, as_format: DataFormats | None = None) -> Operand:
        """A tensor as an operand; by its bits, where elements are moved and not computed with."""
        tensor = access.tensor
        form = as_format or tensor.format
        scale = tensor.bytes_per_element // (STICK_BYTES // form.elems_per_stick()) or 1
        shrink = (STICK_BYTES // form.elems_per_stick()) // tensor.bytes_per_element or 1
        dtype, name = _BITS[STICK_BYTES // form.elems_per_stick()] if bits else (VALUES[form], form.name)
        kind = self.kind_of(access)
        strides = tuple(self._stride(access, part) * scale // shrink for part in self.parts)
        apart = 0  # sticks of a block, or its lanes
        if self.lane is not None and (
            kind is OperandKind.STRIDED or (kind is OperandKind.VECTOR and self.lanes > tensor.elems_per_stick)
        ):
            shares = any(stick.label == self.lane for stick in tensor.sticks) and kind is OperandKind.STRIDED
            apart = (within(access, self.lane) if shares else access.strides[self.lane]) * scale // shrink
        scratchpad = tensor.component is Component.SCRATCHPAD
        return Operand(
            kind=kind,
            symbol=0 if scratchpad else access.symbol,
            offset=access.byte // (STICK_BYTES // form.elems_per_stick()),
            strides=strides,
            tile_stride=apart,
            dtype=dtype,
            data_format=name,
            space=Space.SCRATCHPAD if scratchpad else Space.MEMORY,
        )

    def kind_of(self, access: Access) -> OperandKind:
        """Along its sticks, across them, or one value for all lanes."""
        if self.lane is None or not access.moves(self.lane):
            return OperandKind.SPLAT
        sticks = access.tensor.sticks
        return OperandKind.VECTOR if [stick.label for stick in sticks] == [self.lane] else OperandKind.STRIDED

    def _stride(self, access: Access, part: Part) -> int:
        if not access.moves(part.label) or part.label == access.tensor.indexed:
            return 0
        step = access.strides[part.label]
        along = [stick.size for stick in access.tensor.sticks if stick.label == part.label]
        if not along:
            return step * part.unit
        if part.unit >= prod(along):
            return step * (part.unit // prod(along))
        return part.unit * within(access, part.label)

    def counter(self, label: str) -> Operand:
        """The index along a dim, as an operand."""
        strides = tuple(part.unit if part.label == label else 0 for part in self.parts)
        lane = 1 if label == self.lane else 0
        first = self.instance.first.get(label, 0)
        return Operand(OperandKind.IOTA, 0, first, strides, lane, "int32", "IEEE_INT32")


def within(access: Access, label: str) -> int:
    """Elements between neighbours along a stick dim; where several dims share a stick, the first runs fastest."""
    step = 1
    for stick in access.tensor.sticks:
        if stick.label == label:
            return step
        step *= stick.size
    return step


def nest_of(
    instance: Instance,
    accesses: tuple[Access, ...],
    reduced: frozenset[str] = frozenset(),
    *,
    lane: str | None,
    across: bool = True,
    beside: tuple[Access, ...] = (),
) -> Nest:
    """Loops over an instance. Along `lane` if what is written can be taken so, else point by point.

    The last of these tensors is written; with `across` the others may have their sticks along other dims.
    Dims are cut where sticks of those `beside` end, too.
    """
    if lane is not None and instance.axis(lane).elements == 1:
        return _without(lane, instance, accesses, reduced)
    along_lane = accesses[-1:] if across else accesses
    if lane is not None and all(len(a.tensor.sticks) == 1 and _fits(a, lane) for a in along_lane):
        along = [a.tensor.elems_per_stick for a in accesses if _runs_along(a, lane)]
        lanes = max(along, default=64)
        axis = next(axis for axis in instance.axes if axis.label == lane)
        crossed = [a for a in accesses if a.moves(lane) and not _runs_along(a, lane)]
        ends = reduced and axis.elements % lanes  # across sticks, only a map has a last block that is not full
        if any(_share(a, lane) not in (1, lanes) or ends for a in crossed):
            return _by_points(instance, accesses, reduced)
        if axis.split == 1 or axis.size % (lanes * axis.split) == 0:
            blocks = Part(lane, -(-axis.size // lanes), lanes, axis.split)
            cut = (*accesses, *beside)
            groups = [[blocks] if a is axis else _points(a.label, a.size, a.split, cut) for a in instance.axes]
            return Nest(instance, tuple(part for group in groups for part in group), lane, max(lanes, 32), reduced)
    return _by_points(instance, accesses, reduced)


def _without(lane: str, instance: Instance, accesses: tuple[Access, ...], reduced: frozenset[str]) -> Nest:
    """One value a stick: nothing runs along the lanes."""
    axes = [axis for axis in instance.axes if axis.label != lane]
    parts = tuple(part for axis in axes for part in _points(axis.label, axis.size, axis.split, accesses))
    lanes = max(access.tensor.elems_per_stick for access in accesses)  # as those have who read it with their lanes
    return Nest(instance, parts, None, max(lanes, 32), reduced - {lane})


def _by_points(instance: Instance, accesses: tuple[Access, ...], reduced: frozenset[str]) -> Nest:
    parts = tuple(part for axis in instance.axes for part in _points(axis.label, axis.size, axis.split, accesses))
    return Nest(instance, parts, None, 64, reduced)


def _runs_along(access: Access, lane: str) -> bool:
    return [stick.label for stick in access.tensor.sticks] == [lane] and access.moves(lane)


def _share(access: Access, lane: str) -> int:
    """Elements of a dim in one stick."""
    return prod(stick.size for stick in access.tensor.sticks if stick.label == lane) if access.moves(lane) else 1


def _fits(access: Access, lane: str) -> bool:
    tensor = access.tensor
    if tensor.stick == lane:
        return True
    return tensor.scale(tensor.stick) == ONE_LANE or not access.moves(tensor.stick)


def _points(label: str, size: int, split: int, accesses: tuple[Access, ...]) -> list[Part]:
    """A dim cut where sticks end: outer parts count sticks, the innermost their elements."""
    ends = {
        prod(stick.size for stick in access.tensor.sticks if stick.label == label)
        for access in accesses
        if access.moves(label) and _is_cut(access, label, size)
    }
    if any(size % (end * split) for end in ends):
        raise InvalidArgument(
            f"dim {label} of size {size} ends within a stick of {max(ends)}: point by point, sticks must be whole"
        )
    cuts = sorted(ends)
    parts, unit, left = [], 1, size
    for cut in cuts:
        parts.append(Part(label, cut // unit, unit, 1))
        unit, left = cut, size // cut
    parts.append(Part(label, left, unit, split))
    return parts[::-1]


def _is_cut(access: Access, label: str, size: int) -> bool:
    """Whether sticks along a dim do not simply follow each other."""
    along = prod(stick.size for stick in access.tensor.sticks if stick.label == label)
    return along > 1 and access.strides[label] != along * within(access, label) and size > along
