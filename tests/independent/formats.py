"""Device formats: codes to values and back.

SEN169 is rounded to nearest, ties away from zero. 0x7FFF and 0xFFFF are the infinities, 0x7FFE and 0xFFFE are NaN; what rounds above 0x7FFD is infinite.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FP16_NAN, FP16_INFINITY = 0x7FFE, 0x7FFF


@dataclass(frozen=True)
class Format:
    """Codes are unsigned words; values are float32, or int64 for the integer formats."""

    word: np.dtype
    decode: Callable[[np.ndarray], np.ndarray]
    encode: Callable[[np.ndarray], np.ndarray]


def _decode_sen169(codes: np.ndarray) -> np.ndarray:
    codes = codes.astype(np.uint32)
    magnitude = codes & 0x7FFF
    bits = ((magnitude + (96 << 9)) << 14) | ((codes & 0x8000) << 16)
    bits = np.where(magnitude == 0, (codes & 0x8000) << 16, bits)
    bits = np.where(magnitude == FP16_INFINITY, 0x7F800000 | ((codes & 0x8000) << 16), bits)
    return np.where(magnitude == FP16_NAN, np.uint32(0x7FC00000), bits).astype(np.uint32).view(np.float32)


def _encode_sen169(values: np.ndarray) -> np.ndarray:
    values = np.ascontiguousarray(values, dtype=np.float32)
    bits = values.view(np.uint32).astype(np.int64)
    magnitude = (((bits & 0x7FFFFFFF) + (1 << 13)) >> 14) - (96 << 9)
    magnitude = np.where(magnitude > 0, magnitude, 0)
    magnitude = np.where(magnitude >= FP16_NAN, FP16_INFINITY, magnitude)
    codes = magnitude | ((bits >> 16) & 0x8000)
    return np.where(np.isnan(values), FP16_NAN, codes).astype(np.uint16)


def _eight_bits(fraction: int, bias: int, largest: int, above: int, nan: int) -> Format:
    """A format of 256 codes, its values rising from 0 to `largest`. Nearest-even, as torch casts; what is `above`."""
    code = np.arange(128)
    scale, part = code >> fraction, (code & ((1 << fraction) - 1)) / (1 << fraction)
    ladder = np.where(scale == 0, part * 2.0 ** (1 - bias), (1 + part) * 2.0 ** (scale - bias))
    table = np.concatenate([ladder, -ladder]).astype(np.float32)
    table[largest + 1 : 128] = table[largest + 129 :] = table[nan] = np.nan
    steps = np.append(ladder[: largest + 1], 2 * ladder[largest] - ladder[largest - 1])
    middles = (steps[1:] + steps[:-1]) / 2

    def encode(values: np.ndarray) -> np.ndarray:
        values = np.asarray(values, dtype=np.float32)
        low, high = (np.searchsorted(middles, np.abs(values), side=side) for side in ("left", "right"))
        codes = np.where(low % 2 == 0, low, high)  # they differ on a tie alone
        codes = np.where(codes > largest, above, codes)
        signed = codes | np.where(np.signbit(values) & (codes != nan) & ((codes > 0) | (nan != 0x80)), 0x80, 0)
        return np.where(np.isnan(values), nan, signed).astype(np.uint8)

    return Format(np.dtype(np.uint8), lambda codes: table[codes], encode)


def _integer(kind: type[np.integer]) -> Format:
    signed = np.dtype(kind)
    word = np.dtype(f"u{signed.itemsize}")
    limits = np.iinfo(kind)

    def encode(values: np.ndarray) -> np.ndarray:
        if values.dtype.kind == "f":
            whole = np.trunc(np.where(np.isnan(values), 0, values).astype(np.float64))
            values = np.clip(whole, float(limits.min), float(limits.max)).astype(np.int64)
        return values.astype(np.int64).astype(word)

    return Format(word, lambda codes: codes.view(signed).astype(np.int64), encode)


def _as_float32(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)


FORMATS = {
    "SEN169_FP16": Format(np.dtype(np.uint16), _decode_sen169, _encode_sen169),
    "IEEE_FP32": Format(np.dtype(np.uint32), lambda codes: codes.view(np.float32), _as_float32),
    "SEN143_FP8": _eight_bits(3, bias=7, largest=126, above=126, nan=0x7F),
    "SEN152_FP8": _eight_bits(2, bias=16, largest=127, above=0x80, nan=0x80),
    "SENINT8": _integer(np.int8),
    "SENINT16": _integer(np.int16),
    "IEEE_INT32": _integer(np.int32),
    "SENUINT32": _integer(np.uint32),
}
