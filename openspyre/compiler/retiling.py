"""The part of a buffer that an access touches, tiled anew: with another dim along the sticks, what was a start or a stride within
a stick is one of whole sticks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

from openspyre.compiler.ir import Access, Buffer, Dim
from openspyre.compiler.moves import Moves
from openspyre.compiler.sticks import GroupWalk, walks_of
from openspyre.spec.addressing import Group


@dataclass(frozen=True, slots=True)
class Box:
    """Part of a buffer, by dims that its layout tiles apart: `begin` is its host offset, `steps` those of its dims.

    `offset` and `strides` are those of the access in a row-major copy of it that has `room` for the last steps.
    """

    sizes: tuple[int, ...]
    room: tuple[int, ...]
    begin: int
    steps: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    @property
    def dims(self) -> tuple[Dim, ...]:
        return tuple(Dim(f"g{number}", size) for number, size in enumerate(self.sizes))

    def of(self, buffer: str, dtype: str) -> Access:
        """All of it, where it lies."""
        return Access(buffer, self.begin, self.steps, dtype)


def box_of(access: Access, dims: tuple[Dim, ...], buffer: Buffer, *, written: bool) -> Box | None:
    """What an access touches, from the start of a stick on; up to the end of one, if it is written."""
    if buffer.layout is None or any(step < 0 for step in access.strides):
        return None
    walks = walks_of(access, dims, buffer)
    if walks is None:
        return None
    addressing = buffer.layout.addressing(buffer.size, buffer.stride)
    last = len(addressing.device_size) - 1
    lanes = buffer.layout.elems_per_stick()
    ranges: list[tuple[Group, int, int, int]] = []  # from, to, and room for so many
    inner: list[tuple[GroupWalk, int, int]] = []  # a walk, where its box begins, and the place of its innermost group
    for walk in walks:
        own = [group for group in addressing.groups if _contains(walk.group, group)]
        per_outer = walk.group.extent // own[0].extent
        end = walk.start + sum(step * (dim.size - 1) for step, dim in zip(walk.steps, dims, strict=True))
        low, high = walk.start // per_outer, end // per_outer + 1
        if any(digit.device_dim == last for digit in own[0].digits):
            low = low // lanes * lanes
            high = min(-(-high // lanes) * lanes, own[0].extent) if written else high
        step = lcm(*(step // per_outer for step in walk.steps if step >= per_outer))
        whole = -(-(high - low) // step) * step  # gaps count whole steps
        high = high if written else min(low + whole, own[0].extent)
        ranges.append((own[0], low, high, high - low if written else max(whole, high - low)))
        ranges += [(group, 0, group.extent, group.extent) for group in own[1:]]
        inner.append((walk, low * per_outer, len(ranges) - 1))
    return _boxed(ranges, inner, len(dims))


def _contains(whole: Group, part: Group) -> bool:
    return whole.base_stride <= part.base_stride < whole.base_stride * whole.extent


def _boxed(ranges: list[tuple[Group, int, int, int]], inner: list[tuple[GroupWalk, int, int]], count: int) -> Box:
    unit, units = 1, [0] * len(ranges)
    for place in reversed(range(len(ranges))):
        units[place] = unit
        unit *= ranges[place][3]
    offset, strides = 0, [0] * count
    for walk, low, place in inner:
        offset += (walk.start - low) * units[place]
        strides = [stride + step * units[place] for stride, step in zip(strides, walk.steps, strict=True)]
    moving = [(group, high - low, room) for group, low, high, room in ranges if room > 1]
    begin = sum(low * group.base_stride for group, low, _, _ in ranges)
    steps = tuple(group.base_stride for group, _, _ in moving)
    sizes, rooms = tuple(size for _, size, _ in moving), tuple(room for _, _, room in moving)
    return Box(sizes, rooms, begin, steps, offset, tuple(strides))


def retiled(box: Box, like: Buffer, moves: Moves) -> Iterator[Buffer]:
    """Temps for a box: with each of its dims along the sticks, the largest first, and with a value a stick."""
    places = sorted(range(len(box.sizes)), key=lambda d: -box.sizes[d])
    for stick in (*places, None):
        temp = moves.temp(box.room, stick, like)
        if temp is not None:
            yield temp
