"""Element formats: how the host and the card write an element, and which of them belong to which dtype.

A dtype may be given as torch's, as numpy's or by name; torch itself is never imported. The bits are in `encodings.py`.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from openspyre.spec.errors import UnsupportedFormat

STICK_BYTES = 128


class _NamedValues(IntEnum):
    """Prints as Python source (`DataFormats.SEN169_FP16`), so that a printed layout evaluates back."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class DataFormats(_NamedValues):
    """The card's element formats. The values are part of the artifact format: never renumber."""

    SEN169_FP16 = 0
    IEEE_FP32 = 1
    INVALID = 2
    SEN143_FP8 = 3
    SEN152_FP8 = 4
    SEN153_FP9 = 5
    SENINT2 = 6
    SENINT4 = 7
    SENINT8 = 8
    SENINT16 = 9
    SENINT24 = 10
    IEEE_INT64 = 11
    IEEE_INT32 = 12
    SENUINT32 = 13
    SENUINT2 = 14
    IEEE_FP16 = 15
    BOOL = 16
    BFLOAT16 = 17
    SEN18F_FP24 = 18

    @property
    def bits(self) -> int:
        """Bits of one element; 0 for INVALID."""
        return _BITS[self]

    def elems_per_stick(self) -> int:
        """Elements in one 128-byte stick; 0 for INVALID."""
        return _PER_STICK[self]


class ElementArrangement(_NamedValues):
    """In which order a stick holds its elements: some operations leave them permuted."""

    STANDARD = 0
    DL16_TO_FP32 = 1
    QFP8CH = 2
    EXX2 = 3


_BITS: dict[DataFormats, int] = {
    DataFormats.SEN169_FP16: 16,
    DataFormats.IEEE_FP32: 32,
    DataFormats.INVALID: 0,
    DataFormats.SEN143_FP8: 8,
    DataFormats.SEN152_FP8: 8,
    DataFormats.SEN153_FP9: 9,
    DataFormats.SENINT2: 2,
    DataFormats.SENINT4: 4,
    DataFormats.SENINT8: 8,
    DataFormats.SENINT16: 16,
    DataFormats.SENINT24: 24,
    DataFormats.IEEE_INT64: 64,
    DataFormats.IEEE_INT32: 32,
    DataFormats.SENUINT32: 32,
    DataFormats.SENUINT2: 2,
    DataFormats.IEEE_FP16: 16,
    DataFormats.BOOL: 8,
    DataFormats.BFLOAT16: 16,
    DataFormats.SEN18F_FP24: 24,
}
_PER_STICK = {form: STICK_BYTES * 8 // bits if bits else 0 for form, bits in _BITS.items()}


@dataclass(frozen=True, slots=True)
class DTypeFormats:
    """What a dtype is on either side. `numpy` is the array type of its host bits, None where no tensor has it."""

    host: DataFormats
    device: DataFormats
    numpy: str | None = None


_F = DataFormats
DTYPES: dict[str, DTypeFormats] = {
    "bool": DTypeFormats(_F.BOOL, _F.SEN169_FP16, "bool"),
    # uint8 lives in 32-bit lanes: the card has no 8-bit unsigned format, and the public table says so too.
    "uint8": DTypeFormats(_F.SENUINT32, _F.SENUINT32, "uint8"),
    "int8": DTypeFormats(_F.SENINT8, _F.SENINT8, "int8"),
    "int16": DTypeFormats(_F.SENINT16, _F.SENINT16, "int16"),
    "int32": DTypeFormats(_F.IEEE_INT32, _F.IEEE_INT32, "int32"),
    "int64": DTypeFormats(_F.IEEE_INT64, _F.IEEE_INT32, "int64"),
    "float16": DTypeFormats(_F.IEEE_FP16, _F.SEN169_FP16, "float16"),
    "bfloat16": DTypeFormats(_F.BFLOAT16, _F.SEN169_FP16, "uint16"),
    "float32": DTypeFormats(_F.IEEE_FP32, _F.IEEE_FP32, "float32"),
    "float8_e4m3fn": DTypeFormats(_F.SEN143_FP8, _F.SEN143_FP8, "uint8"),
    "float8_e5m2fnuz": DTypeFormats(_F.SEN152_FP8, _F.SEN152_FP8, "uint8"),
    "qint8": DTypeFormats(_F.SENINT8, _F.SENINT8),
    "quint8": DTypeFormats(_F.SENUINT32, _F.SENUINT32),
    "quint4x2": DTypeFormats(_F.SENUINT2, _F.SENUINT2),
    "quint2x4": DTypeFormats(_F.SENUINT2, _F.SENUINT2),
    "int4": DTypeFormats(_F.SENINT4, _F.SENINT4),
    "int2": DTypeFormats(_F.SENINT2, _F.SENINT2),
    "int24": DTypeFormats(_F.SENINT24, _F.SENINT24),
    "fp9_153": DTypeFormats(_F.SEN153_FP9, _F.SEN153_FP9),
}
TENSOR_DTYPES: tuple[str, ...] = tuple(name for name, formats in DTYPES.items() if formats.numpy is not None)
_FLOATS = (_F.SEN169_FP16, _F.IEEE_FP32, _F.SEN143_FP8, _F.SEN152_FP8, _F.IEEE_FP16, _F.BFLOAT16)
_WHOLE = (_F.SEN169_FP16, _F.IEEE_FP32)  # integers are held as floats too, where a layout says so
# The formats in which the card can hold a tensor of a dtype, its own one among them.
HELD_IN: dict[str, frozenset[DataFormats]] = {
    "bool": frozenset((*_WHOLE, _F.SENINT8, _F.SENINT16, _F.IEEE_INT32, _F.SENUINT32)),
    "uint8": frozenset((*_WHOLE, _F.SENINT8, _F.SENINT16, _F.IEEE_INT32, _F.SENUINT32)),
    "int8": frozenset((*_WHOLE, _F.SENINT8, _F.SENINT16, _F.IEEE_INT32)),
    "int16": frozenset((*_WHOLE, _F.SENINT16, _F.IEEE_INT32)),
    "int32": frozenset((*_WHOLE, _F.IEEE_INT32, _F.SENUINT32)),
    "int64": frozenset((*_WHOLE, _F.IEEE_INT64, _F.IEEE_INT32, _F.SENUINT32)),
} | {name: frozenset(_FLOATS) for name in TENSOR_DTYPES if "float" in name}
_INVALID = DTypeFormats(_F.INVALID, _F.INVALID)
_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32"}
_ALIASES |= {"short": "int16", "char": "int8", "byte": "uint8"}
# torch's other dtypes: on the card they are the host's bytes, without a format.
_KNOWN_ELSEWHERE = {"float64", "complex32", "complex64", "complex128", "uint16", "uint32", "uint64"}
_KNOWN_ELSEWHERE |= {"float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"}


def dtype_name(dtype: object) -> str:
    """torch's name of a dtype without "torch."; UnsupportedFormat for what is no dtype at all."""
    if isinstance(dtype, str):
        name = dtype.removeprefix("torch.")
        name = _ALIASES.get(name, name)
        if name in DTYPES or name in _KNOWN_ELSEWHERE:
            return name
    elif str(dtype).startswith("torch.") and type(dtype).__name__ == "dtype":
        return str(dtype).removeprefix("torch.")
    elif isinstance(dtype, (np.dtype, type)):
        try:
            return np.dtype(dtype).name
        except TypeError:
            pass
    raise UnsupportedFormat(f"{dtype!r} is no dtype; give torch's, numpy's, or one of {', '.join(TENSOR_DTYPES)}")


def formats_of(dtype: object) -> DTypeFormats:
    """Both formats of a dtype; INVALID ones for a dtype the card does not know."""
    return DTYPES.get(dtype_name(dtype), _INVALID)


def get_device_dtype(dtype: object) -> DataFormats:
    """The format in which the card holds a dtype; INVALID if it does not."""
    return formats_of(dtype).device


def is_supported(dtype: object) -> bool:
    """Whether a tensor of this dtype can live on the card."""
    return formats_of(dtype).numpy is not None


def require_supported(dtype: object) -> DTypeFormats:
    """Both formats of a dtype that has one on the card; UnsupportedFormat otherwise."""
    formats = formats_of(dtype)
    if formats.device is DataFormats.INVALID:
        name = dtype_name(dtype)
        hint = "float32" if name.startswith("float") else "one of these"
        raise UnsupportedFormat(
            f"Spyre backend does not support dtype {name}; convert to {hint} first "
            f"(supported: {', '.join(TENSOR_DTYPES)})"
        )
    return formats


def get_elem_in_stick(dtype: object) -> int:
    """Elements of a dtype in one stick of the card."""
    return require_supported(dtype).device.elems_per_stick()
