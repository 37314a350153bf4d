"""Values of a constant tensor: the bytes the host would store, their elements, and a text that IR and caches write."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openspyre.spec.addressing import host_elements
from openspyre.spec.formats import require_supported


def value_bytes(size: Sequence[int], stride: Sequence[int], dtype: str) -> int:
    """What the host stores a tensor in, gaps between its elements included."""
    return host_elements(size, stride) * np.dtype(require_supported(dtype).numpy).itemsize


def elements_of(values: bytes, size: Sequence[int], stride: Sequence[int], dtype: str) -> NDArray[Any]:
    """The values as an array of the tensor's size; bfloat16 and fp8 as their bits."""
    kind = np.dtype(require_supported(dtype).numpy)
    return np.ndarray(tuple(size), kind, values, 0, [step * kind.itemsize for step in stride])


_SMALL_BYTES = 4096


def packed(values: bytes) -> str:
    """Small ones are not made smaller: their text is the same whatever library does it."""
    return base64.b64encode(zlib.compress(values, 1 if len(values) > _SMALL_BYTES else 0)).decode()


def unpacked(text: str, length: int) -> bytes:
    """The bytes, which must be so many: a longer text is not even unpacked. ValueError tells what is wrong."""
    try:
        inflate = zlib.decompressobj()
        values = inflate.decompress(base64.b64decode(text, validate=True), length + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"no packed values: {error}") from None
    if len(values) != length or not inflate.eof:
        raise ValueError(f"{length} bytes of values are wanted, the text does not have as many")
    return values
