"""The bits of every format, as vectorised numpy: the readable twin of `csrc/card/formats/formats.h` (contract N1, N8).

Device codes are unsigned or signed integers of the format's width; IEEE_FP32 codes are float32 arrays.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openspyre.spec.errors import UnsupportedFormat, ValueOutOfRange
from openspyre.spec.formats import DataFormats, dtype_name, require_supported

Array = NDArray[Any]
_INFINITY = 0x7FFF
_NAN = 0x7FFE  # would be the largest number; the documents merge NaN and infinity (N2)


def sen169_encode(values: ArrayLike) -> NDArray[np.uint16]:
    """To SEN169 with one rounding: nearest, ties away from zero; too small is zero, too large infinity, with their signs.

    float64 is rounded directly; every other type passes exactly through float32 first.
    """
    array = np.asarray(values)
    wide = array.dtype == np.float64
    bits = array.view(np.uint64) if wide else array.astype(np.float32).view(np.uint32).astype(np.uint64)
    width, fraction, bias = (64, 52, 1023) if wide else (32, 23, 127)
    sign = (bits >> np.uint64(width - 16)) & np.uint64(0x8000)
    magnitude = bits & np.uint64((1 << (width - 1)) - 1)
    dropped = fraction - 9
    rounded = (magnitude + np.uint64(1 << (dropped - 1))) >> np.uint64(dropped)
    lowest = np.uint64((bias - 31) << 9)
    code = np.maximum(rounded, lowest) - lowest
    code = np.where(code >= _NAN, np.uint64(_INFINITY), code)
    code = np.where(magnitude > np.uint64((2 * bias + 1) << fraction), np.uint64(_NAN), code)
    return np.asarray(sign | code, dtype=np.uint16)


def sen169_decode(codes: ArrayLike) -> NDArray[np.float32]:
    """From SEN169, exactly: what the host reads and what the card computes with."""
    code = np.asarray(codes, dtype=np.uint16).astype(np.uint32)
    sign = (code & np.uint32(0x8000)) << np.uint32(16)
    magnitude = code & np.uint32(0x7FFF)
    bits = (magnitude << np.uint32(14)) + np.uint32(96 << 23)
    bits = np.where(magnitude == 0, np.uint32(0), bits)
    bits = np.where(magnitude == _INFINITY, np.uint32(0x7F800000), bits)
    bits = np.where(magnitude == _NAN, np.uint32(0x7FC00000), bits)
    return np.asarray(sign | bits, dtype=np.uint32).view(np.float32)


def bfloat16_encode(values: ArrayLike) -> NDArray[np.uint16]:
    """float32 to bfloat16, nearest-even; NaN becomes the quiet NaN of its sign."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint64(16)
    quiet_nan = ((bits >> np.uint32(16)) & np.uint32(0x8000)) | np.uint32(0x7FC0)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > 0x7F800000
    return np.where(is_nan, quiet_nan, rounded).astype(np.uint16)


def bfloat16_decode(codes: ArrayLike) -> NDArray[np.float32]:
    return (np.asarray(codes, dtype=np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


@cache
def _fp8_magnitudes(exponent_bits: int, bias: int) -> NDArray[np.float64]:
    """Value of codes 0..128 (the sign apart), as if the format went on above its largest number."""
    fraction_bits = 7 - exponent_bits
    code = np.arange(129)
    exponent, fraction = code >> fraction_bits, code & ((1 << fraction_bits) - 1)
    significand = fraction / (1 << fraction_bits) + (exponent > 0)
    return np.asarray(np.ldexp(significand, np.maximum(exponent, 1) - bias), dtype=np.float64)


def _fp8_encode(values: ArrayLike, exponent_bits: int, bias: int, largest: int) -> tuple[Array, Array]:
    """Nearest-even code of each magnitude, `largest + 1` where it is too large or NaN; and the signs."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is no reason to warn
        array = np.asarray(values, dtype=np.float64)
    magnitudes = _fp8_magnitudes(exponent_bits, bias)[: largest + 2]
    middles = (magnitudes[1:] + magnitudes[:-1]) / 2
    code = np.searchsorted(middles, np.abs(array), side="left")
    tie = middles[np.minimum(code, largest)] == np.abs(array)
    code = np.where(np.isnan(array), largest + 1, code + (tie & (code % 2 == 1)))
    return code, np.signbit(array)


def e4m3fn_encode(values: ArrayLike) -> NDArray[np.uint8]:
    """To SEN143_FP8, nearest-even; beyond 448, infinity included, saturates as torch does."""
    code, negative = _fp8_encode(values, exponent_bits=4, bias=7, largest=0x7E)
    code = np.where(np.isnan(np.asarray(values)), 0x7F, np.minimum(code, 0x7E))
    return np.asarray(code | (negative * 0x80), dtype=np.uint8)


def e4m3fn_decode(codes: ArrayLike) -> NDArray[np.float32]:
    code = np.asarray(codes, dtype=np.uint8)
    value = np.where(code & 0x7F == 0x7F, np.nan, _fp8_magnitudes(4, 7)[code & 0x7F])
    return np.asarray(np.where(code & 0x80, -value, value), dtype=np.float32)


def e5m2fnuz_encode(values: ArrayLike) -> NDArray[np.uint8]:
    """To SEN152_FP8, nearest-even; no infinity, no negative zero, one NaN (0x80)."""
    code, negative = _fp8_encode(values, exponent_bits=5, bias=16, largest=0x7F)
    signed = code | (negative & (code > 0) & (code < 0x80)) * 0x80
    return np.asarray(signed, dtype=np.uint8)


def e5m2fnuz_decode(codes: ArrayLike) -> NDArray[np.float32]:
    code = np.asarray(codes, dtype=np.uint8)
    magnitude = _fp8_magnitudes(5, 16)[code & 0x7F]
    value = np.where(code == 0x80, np.nan, np.where(code & 0x80, -magnitude, magnitude))
    return np.asarray(value, dtype=np.float32)


def float_to_integer(values: ArrayLike, target: type[np.signedinteger[Any]]) -> Array:
    """Truncates, saturates, and turns NaN into 0 (N8)."""
    array = np.nan_to_num(np.trunc(np.asarray(values, dtype=np.float64)), nan=0.0)
    limits = np.iinfo(target)
    inside = np.clip(array, limits.min, limits.max)
    # 2**63 - 1 is no double: clip() alone would leave 2**63 there.
    result = np.where(array >= limits.max, 0, inside).astype(np.int64)
    return np.where(array >= limits.max, limits.max, result).astype(target)


def require_int32(values: ArrayLike) -> NDArray[np.int32]:
    """int64 as the card holds it; ValueOutOfRange names the first value that does not fit."""
    array = np.asarray(values)
    limits = np.iinfo(np.int32)
    outside = np.flatnonzero((array < limits.min) | (array > limits.max))
    if outside.size:
        index = tuple(int(i) for i in np.unravel_index(outside[0], array.shape))
        raise ValueOutOfRange(
            f"int64 value {array[index]} at index {index} does not fit the card's int32 "
            f"({limits.min} to {limits.max}); keep this tensor on the CPU or scale it down"
        )
    return array.astype(np.int32)


def encode_constant(value: float, device_format: DataFormats) -> int:
    """The bits of a scalar operand: fp32's for IEEE_FP32, SEN169's for every other format."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if device_format is DataFormats.IEEE_FP32:
        return int(single.view(np.uint32))
    return int(sen169_encode(single))


def rounded(value: float, dtype: str) -> float:
    """A number as an op of this float dtype takes it."""
    if require_supported(dtype).device is DataFormats.SEN169_FP16:
        return float(sen169_decode(sen169_encode(np.float64(value))))
    return float(np.float32(value))


def float_bits(value: float) -> int:
    """The bits of a number in fp32."""
    with np.errstate(over="ignore"):
        return int(np.float32(value).view(np.uint32))


def float_of(bits: int) -> float:
    """The number whose bits in fp32 these are."""
    return float(np.uint32(bits).view(np.float32))


def decode_host(array: ArrayLike, dtype: object) -> Array:
    """A host array (bfloat16 and fp8 as their bits) as numbers."""
    match dtype_name(dtype):
        case "bfloat16":
            return bfloat16_decode(array)
        case "float8_e4m3fn":
            return e4m3fn_decode(array)
        case "float8_e5m2fnuz":
            return e5m2fnuz_decode(array)
        case _:
            return np.asarray(array)


def to_device(array: ArrayLike, dtype: object) -> Array:
    """The codes the card holds for a host array of this dtype, in the dtype's own device format."""
    formats = require_supported(dtype)
    if formats.numpy is None:
        raise UnsupportedFormat(f"no tensor on the card has dtype {dtype_name(dtype)}")
    host = np.asarray(array, dtype=formats.numpy)
    match formats.device:
        case DataFormats.SEN169_FP16:
            return sen169_encode(decode_host(host, dtype).astype(np.float32))
        case DataFormats.IEEE_INT32:
            return require_int32(host)
        case DataFormats.SENUINT32:
            return host.astype(np.uint32)
        case _:
            return host


def to_host(codes: ArrayLike, dtype: object) -> Array:
    """What the host reads from device codes in the dtype's own device format (bfloat16 and fp8 as their bits)."""
    formats = require_supported(dtype)
    name = dtype_name(dtype)
    if formats.device is not DataFormats.SEN169_FP16:
        return np.asarray(codes).astype(formats.numpy)
    if name == "bool":
        return np.asarray(np.asarray(codes, dtype=np.uint16) & 0x7FFF, dtype=np.bool_)
    values = sen169_decode(codes)
    if name == "bfloat16":
        return bfloat16_encode(values)
    with np.errstate(over="ignore"):
        return values.astype(formats.numpy)
