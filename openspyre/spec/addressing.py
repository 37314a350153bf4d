"""From a host offset to a device element: the integer algebra of tiled layouts (D2).

A stride map alone cannot be inverted, because padding and gaps look like elements; together with the host's sizes and
strides it can. Twin of `csrc/card/formats/layout.h`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openspyre.spec.errors import InvalidArgument, InvalidLayout


@dataclass(frozen=True, slots=True)
class Digit:
    """One device dim as a digit of its group's coordinate: what is left over `step`, found `device_stride` apart."""

    device_dim: int
    step: int
    count: int
    device_stride: int


@dataclass(frozen=True, slots=True)
class Group:
    """Host dims that one run of device dims tiles together; their offset in units of `base_stride` is 0..extent-1."""

    base_stride: int
    extent: int
    host_dims: tuple[int, ...]
    digits: tuple[Digit, ...]

    def covers_extent(self) -> bool:
        """Whether every coordinate has a place: mixed-radix digits that never overflow and end in units."""
        reach = self.extent
        for digit in self.digits:
            if (reach - 1) // digit.step >= digit.count:
                return False
            reach = min(reach, digit.step)
        return reach == 1


@dataclass(frozen=True, slots=True)
class _HostDim:
    index: int
    size: int
    stride: int

    @property
    def reach(self) -> int:
        return (self.size - 1) * self.stride


@dataclass(frozen=True, slots=True)
class Addressing:
    """How one host shape lies in one layout. Build it with `address`."""

    device_size: tuple[int, ...]
    device_strides: tuple[int, ...]
    groups: tuple[Group, ...]  # by decreasing base_stride
    replicas: tuple[int, ...]  # device dims along which every element stands again
    host_elements: int  # largest host offset + 1; 0 for a tensor without elements

    def coordinates(self, host_offset: int) -> tuple[int, ...]:
        """Device coordinates of a host offset; InvalidArgument if no element is there."""
        found = [0] * len(self.device_size)
        rest = host_offset
        for group in self.groups:
            x, rest = divmod(rest, group.base_stride)
            if not 0 <= x < group.extent:
                break
            for digit in group.digits:
                found[digit.device_dim], x = divmod(x, digit.step)
        else:
            if rest == 0 and self.host_elements:
                return tuple(found)
        raise InvalidArgument(
            f"host offset {host_offset} is not an element of the buffer: it has {self.host_elements} host elements, "
            "gaps between strides not counted"
        )

    def device_offset(self, host_offset: int) -> int:
        """Index of the element in the buffer, in elements."""
        return sum(map(mul, self.coordinates(host_offset), self.device_strides))

    def device_offsets(self, host_offsets: ArrayLike) -> NDArray[Any]:
        """The same for an array of offsets known to be elements."""
        rest = np.asarray(host_offsets, dtype=np.int64)
        offsets = np.zeros_like(rest)
        for group in self.groups:
            x, rest = np.divmod(rest, group.base_stride)
            for digit in group.digits:
                index, x = np.divmod(x, digit.step)
                offsets += index * digit.device_stride
        return offsets


def row_major(size: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor; a dim of size 0 counts as 1, as in torch."""
    return tuple(accumulate((max(n, 1) for n in reversed(size[1:])), mul, initial=1))[::-1] if size else ()


def host_elements(size: Sequence[int], stride: Sequence[int]) -> int:
    """Largest host offset + 1."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


class Along(NamedTuple):
    """A coordinate of a box that an access counts through: start + sum(steps[d] * index[d])."""

    start: int
    steps: tuple[int, ...]


def along(
    offset: int, strides: Sequence[int], sizes: Sequence[int], box: Iterable[tuple[int, int]]
) -> tuple[list[Along], bool]:
    """The places offset + sum(strides[d] * index[d]) in coordinates of a box, whose dims are (step, extent) by decreasing steps.

    As many coordinates as no index leaves or carries out of; True if those are all, and tell the places to the element.
    """
    found: list[Along] = []
    rest, left = offset, [0 if size == 1 else stride for stride, size in zip(strides, sizes, strict=True)]
    for unit, extent in box:
        start, rest = divmod(rest, unit)
        steps = tuple([step // unit for step in left])
        left = [step % unit for step in left]
        reaches = [step * (size - 1) for step, size in zip(steps, sizes, strict=True)]
        if start + sum([reach for reach in reaches if reach > 0]) >= extent:
            return found, False
        if start + sum([reach for reach in reaches if reach < 0]) < 0:
            return found, False
        found.append(Along(start, steps))
    return found, not rest and not any(left)


def joined(dims: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Dims as a size and strides, of one tensor or several, by decreasing first strides: those that run on into each other are one."""
    found: list[tuple[int, ...]] = []
    for size, *strides in sorted([dim for dim in dims if dim[0] > 1], key=lambda dim: -dim[1]):
        if found and found[-1][1:] == tuple([size * stride for stride in strides]):
            size *= found.pop()[0]
        found.append((size, *strides))
    return found


@lru_cache(maxsize=4096)
def address(
    device_size: tuple[int, ...], stride_map: tuple[int, ...], host_size: tuple[int, ...], host_stride: tuple[int, ...]
) -> Addressing:
    """Finds a place for every element of the host shape; InvalidLayout names both sides if one has none."""
    if len(host_size) != len(host_stride) or min((*host_size, *host_stride, 0)) < 0:
        raise InvalidLayout(
            f"host size {list(host_size)} and strides {list(host_stride)} describe no tensor: "
            "both need one non-negative entry per dimension"
        )
    device_strides = row_major(device_size)
    replicas = tuple(j for j, (n, s) in enumerate(zip(device_size, stride_map, strict=True)) if s == 0 and n > 1)
    elements = host_elements(host_size, host_stride)
    groups: list[Group] | None = []
    if elements:
        dims = _host_dims(host_size, host_stride)
        digits = [(s, n, j) for j, (n, s) in enumerate(zip(device_size, stride_map, strict=True)) if s > 0 and n > 1]
        digits.sort(key=lambda digit: -digit[0])
        groups = _group(dims, digits, device_strides)
        if groups is None:
            # A tile index padded beyond its stick dim has a stride that looks like another dim's: it is always 0.
            tile_index = max(len(device_size) - 3, 0)
            groups = _group(dims, [digit for digit in digits if digit[2] != tile_index], device_strides)
        if groups is None or 0 in device_size:
            raise _misfit(device_size, stride_map, host_size, host_stride)
    return Addressing(device_size, device_strides, tuple(groups or ()), replicas, elements)


def _misfit(
    device_size: tuple[int, ...], stride_map: tuple[int, ...], host_size: tuple[int, ...], host_stride: tuple[int, ...]
) -> InvalidLayout:
    room = prod(n for n, s in zip(device_size, stride_map, strict=True) if s > 0)
    return InvalidLayout(
        f"Invalid device sizes and stride map for host sizes and strides: a layout of device_size {list(device_size)}, "
        f"stride_map {list(stride_map)} has no place for every element of a tensor of size {list(host_size)}, strides "
        f"{list(host_stride)} ({prod(host_size)} elements, room for {room}); derive the layout from the tensor's size "
        "and strides, or enlarge the device dims"
    )


def _host_dims(size: tuple[int, ...], stride: tuple[int, ...]) -> list[_HostDim]:
    """Dims that move the host offset, by decreasing stride."""
    moving = [_HostDim(i, n, s) for i, (n, s) in enumerate(zip(size, stride, strict=True)) if n > 1 and s > 0]
    return sorted(moving, key=lambda dim: (-dim.stride, -dim.size))


def _group(dims: list[_HostDim], digits: list[tuple[int, int, int]], strides: tuple[int, ...]) -> list[Group] | None:
    """Closes a group once its own digits hold it and smaller dims stay below its stride; None if one never closes."""
    groups: list[Group] = []
    members: list[_HostDim] = []
    for position, here in enumerate(dims):
        members.append(here)
        smaller = dims[position + 1 :]
        if sum(dim.reach for dim in smaller) >= here.stride:
            continue
        own = [digit for digit in digits if not smaller or digit[0] >= here.stride]
        group = _close(members, own, strides)
        if group is not None and group.covers_extent():
            groups.append(group)
            members = []
            digits = digits[len(own) :]
    return None if members else groups


def _close(members: list[_HostDim], digits: list[tuple[int, int, int]], strides: tuple[int, ...]) -> Group | None:
    base = members[-1].stride
    if any(dim.stride % base for dim in members) or any(stride % base for stride, _, _ in digits):
        return None
    return Group(
        base,
        1 + sum(dim.reach for dim in members) // base,
        tuple(dim.index for dim in members),
        tuple(Digit(j, stride // base, count, strides[j]) for stride, count, j in digits),
    )
