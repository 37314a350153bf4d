"""Convolutions in float32, whose products are an extension of this card: rows of the image are multiplied where they lie.

A temp holds every row of the image once for each column of the kernel, moved to where that column meets it. What one row of
the result needs then lies behind each other, row of the kernel by row: k is (row, column, channel), one step apart. Images and
groups take turns in a temp that stays in the host's cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from openspyre.compiler.ir import AT_ONCE, Access, Dim, Iota, Op
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.ops.calls import ProgramBuilder
from torch_spyre.ops.movement import move

_DTYPE = "float32"
_LANES = DataFormats.IEEE_FP32.elems_per_stick()


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of a convolution; tuples have one number per spatial dim."""

    batch: int
    channels: int
    features: int
    groups: int
    kernel: tuple[int, ...]
    out: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def by_rows(shape: Geometry, x: torch.Tensor) -> bool:
    """Rows of the result are whole sticks, and rows of the kernel follow each other in the image."""
    whole_sticks = shape.out[-1] * x.itemsize % STICK_BYTES == 0
    close = len(shape.out) == 1 or shape.kernel[0] == 1 or shape.dilation[0] == 1
    return x.dtype is torch.float32 and whole_sticks and close


def product_of_rows(
    builder: ProgramBuilder, shape: Geometry, extent: tuple[int, ...], x: Access, weights: Access, result: Access
) -> None:
    """Stores [batch, features, out..]. `extent`: the spatial sizes of x."""
    if len(extent) == 1:
        shape, extent = _of_one_row(shape), (1, *extent)
        x, weights = (replace(side, strides=(*side.strides[:2], 0, side.strides[2])) for side in (x, weights))
    each = _weights(builder, shape, weights)
    part = _part(shape)
    rows = _Rows(builder, part, extent)
    features, channels = shape.features // shape.groups, shape.channels // shape.groups
    corners = (
        (image, group) for image in range(0, shape.batch, part.batch) for group in range(0, shape.groups, part.groups)
    )
    for number, (image, group) in enumerate(corners):
        own = (
            _moved_by(x, image, group * channels),
            _moved_by(each, group * features),
            _moved_by(result, image, group * features),
        )
        rows.add(number, *own)


def _of_one_row(shape: Geometry) -> Geometry:
    return replace(
        shape,
        kernel=(1, *shape.kernel),
        out=(1, *shape.out),
        stride=(1, *shape.stride),
        padding=(0, *shape.padding),
        dilation=(1, *shape.dilation),
    )


_PART = 128 << 10  # floats of the temp, so that its part stays in a cache
_MOST_PARTS = 16


def _part(shape: Geometry) -> Geometry:
    """Some images and groups, that are convolved at a time."""
    if _as_it_lies(shape):
        return shape
    floats = (shape.out[0] * shape.stride[0]) * shape.kernel[1] * (shape.channels // shape.groups) * shape.out[1]
    groups = _share(shape.groups, max(1, _PART // floats), max(1, _MOST_PARTS // shape.batch))
    batch = _share(shape.batch, max(1, _PART // (floats * groups)), max(1, _MOST_PARTS * groups // shape.groups))
    return replace(
        shape,
        batch=batch,
        groups=groups,
        channels=shape.channels // shape.groups * groups,
        features=shape.features // shape.groups * groups,
    )


def _share(count: int, wanted: int, most: int) -> int:
    """What of `count` is taken at a time: a divisor, as many as are wanted or as it takes for no more than `most` parts."""
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    fitting = [n for n in divisors if n <= wanted]
    return max(fitting[-1], next(n for n in divisors if count // n <= most))


def _moved_by(access: Access, *steps: int) -> Access:
    return replace(
        access, offset=access.offset + sum(n * stride for n, stride in zip(steps, access.strides, strict=False))
    )


def _as_it_lies(shape: Geometry) -> bool:
    return shape.kernel == shape.stride == (1, 1) and not any(shape.padding)


class _Rows:
    """One convolution along two dims."""

    def __init__(self, builder: ProgramBuilder, shape: Geometry, size: tuple[int, ...]) -> None:
        self.builder, self.shape, self.size = builder, shape, size
        (kernel_rows, self.columns), (out_rows, self.width) = shape.kernel, shape.out
        self.channels = shape.channels // shape.groups
        self.rows = (out_rows - 1) * shape.stride[0] + kernel_rows  # of the padded image, as far as they are met
        self.box = (shape.batch, shape.groups, self.rows, self.columns, self.channels, self.width)
        self.temp = None if _as_it_lies(shape) else self._temp()

    def add(self, number: int, x: Access, weights: Access, result: Access) -> None:
        """One part of the images and groups, this many before it."""
        self._product(f"product{number}", self._moved(f"rows{number}", x), weights, result)

    def _moved(self, name: str, x: Access) -> Access:
        """[batch, groups, rows of the result, columns of the result, k]"""
        shape, steps = self.shape, row_major(self.box)
        if self.temp is None:
            image, channel, row, column = x.strides
            return Access(x.buffer, x.offset, (image, channel * self.channels, row, column, channel), _DTYPE)
        for column in range(self.columns):
            self._load(f"{name}.load{column}", x, self.temp, column)
        return Access(self.temp.buffer, 0, (*steps[:2], steps[2] * shape.stride[0], 1, self.width), _DTYPE)

    def _temp(self) -> Access:
        """Zeros stay where the padding is met."""
        shape, steps = self.shape, row_major(self.box)
        lines = (shape.batch, shape.groups, self.rows * self.columns * self.channels, self.width)
        sticks = [*lines[:3], self.width // _LANES, _LANES]
        layout = SpyreTensorLayout(
            device_size=sticks, stride_map=list(row_major(sticks)), device_dtype=DataFormats.IEEE_FP32
        )
        temp = Access(self.builder.temp("rows", _DTYPE, lines, row_major(lines), layout), 0, steps, _DTYPE)
        if any(shape.padding):
            self.builder.add(Op("zeros", "iota", _dims(self.box), (Iota(0, (0,) * len(self.box)),), (temp,)))
        return temp

    def _load(self, name: str, x: Access, temp: Access, column: int) -> None:
        """The rows as a column of the kernel meets them; what it meets of the padding stays as it is."""
        shape, (height, width) = self.shape, self.size
        stride, begin = shape.stride[1], column * shape.dilation[1] - shape.padding[1]
        top, bottom = _within(self.rows, 1, -shape.padding[0], height)
        left, right = _within(self.width, stride, begin, width)
        if top >= bottom or left >= right:
            return
        image, channel, row, step = x.strides
        source = Access(
            x.buffer,
            x.offset + (top - shape.padding[0]) * row + (left * stride + begin) * step,
            (image, channel * self.channels, row, channel, step * stride),
            _DTYPE,
        )
        *outer, of_column, of_channel, of_place = temp.strides
        target = Access(temp.buffer, top * outer[2] + column * of_column + left, (*outer, of_channel, of_place), _DTYPE)
        size = (shape.batch, shape.groups, bottom - top, self.channels, right - left)
        at_once = ((AT_ONCE, True),)
        self.builder.add(Op(name, "relayout", _dims(size), (source,), (target,), at_once))

    def _product(self, name: str, rows: Access, weights: Access, result: Access) -> None:
        shape = self.shape
        m, k = shape.features // shape.groups, shape.kernel[0] * self.columns * self.channels
        dims = (
            Dim("b0", shape.batch),
            Dim("b1", shape.groups),
            Dim("row", shape.out[0]),
            Dim("m", m),
            Dim("n", self.width),
            Dim("k", k, reduced=True),
        )
        image, group, row, column, step = rows.strides
        first = replace(weights, strides=(0, m * k, 0, k, 0, 1))
        second = replace(rows, strides=(image, group, row, 0, column, step))
        image, feature, *outer, column = result.strides
        target = replace(result, strides=(image, feature * m, *(outer or (0,)), feature, column, 0))
        self.builder.add(Op(name, "batchmatmul", dims, (first, second), (target,)))


def _weights(builder: ProgramBuilder, shape: Geometry, given: Access) -> Access:
    """[features, rows and columns of the kernel, channels]"""
    size = (shape.features, *shape.kernel, shape.channels // shape.groups)
    feature, channel, row, column = given.strides
    source = Access(given.buffer, given.offset, (feature, row, column, channel), _DTYPE)
    temp = Access(builder.temp("weights", _DTYPE, size, row_major(size)), 0, row_major(size), _DTYPE)
    move(builder, "weights.load", size, source, temp)
    return temp


def _dims(size: tuple[int, ...]) -> tuple[Dim, ...]:
    return tuple(Dim(f"d{i}", extent) for i, extent in enumerate(size))


def _within(count: int, step: int, begin: int, extent: int) -> tuple[int, int]:
    """Of the places begin + i * step, i below `count`: the first i that is in [0, extent), and the one behind the last."""
    return max(0, -(begin // step)), min(count, (extent - 1 - begin) // step + 1)
