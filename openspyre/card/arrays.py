"""numpy arrays that went to the card: the shortest way to put data there and get it back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openspyre.card import _card, cards
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InvalidArgument, UnsupportedFormat
from openspyre.spec.formats import DataFormats, ElementArrangement, dtype_name, require_supported
from openspyre.spec.layout import SpyreTensorLayout


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """A tiled array on a card. Its memory is freed with it."""

    card: _card.Card
    buffer: _card.Buffer
    shape: tuple[int, ...]
    dtype: str
    layout: SpyreTensorLayout
    _placement: _card.BufferShape

    def numpy(self, stream: int = 0) -> NDArray[Any]:
        """The elements, back on the host (bfloat16 and fp8 as their bits)."""
        result = np.empty(self.shape, dtype=require_supported(self.dtype).numpy)
        _card.copy_out(self.buffer, self._placement, result, self.dtype, stream)
        return result

    def device_codes(self) -> NDArray[Any]:
        """The buffer as it lies on the card, shaped like the layout's device_size, padding included."""
        form = self.layout.device_dtype
        code = np.dtype(np.float32 if form is DataFormats.IEEE_FP32 else f"uint{form.bits}")
        return np.frombuffer(self.buffer.read_memory(), dtype=code).reshape(self.layout.device_size)


def to_card(
    array: ArrayLike,
    *,
    dtype: object = None,
    layout: SpyreTensorLayout | None = None,
    card: int | None = None,
    stream: int = 0,
) -> DeviceArray:
    """Copies an array to a card. `dtype` says what its bits are where numpy has no such type (bfloat16, fp8)."""
    source = np.asarray(array)
    name = dtype_name(source.dtype if dtype is None else dtype)
    held_in = require_supported(name).numpy
    if held_in is None:
        raise UnsupportedFormat(f"no tensor on the card has dtype {name}")
    if source.dtype != held_in:
        raise InvalidArgument(f"{name} is given as a numpy array of {held_in}, not of {source.dtype}")
    if any(stride < 0 or stride % source.itemsize for stride in source.strides):
        source = np.ascontiguousarray(source)
    placement = place_of(source.shape, name, layout)
    target = cards.get(card)
    buffer = target.allocate(placement.device_bytes, stream)
    _card.copy_in(source, name, buffer, placement, stream)
    return DeviceArray(target, buffer, source.shape, name, _as_layout(placement), placement)


def place_of(
    shape: tuple[int, ...], dtype: str, layout: SpyreTensorLayout | None, stride: tuple[int, ...] | None = None
) -> _card.BufferShape:
    stride = row_major(shape) if stride is None else stride
    if layout is None:
        return _card.intern_default(shape, stride, dtype)
    return _card.intern(
        shape,
        stride,
        dtype,
        layout.device_size,
        layout.stride_map,
        int(layout.device_dtype),
        int(layout.element_arrangement),
    )


def _as_layout(placement: _card.BufferShape) -> SpyreTensorLayout:
    device_size, stride_map, form, arrangement = placement.layout
    return SpyreTensorLayout(device_size, stride_map, DataFormats(form), ElementArrangement(arrangement))
