"""One step's points found in another's dims: where both touch the same elements of a buffer, their indices correspond."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Generic, TypeVar

from openspyre.program.model import MAX_DIMS, Dim, LaneBlock, LoopNest, Operand, OperandKind
from openspyre.program.reach import itemsize
from openspyre.spec.formats import STICK_BYTES

_WIDE = 64  # lanes of a block that has 16-bit operands
_Nest = TypeVar("_Nest", bound=LoopNest)
_Frame = TypeVar("_Frame", bound=LoopNest)
_Guest = TypeVar("_Guest", bound=LoopNest)
_FrameOf = TypeVar("_FrameOf", bound=LoopNest, covariant=True)
_GuestOf = TypeVar("_GuestOf", bound=LoopNest, covariant=True)


@dataclass(frozen=True, slots=True)
class Fit(Generic[_FrameOf, _GuestOf]):
    """`steps` per dim of the frame: the guest's dim it moves along and by how much; None: the guest stays."""

    frame: _FrameOf
    guest: _GuestOf
    steps: tuple[tuple[int, int] | None, ...]
    start: tuple[int, ...]  # the guest's indices at the frame's first point
    one_lane: bool  # the guest has one value for all lanes of the frame
    exact: bool  # each of the guest's points is met once

    def carried(self, operand: Operand) -> Operand:
        """An operand of the guest over the frame's dims."""
        if operand.kind is OperandKind.SCALAR:
            return replace(operand, strides=(0,) * len(self.steps))
        offset = operand.offset + sum(at * stride for at, stride in zip(self.start, operand.strides, strict=True))
        strides = tuple(0 if step is None else operand.strides[step[0]] * step[1] for step in self.steps)
        moved = replace(operand, offset=offset, strides=strides)
        if not self.one_lane:
            return moved
        kind = OperandKind.IOTA if operand.kind is OperandKind.IOTA else OperandKind.SPLAT
        return replace(moved, kind=kind, tile_stride=0)


def has_tail(step: LoopNest) -> bool:
    return step.lane.extent % step.lane.lanes != 0


def widened(step: _Nest, lanes: int, leaving: Operand | None = None) -> _Nest | None:
    """The same step with two sticks of 32 lanes in a block, so that it goes along with 16-bit operands.

    An odd last stick has no second one that could be loaded with it; an operand that is `leaving` is not loaded.
    """
    lane = step.lane
    if lane.lanes == lanes:
        return step
    if lane.extent == 1:
        operands = [tuple(map(_single, group)) for group in (step.inputs, step.outputs)]
        return replace(step, lane=replace(lane, lanes=lanes), inputs=operands[0], outputs=operands[1])
    block = lane.block_dim
    if (lane.lanes, lanes) != (_WIDE // 2, _WIDE) or block < 0:
        return None
    dim = step.dims[block]
    loaded = [operand for operand in step.inputs if operand.kind is OperandKind.VECTOR and operand != leaving]
    extent = -(-dim.extent // 2)
    split = gcd(dim.split, extent)
    if (loaded and dim.extent % 2) or (dim.reduced and split != dim.split):
        return None
    dims = (*step.dims[:block], replace(dim, extent=extent, split=split), *step.dims[block + 1 :])
    groups = [[_doubled(operand, block) for operand in group] for group in (step.inputs, step.outputs)]
    inputs, outputs = (tuple(o for o in group if o is not None) for group in groups)
    if len(inputs) < len(step.inputs) or len(outputs) < len(step.outputs):
        return None
    return replace(step, dims=dims, lane=replace(lane, lanes=lanes), inputs=inputs, outputs=outputs)


def is_one_block(step: LoopNest) -> bool:
    """Whether it has several lanes, and all of them in one block."""
    lane = step.lane
    return lane.extent > 1 and (lane.block_dim < 0 or step.dims[lane.block_dim].extent == 1)


def narrowed(step: _Nest) -> _Nest | None:
    """The same step for lane 0 alone, where a block of lanes is one stick of every result."""
    lane = step.lane
    sticks = [lane.lanes * itemsize(operand.data_format) for operand in step.outputs]
    if lane.store_padding or any(size != STICK_BYTES for size in sticks):
        return None
    groups = [tuple(map(_single, group)) for group in (step.inputs, step.outputs)]
    return replace(step, lane=LaneBlock(lane.lanes, 1, -1), inputs=groups[0], outputs=groups[1])


def _single(operand: Operand) -> Operand:
    """An operand of which lane 0 alone counts."""
    return replace(operand, kind=OperandKind.SPLAT, tile_stride=0) if operand.kind is OperandKind.VECTOR else operand


def _doubled(operand: Operand, block: int) -> Operand | None:
    stride = operand.strides[block]
    strides = (*operand.strides[:block], 2 * stride, *operand.strides[block + 1 :])
    match operand.kind:
        case OperandKind.VECTOR:
            return replace(operand, strides=strides, tile_stride=stride)
        case OperandKind.IOTA | OperandKind.STRIDED:
            return replace(operand, strides=strides) if stride == operand.tile_stride * _WIDE // 2 else None
    return replace(operand, strides=strides) if stride == 0 else None


def refined(step: _Nest, place: int, inner: int) -> _Nest | None:
    """A dim cut into two, the inner one of `inner` passes."""
    dim, lane = step.dims[place], step.lane
    if dim.reduced or len(step.dims) == MAX_DIMS or (place == lane.block_dim and has_tail(step)):
        return None
    outer = dim.extent // inner
    outer_split = gcd(dim.split, outer)
    inner_split = gcd(dim.split // outer_split, inner)
    pair = (Dim(outer, outer_split), Dim(inner, inner_split))

    def cut(operand: Operand) -> Operand:
        stride = operand.strides[place]
        return replace(
            operand, strides=(*operand.strides[:place], stride * inner, stride, *operand.strides[place + 1 :])
        )

    if place == lane.block_dim:
        lane = replace(lane, block_dim=-1, extent=lane.lanes)
    elif lane.block_dim > place:
        lane = replace(lane, block_dim=lane.block_dim + 1)
    return replace(
        step,
        dims=(*step.dims[:place], *pair, *step.dims[place + 1 :]),
        lane=lane,
        inputs=tuple(map(cut, step.inputs)),
        outputs=tuple(map(cut, step.outputs)),
    )


@dataclass(frozen=True, slots=True)
class Reference:
    """An operand of a step by its place."""

    output: bool
    place: int

    def of(self, step: LoopNest) -> Operand:
        return (step.outputs if self.output else step.inputs)[self.place]


def fit(
    frame: _Frame, there: Reference, guest: _Guest, here: Reference, *, free: bool = False
) -> Fit[_Frame, _Guest] | None:
    """The guest in the frame's dims, such that both operands are at the same element; None if they never are.

    With `free`, dims along which neither operand moves correspond by their extents.
    """
    lanes = max(frame.lane.lanes, guest.lane.lanes)
    wide_frame = widened(frame, lanes, None if there.output else there.of(frame))
    wide_guest = widened(guest, lanes, None if here.output else here.of(guest))
    if wide_frame is None or wide_guest is None:
        return None
    return _Search(wide_frame, there, wide_guest, here, free).found()


class _Search(Generic[_Frame, _Guest]):
    def __init__(self, frame: _Frame, there: Reference, guest: _Guest, here: Reference, free: bool) -> None:
        self.frame, self.there, self.guest, self.here, self.free = frame, there, guest, here, free

    def found(self) -> Fit[_Frame, _Guest] | None:
        one_lane = self._one_lane()
        start = self._start()
        if one_lane is None or start is None:
            return None
        steps = self._steps(start)
        if steps is None or not self._within(steps, start):
            return None
        if not one_lane and not self._lanes_are_there(steps, start):
            return None
        return Fit(self.frame, self.guest, steps, start, one_lane, self._is_exact(steps, one_lane))

    def _one_lane(self) -> bool | None:
        """Whether the guest has one value per point while the frame has lanes; None if lanes do not correspond."""
        there, here = self.there.of(self.frame), self.here.of(self.guest)
        lane, guest_lane = self.frame.lane, self.guest.lane
        if OperandKind.VECTOR is there.kind is here.kind:
            stick = STICK_BYTES // itemsize(there.data_format)
            return None if lane.lanes > stick and there.tile_stride != here.tile_stride else False
        if guest_lane.extent == 1 and (there.kind is OperandKind.SPLAT or lane.extent == 1):
            return True
        if self.free and OperandKind.SPLAT is there.kind is here.kind:
            return None if lane.extent != guest_lane.extent else False
        return None

    def _lanes_are_there(self, steps: tuple[tuple[int, int] | None, ...], start: tuple[int, ...]) -> bool:
        """Whether every lane that is read was written: a step with part of a last stick leaves the rest as it was."""
        lane, guest_lane = self.frame.lane, self.guest.lane
        if self.here.output == self.there.output:
            return lane.extent == guest_lane.extent or not (has_tail(self.frame) or has_tail(self.guest))
        maker, made = (self.guest, guest_lane) if self.here.output else (self.frame, lane)
        read = lane if self.here.output else guest_lane
        if not has_tail(maker):
            return True
        blocks, at = guest_lane.block_dim, lane.block_dim
        several = blocks >= 0 and self.guest.dims[blocks].extent > 1
        along = not several or (at >= 0 and steps[at] == (blocks, 1))
        return along and (blocks < 0 or start[blocks] == 0) and read.extent <= made.extent

    def _moving(self) -> list[tuple[int, int]]:
        """Stride and number of the guest's dims along which its operand moves, longest stride first."""
        strides = self.here.of(self.guest).strides
        found = [(strides[k], k) for k, dim in enumerate(self.guest.dims) if dim.extent > 1 and strides[k]]
        return sorted(found, reverse=True)

    def _start(self) -> tuple[int, ...] | None:
        here, moving = self.here.of(self.guest), self._moving()
        if any(stride < 0 for stride, _ in moving):
            return None
        fixed = [k for k, dim in enumerate(self.guest.dims) if dim.extent > 1 and not here.strides[k]]
        if fixed and not self.free:
            return None
        start, left = [0] * len(self.guest.dims), self.there.of(self.frame).offset - here.offset
        for stride, k in moving:
            start[k] = min(max(left, 0) // stride, self.guest.dims[k].extent - 1)
            left -= start[k] * stride
        return tuple(start) if left == 0 else None

    def _steps(self, start: tuple[int, ...]) -> tuple[tuple[int, int] | None, ...] | None:
        """Frame dims are cut where they run over several of the guest's."""
        steps: list[tuple[int, int] | None] = []
        unmoved = [
            k for k, dim in enumerate(self.guest.dims) if dim.extent > 1 and not self.here.of(self.guest).strides[k]
        ]
        while len(steps) < len(self.frame.dims):
            place = len(steps)
            dim, stride = self.frame.dims[place], self.there.of(self.frame).strides[place]
            if dim.extent == 1:
                steps.append(None)
            elif stride == 0:
                steps.append(self._free_step(place, unmoved))
                if self.free and steps[-1] is None:
                    return None
            else:
                step = self._step(place, start)
                if step is None:
                    return None
                if not isinstance(step, tuple):
                    self.frame = step
                    continue
                steps.append(step)
        return None if unmoved else tuple(steps)

    def _free_step(self, place: int, unmoved: list[int]) -> tuple[int, int] | None:
        if not self.free or not unmoved:
            return None
        k = unmoved[0]
        is_block = place == self.frame.lane.block_dim
        if self.guest.dims[k].extent != self.frame.dims[place].extent or is_block != (k == self.guest.lane.block_dim):
            return None
        unmoved.pop(0)
        return k, 1

    def _step(self, place: int, start: tuple[int, ...]) -> tuple[int, int] | _Frame | None:
        dim, stride = self.frame.dims[place], self.there.of(self.frame).strides[place]
        for other, k in self._moving():
            if other > stride or stride % other:
                continue
            factor, room = stride // other, self.guest.dims[k].extent - start[k]
            if (dim.extent - 1) * factor < room:
                return k, factor
            inner = room // factor
            if inner > 1 and dim.extent % inner == 0:
                return refined(self.frame, place, inner)
        return None

    def _within(self, steps: tuple[tuple[int, int] | None, ...], start: tuple[int, ...]) -> bool:
        last = list(start)
        for dim, step in zip(self.frame.dims, steps, strict=True):
            if step is not None:
                last[step[0]] += (dim.extent - 1) * step[1]
        return all(at < dim.extent for at, dim in zip(last, self.guest.dims, strict=True))

    def _is_exact(self, steps: tuple[tuple[int, int] | None, ...], one_lane: bool) -> bool:
        """As many points on both sides, each dim of the guest counted through, and lanes that end alike."""
        frame, guest = self.frame, self.guest
        if any(s is None and dim.extent > 1 for s, dim in zip(steps, frame.dims, strict=True)):
            return False
        if prod(dim.extent for dim in frame.dims) != prod(dim.extent for dim in guest.dims):
            return False
        for k, dim in enumerate(guest.dims):
            pieces = sorted((s[1], f.extent) for s, f in zip(steps, frame.dims, strict=True) if s and s[0] == k)
            reach = 1
            for factor, extent in pieces:
                if factor != reach:
                    return False
                reach *= extent
            if reach != dim.extent:
                return False
        return self._lanes_end_alike(steps, one_lane)

    def _lanes_end_alike(self, steps: tuple[tuple[int, int] | None, ...], one_lane: bool) -> bool:
        lane, other = self.frame.lane, self.guest.lane
        if one_lane:
            return lane.extent == 1
        if not has_tail(self.frame) and not has_tail(self.guest):
            return True
        if lane.extent != other.extent:
            return False
        if lane.extent < lane.lanes:
            return True
        return lane.block_dim >= 0 and steps[lane.block_dim] == (other.block_dim, 1)
