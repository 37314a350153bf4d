"""A relayout as a nest: where both sides lie in whole steps, its elements are counted through like those of a map.

Parts of sticks are such steps too: a head of 32 elements is a run of lanes, from lane 0 or 32 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from openspyre.program.model import MAX_DIMS, Dim, LaneBlock, Map, Operand, OperandKind, Relayout, View
from openspyre.spec.addressing import along
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.ops.expression import Code, Lane

_COPY = Code((Lane.FLOAT,), (), (), (0,), (Lane.FLOAT,))


class _Axis(NamedTuple):
    """A dim of a view: its size, and its host stride on both sides."""

    size: int
    source: int
    target: int


class _Digit(NamedTuple):
    """A dim of a buffer on the device: what a step of it is on the host, how many there are, how far apart they lie."""

    unit: int
    extent: int
    device_stride: int


class _Digits(NamedTuple):
    """Of all groups of host dims; `groups`: the host stride and the elements of each. What is behind those is padding of a stick."""

    groups: tuple[tuple[int, int], ...]
    digits: tuple[_Digit, ...]


class _Walk(NamedTuple):
    """Where a view begins on the device, and its steps there."""

    offset: int
    strides: tuple[int, ...]


def nest_of(step: Relayout) -> Map | None:
    """The map that moves the same elements; None if some do not lie in whole steps. It reads lanes or across sticks, and writes lanes."""
    found = _nest(step.source, step.target)
    if found is None:
        return None
    dims, lane, source, target = found
    return Map(step.name, dims, lane, (_placed(source, step.inputs[0]),), (_placed(target, step.outputs[0]),), _COPY)


@lru_cache(maxsize=1024)
def elements_of(view: View) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """The elements of a view on the device: the first, and counts and strides from there; None if they do not lie in whole steps."""
    digits = None if 0 in view.size else _digits(view)
    axes = [_Axis(n, stride, stride) for n, stride in zip(view.size, view.stride, strict=True) if n > 1]
    if digits is None or any(axis.source < 0 for axis in axes):
        return None
    axes = _cut(axes, digits.digits, ())
    walk = _walk(view.offset, [axis.source for axis in axes], axes, digits)
    if walk is None:
        return None
    return walk.offset, tuple((axis.size, stride) for axis, stride in zip(axes, walk.strides, strict=True))


def _placed(operand: Operand, at: Operand) -> Operand:
    """`operand` counts from where the buffer begins."""
    here = (at.symbol, at.offset + operand.offset)
    return Operand(
        operand.kind,
        *here,
        operand.strides,
        operand.tile_stride,
        operand.dtype,
        operand.data_format,
        at.space,
        at.owner,
        at.advance,
    )


_Found = tuple[tuple[Dim, ...], LaneBlock, Operand, Operand]


@lru_cache(maxsize=1024)
def _nest(source: View, target: View) -> _Found | None:
    formats = source.layout.device_dtype, target.layout.device_dtype
    alike = source.dtype == target.dtype == source.buffer_dtype == target.buffer_dtype and formats[0] == formats[1]
    read, written = _digits(source), _digits(target)
    if not alike or read is None or written is None:
        return None
    axes = [_Axis(*each) for each in zip(source.size, source.stride, target.stride, strict=True) if each[0] > 1]
    if any(axis.source < 0 or axis.target <= 0 for axis in axes):
        return None
    axes = _cut(axes, read.digits, written.digits)
    here = _walk(source.offset, [axis.source for axis in axes], axes, read)
    there = _walk(target.offset, [axis.target for axis in axes], axes, written)
    lanes = formats[0].elems_per_stick()
    lane = None if here is None or there is None else _lane_axis(there, lanes)
    if here is None or there is None or lane is None or axes[lane].size > lanes or len(axes) > MAX_DIMS:
        return None
    others = [k for k in range(len(axes)) if k != lane]
    across = here.strides[lane]
    if across == 0:
        return None
    kind, tile = (OperandKind.VECTOR, 0) if across == 1 else (OperandKind.STRIDED, across)
    element = (source.dtype, formats[0].name)

    def operand(walk: _Walk, kind: OperandKind, tile: int) -> Operand:
        return Operand(kind, 0, walk.offset, tuple(walk.strides[k] for k in others), tile, *element)

    dims = tuple(Dim(axes[k].size) for k in others)
    return (
        dims,
        LaneBlock(lanes, axes[lane].size, -1),
        operand(here, kind, tile),
        operand(there, OperandKind.VECTOR, 0),
    )


def _lane_axis(walk: _Walk, lanes: int) -> int | None:
    """The dim that runs along the sticks, from lane 0 on, if all others go from stick to stick."""
    found = [k for k, stride in enumerate(walk.strides) if stride % lanes]
    whole = walk.offset % lanes == 0 and len(found) == 1 and walk.strides[found[0]] == 1
    return found[0] if whole else None


def _digits(view: View) -> _Digits | None:
    try:
        addressing = view.layout.addressing(view.buffer_size, view.buffer_stride)
    except InvalidLayout:
        return None
    if addressing.replicas:
        return None
    found: list[_Digit] = []
    for group in addressing.groups:
        above = None
        for digit in group.digits:
            extent = digit.count if above is None else above // digit.step
            found.append(_Digit(group.base_stride * digit.step, extent, digit.device_stride))
            above = digit.step
    return _Digits(tuple((group.base_stride, group.extent) for group in addressing.groups), tuple(found))


def _cut(axes: Sequence[_Axis], here: Sequence[_Digit], there: Sequence[_Digit]) -> list[_Axis]:
    """Dims that count on into the next digit of a side are cut there, if they do so evenly."""
    found: list[_Axis] = []
    for axis in axes:
        pieces = [axis]
        for unit, on_source in sorted([(d.unit, True) for d in here] + [(d.unit, False) for d in there]):
            first = pieces[0]
            stride = first.source if on_source else first.target
            inner = unit // stride if stride and unit % stride == 0 else 0
            if 1 < inner < first.size and first.size % inner == 0:
                pieces[0] = _Axis(inner, first.source, first.target)
                pieces.insert(0, _Axis(first.size // inner, first.source * inner, first.target * inner))
        found += pieces
    return found


def _walk(offset: int, strides: Sequence[int], axes: Sequence[_Axis], places: _Digits) -> _Walk | None:
    sizes = [axis.size for axis in axes]
    # A row that is no whole number of sticks ends before its last stick does: what comes behind it is the next row.
    _, inside = along(offset, strides, sizes, places.groups)
    found, whole = along(offset, strides, sizes, [(digit.unit, digit.extent) for digit in places.digits])
    if not inside or not whole:
        return None
    steps = list(zip(found, places.digits, strict=True))
    begin = sum(at.start * digit.device_stride for at, digit in steps)
    return _Walk(begin, tuple(sum(at.steps[k] * d.device_stride for at, d in steps) for k in range(len(axes))))
