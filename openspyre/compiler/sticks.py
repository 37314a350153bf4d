"""How an access meets the sticks of a layout: the question every layout decision turns on.

A vector unit reads whole sticks. An operand is fit for it if its lanes run along one dim of the op from a stick's first lane
on (VECTOR), or if it has one value per stick, in lane 0, for all lanes (SPLAT). Anything else needs a relayout first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from openspyre.compiler.ir import Access, Buffer, Dim
from openspyre.spec.addressing import Addressing, Group, along
from openspyre.spec.formats import ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout


class Lanes(StrEnum):
    VECTOR = "vector"
    SPLAT = "splat"


@dataclass(frozen=True, slots=True)
class StickAccess:
    """A legal access, in device elements. `strides[d]` is per step of dim d, per stick for the lane dim."""

    lanes: Lanes
    lane_dim: int | None
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Misfit:
    """An access that is not, and why: this is what a relayout's reason says."""

    reason: str


@dataclass(frozen=True, slots=True)
class GroupWalk:
    """A group's coordinate along the op: start + sum(steps[d] * index[d])."""

    group: Group
    start: int
    steps: tuple[int, ...]


def stick_access(access: Access, dims: Sequence[Dim], buffer: Buffer) -> StickAccess | Misfit:
    """The access in device terms, or why it is none."""
    if buffer.layout is None:
        raise ValueError(f"buffer {buffer.name!r} has no layout yet")
    sizes = tuple([dim.size for dim in dims])
    return _stick_access(access.offset, access.strides, sizes, buffer.size, buffer.stride, buffer.layout)


def walks_of(access: Access, dims: Sequence[Dim], buffer: Buffer) -> list[GroupWalk] | None:
    """The access along the groups of host dims that the buffer's layout tiles together; None if it leaves them."""
    if buffer.layout is None:
        raise ValueError(f"buffer {buffer.name!r} has no layout yet")
    return _walk(
        access.offset,
        access.strides,
        tuple(dim.size for dim in dims),
        buffer.layout.addressing(buffer.size, buffer.stride),
    )


@lru_cache(maxsize=1 << 16)
def _stick_access(
    offset: int,
    strides: tuple[int, ...],
    sizes: tuple[int, ...],
    buffer_size: tuple[int, ...],
    buffer_stride: tuple[int, ...],
    layout: SpyreTensorLayout,
) -> StickAccess | Misfit:
    addressing = layout.addressing(buffer_size, buffer_stride)
    walks = _walk(offset, strides, sizes, addressing)
    if walks is None:
        return Misfit("the view runs across the tensor's dimensions")
    first, per_step, lane_dim = 0, [0] * len(sizes), None
    for walk in walks:
        answer = _along_group(walk, layout, len(addressing.device_size) - 1)
        if isinstance(answer, Misfit):
            across = len(walks) < len(addressing.groups)
            return Misfit("the view runs across the tensor's dimensions") if across else answer
        first += answer.offset
        per_step = [a + b for a, b in zip(per_step, answer.strides, strict=True)]
        lane_dim = answer.lane_dim if answer.lane_dim is not None else lane_dim
    if lane_dim is not None and sum(walk.steps[lane_dim] != 0 for walk in walks) > 1:
        return Misfit("along its lanes it moves through another dimension as well")
    return StickAccess(Lanes.SPLAT if lane_dim is None else Lanes.VECTOR, lane_dim, first, tuple(per_step))


def _walk(
    offset: int, strides: tuple[int, ...], sizes: tuple[int, ...], addressing: Addressing
) -> list[GroupWalk] | None:
    """Splits the flat offset into group coordinates; None where an index would carry from one group into an unrelated one."""
    groups = list(addressing.groups)
    while True:
        found, whole = along(offset, strides, sizes, [(group.base_stride, group.extent) for group in groups])
        place = len(found)
        if place == len(groups):
            return [GroupWalk(group, *each) for group, each in zip(groups, found, strict=True)] if whole else None
        merged = _joined(groups[place - 1], groups[place], len(addressing.device_size) - 1) if place else None
        if merged is None:
            return None
        groups[place - 1 : place + 1] = [merged]


def _joined(outer: Group, inner: Group, stick_device_dim: int) -> Group | None:
    """Two groups as one, where counting through the inner one leads on to the next place of the outer one."""
    if outer.base_stride != inner.base_stride * inner.extent:
        return None
    digits = tuple(replace(digit, step=digit.step * inner.extent) for digit in outer.digits) + inner.digits
    neighbours = len(digits) == 2 and digits[0].device_stride == digits[1].device_stride * inner.extent
    if neighbours and digits[1].device_dim != stick_device_dim:
        digits = (replace(digits[1], count=digits[0].count * inner.extent),)
    return Group(inner.base_stride, outer.extent * inner.extent, outer.host_dims + inner.host_dims, digits)


def _along_group(walk: GroupWalk, layout: SpyreTensorLayout, stick_device_dim: int) -> StickAccess | Misfit:
    digits = walk.group.digits
    none = (0,) * len(walk.steps)
    if not digits:
        return StickAccess(Lanes.SPLAT, None, 0, none)
    if len(digits) == 1 and digits[0].device_dim != stick_device_dim:
        scale = digits[0].device_stride
        return StickAccess(Lanes.SPLAT, None, walk.start * scale, tuple(step * scale for step in walk.steps))
    if digits[-1].device_dim != stick_device_dim or len(digits) > 2:
        return Misfit("the layout tiles this dimension more than once")
    lanes = layout.elems_per_stick()
    if len(digits) == 2 and digits[0].step != lanes:
        return Misfit("it runs on from sticks that are not full")
    tile_stride = digits[0].device_stride if len(digits) == 2 else 0
    running = [dim for dim, step in enumerate(walk.steps) if step % lanes]
    within = walk.start % lanes
    if within and (running or layout.element_arrangement is not ElementArrangement.EXX2):
        return Misfit(f"it begins in lane {within} of a stick")
    if len(running) > 1 or any(walk.steps[dim] != 1 for dim in running):
        return Misfit("its elements do not lie side by side in a stick")
    strides = tuple(
        tile_stride if dim in running else step // lanes * tile_stride for dim, step in enumerate(walk.steps)
    )
    offset = walk.start // lanes * tile_stride + within
    return StickAccess(Lanes.VECTOR if running else Lanes.SPLAT, running[0] if running else None, offset, strides)
