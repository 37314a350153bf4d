"""Launch arguments of bundles as bytes of device memory: from raw images, from host arrays with a layout, or empty."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openspyre.spec.encodings import sen169_encode
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats, ElementArrangement, dtype_name, require_supported
from openspyre.spec.layout import SpyreTensorLayout

_KEY = re.compile(r"(?:(\d{1,4})\.)?(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Key:
    """Launch and segment: `1.0` is segment 0 of launch 1, `0` is segment 0 of launch 0."""

    launch: int
    segment: int

    def __str__(self) -> str:
        return f"{self.launch}.{self.segment}"


def keyed(option: str, pairs: list[str]) -> dict[Key, str]:
    """`KEY=VALUE` options by launch and segment, each once."""
    found: dict[Key, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        match = _KEY.fullmatch(name)
        if not equals or not value or match is None:
            raise InvalidArgument(
                f"{option} {pair!r}: SEGMENT=... or LAUNCH.SEGMENT=... is wanted, as {option} 0=x.npy"
            )
        key = Key(int(match[1] or 0), int(match[2]))
        if key in found:
            raise InvalidArgument(f"{option} {key} is given twice")
        found[key] = value
    return found


def load_array(option: str, path: str) -> NDArray[Any]:
    try:
        array = np.load(Path(path), allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{option}: cannot read {path} as an .npy file: {error}") from None
    if not isinstance(array, np.ndarray):
        raise InvalidArgument(f"{option}: {path} holds several arrays, an .npy file with one is wanted")
    return array


_LAYOUT = re.compile(
    r"SpyreTensorLayout\(device_size=(\[[\d, ]*\]), stride_map ?=(\[[-\d, ]*\]), device_dtype=(?:DataFormats\.)?(\w+)"
    r"(?:, element_arrangement=(?:ElementArrangement\.)?(\w+))?\)"
)


def parse_layout(text: str) -> SpyreTensorLayout:
    """A layout in its printed form, `SpyreTensorLayout(device_size=[..], stride_map =[..], device_dtype=DataFormats.X)`."""
    match = _LAYOUT.fullmatch(text.strip())
    if match is None or match[3] not in DataFormats.__members__:
        raise InvalidArgument(
            f"--layout {text!r}: the printed form is wanted, SpyreTensorLayout(device_size=[4, 64, 64], "
            "stride_map =[64, 256, 1], device_dtype=DataFormats.SEN169_FP16)"
        )
    arrangement = match[4] or "STANDARD"
    if arrangement not in ElementArrangement.__members__:
        raise InvalidArgument(
            f"--layout: element arrangement {arrangement!r} is none of {', '.join(ElementArrangement.__members__)}"
        )
    return SpyreTensorLayout(
        ast.literal_eval(match[1]), ast.literal_eval(match[2]), DataFormats[match[3]], ElementArrangement[arrangement]
    )


def number_image(value: float, layout: SpyreTensorLayout) -> bytes:
    """A number as an argument of one stick: in its first lane, the others zero."""
    match layout.device_dtype:
        case DataFormats.SEN169_FP16:
            code = np.asarray(sen169_encode(np.float32(value))).tobytes()
        case DataFormats.IEEE_FP32:
            code = np.float32(value).tobytes()
        case _:
            code = np.int64(value).astype(np.int32).tobytes()
    return code.ljust(layout.device_bytes, b"\0")


def tiled(
    array: NDArray[Any], layout: SpyreTensorLayout | None, dtype: str | None, stride: tuple[int, ...] | None = None
) -> bytes:
    """A host array as the bytes it has on the card; padding lanes are zero. `stride`: of the buffer, where not row by row."""
    from openspyre.card import _card, cards
    from openspyre.card.arrays import place_of

    name = dtype or dtype_name(array.dtype)
    shape = place_of(array.shape, name, layout, stride)
    buffer = cards.get().allocate(shape.device_bytes)
    buffer.write_memory(bytes(shape.device_bytes))
    _card.copy_in(np.asarray(array, order="C"), name, buffer, shape)
    return buffer.read_memory()


def untiled(
    image: bytes, size: tuple[int, ...], layout: SpyreTensorLayout, dtype: str, stride: tuple[int, ...] | None = None
) -> NDArray[Any]:
    """The host values that bytes of the card are; bfloat16 and fp8 as their bits."""
    from openspyre.card import _card, cards
    from openspyre.card.arrays import place_of

    shape = place_of(size, dtype, layout, stride)
    buffer = cards.get().allocate(shape.device_bytes)
    buffer.write_memory(image[: shape.device_bytes])
    result = np.empty(size, dtype=require_supported(dtype).numpy)
    _card.copy_out(buffer, shape, result, dtype)
    return result
