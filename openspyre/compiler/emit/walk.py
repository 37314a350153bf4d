"""How an access lies in memory as the documents say it: dims from the innermost outwards, each with a gap behind what is walked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openspyre.compiler.ir import Access, Buffer
from openspyre.compiler.sticks import StickAccess
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout


@dataclass(frozen=True, slots=True)
class Walk:
    """`order`: dims the tensor moves along, innermost first. `skipped`: sticks within each step of the innermost, 1 if none are left out."""

    lane: int | None
    order: tuple[int, ...]
    strides: tuple[int, ...]  # device elements per step of each dim, per stick for the lane dim
    gaps: tuple[tuple[int, int], ...]
    skipped: int
    offset: int
    span: int  # device elements from the offset to the end of the last gap


def walk_of(
    found: StickAccess, sizes: Sequence[int], layout: SpyreTensorLayout, *, rows: Sequence[int] | None = None
) -> Walk | str:
    """The walk of an op with these (padded) sizes, or why there is none.

    Where `rows` are given, a dim may be padded beyond them: memory then has these rows alone, and the gap counts the others.
    """
    stick = layout.elems_per_stick()
    lane = found.lane_dim
    sticks = 1 if lane is None else -(-sizes[lane] // stick)
    moving = sorted((stride, d) for d, stride in enumerate(found.strides) if stride and sizes[d] > 1 and d != lane)
    if lane is not None and sticks > 1:
        moving = sorted([*moving, (found.strides[lane], lane)])
    if any(stride % stick or stride <= 0 for stride, _ in moving):
        return "its steps are no whole sticks"
    skipped = moving[0][0] // stick if moving else 1
    gaps, span = [], stick
    for place, (stride, d) in enumerate(moving):
        last = place + 1 == len(moving)
        steps = sticks if d == lane else sizes[d]
        extent, rest = divmod(_room(layout, stride, steps) if last else moving[place + 1][0], stride)
        if rest and not last:
            return "the steps of one dim are no multiple of another's"
        padded = rows is not None and d != lane and rows[d] < steps
        if padded and rows is not None and extent != rows[d]:
            return f"{steps} rows are walked for {rows[d]}, memory has {extent}"
        if extent < steps and not padded:
            return f"{steps} steps are walked, memory has {extent}"
        span = stride * extent
        gap = abs(extent - steps) * (stick if d == lane else 1)
        if gap:
            gaps.append((d, gap))
    order = [d for _, d in moving]
    if lane is not None and sticks == 1:
        order.append(lane)
    return Walk(lane, tuple(order), found.strides, tuple(gaps), skipped, found.offset, span)


def _room(layout: SpyreTensorLayout, stride: int, steps: int) -> int:
    """Elements that the device dim has in which a stride steps, with as many dims outside it as the steps go through."""
    strides = row_major(tuple(layout.device_size))
    ends = sorted(step * size for step, size in zip(strides, layout.device_size, strict=True))
    own = max(
        (step * size for step, size in zip(strides, layout.device_size, strict=True) if step <= stride), default=0
    )
    if own >= stride * steps:
        return own
    further = next((end for end in ends if end >= stride * steps), None)
    if further is not None:
        return further
    return stride * steps if stride * (steps - 1) < ends[-1] else max(own, stride)  # behind the last step is nothing


def fills_sticks(access: Access, buffer: Buffer, lane_size: int) -> bool:
    """Whether an op that writes whole sticks here writes over no other element: its last stick is full, or ends the tensor's dim."""
    assert buffer.layout is not None
    stick = buffer.layout.elems_per_stick()
    if lane_size % stick == 0:
        return True
    addressing = buffer.layout.addressing(buffer.size, buffer.stride)
    last = len(addressing.device_size) - 1
    rest = access.offset
    for group in addressing.groups:
        start, rest = divmod(rest, group.base_stride)
        if any(digit.device_dim == last for digit in group.digits):
            return start + lane_size >= group.extent
    return True
