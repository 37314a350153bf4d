"""The oracle is exact rational arithmetic on the definition of each format, never the code under test."""

from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openspyre.spec import encodings as enc
from openspyre.spec.errors import ValueOutOfRange
from openspyre.spec.formats import DataFormats

ALL_CODES = np.arange(1 << 16, dtype=np.uint16)


def sen169_value(code: int) -> Fraction | None:
    """By the definition; None for infinity and NaN."""
    exponent, fraction = (code >> 9) & 63, code & 511
    if exponent == fraction == 0:
        return Fraction(0)
    if exponent == 63 and fraction >= 510:
        return None
    magnitude = Fraction(2) ** (exponent - 31) * (1 + Fraction(fraction, 512))
    return -magnitude if code & 0x8000 else magnitude


# Code 0 stands for 2**-31, the last for the next number above the largest: where rounding to them would lead.
NUMBERS = [Fraction(1, 2**31), *(sen169_value(c) or Fraction(0) for c in range(1, 0x7FFE)), Fraction(2**23 * 1022)]


def sen169_nearest(value: float) -> int:
    """Nearest by distance, ties away from zero."""
    sign = 0x8000 if np.signbit(value) else 0
    if np.isnan(value):
        return sign | 0x7FFE
    if np.isinf(value):
        return sign | 0x7FFF
    magnitude = abs(Fraction(value))
    i = bisect_left(NUMBERS, magnitude)
    if i == 0:
        return sign
    if i == len(NUMBERS):
        return sign | 0x7FFF
    below, above = NUMBERS[i - 1], NUMBERS[i]
    nearest = i if magnitude - below >= above - magnitude else i - 1
    return sign | (0x7FFF if nearest == len(NUMBERS) - 1 else nearest)


def test_every_sen169_code_decodes_to_its_definition() -> None:
    decoded = enc.sen169_decode(ALL_CODES)
    for code, value in enumerate(decoded.tolist()):
        expected = sen169_value(code)
        if expected is None:
            assert np.isinf(value) if code & 0x7FFF == 0x7FFF else np.isnan(value)
        else:
            assert Fraction(value) == expected
    assert np.array_equal(np.signbit(decoded), ALL_CODES >= 0x8000)


def test_every_sen169_code_survives_a_round_trip_in_both_widths() -> None:
    decoded = enc.sen169_decode(ALL_CODES)
    assert np.array_equal(enc.sen169_encode(decoded), ALL_CODES)
    assert np.array_equal(enc.sen169_encode(decoded.astype(np.float64)), ALL_CODES)


def test_every_float16_goes_to_the_nearest_sen169() -> None:
    halves = ALL_CODES.view(np.float16)
    expected = [sen169_nearest(value) for value in halves.tolist()]
    assert np.array_equal(enc.to_device(halves, "float16"), np.array(expected, dtype=np.uint16))


def test_every_bfloat16_goes_to_the_nearest_sen169() -> None:
    wide = (ALL_CODES.astype(np.uint32) << 16).view(np.float32)
    expected = [sen169_nearest(value) for value in wide.tolist()]
    assert np.array_equal(enc.to_device(ALL_CODES, "bfloat16"), np.array(expected, dtype=np.uint16))


@given(st.floats(width=32))
def test_any_float32_goes_to_the_nearest_sen169(value: float) -> None:
    assert int(enc.sen169_encode(np.float32(value))) == sen169_nearest(value)


@given(st.floats(allow_nan=False) | st.floats(min_value=2.0**-33, max_value=2.0**34))
def test_a_float64_is_rounded_once(value: float) -> None:
    assert int(enc.sen169_encode(np.float64(value))) == sen169_nearest(value)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0.0, 0x0000),
        (1.0, 0x3E00),
        (-1.0, 0xBE00),
        (0.5, 0x3C00),
        (2.0, 0x4000),
        (1 / 3, 0x3AAB),
        (0.1, 0x3733),
        (448.0, 0x4F80),
        (65504.0, 0x5E00),
        (2.0**-31, 0x0000),
        (1.001 * 2.0**-31, 0x0001),
        (np.inf, 0x7FFF),
        (1e-30, 0x0000),
        (-np.inf, 0xFFFF),
        (8564768768.0, 0x7FFD),
        (8568962560.0, 0x7FFD),
        (8568963072.0, 0x7FFF),
        (2.0**33, 0x7FFF),
        (np.nan, 0x7FFE),
    ],
)
def test_golden_vectors_of_sen169(value: float, code: int) -> None:
    assert int(enc.sen169_encode(np.float32(value))) == code
    assert enc.encode_constant(value, DataFormats.SEN169_FP16) == code


def test_a_constant_is_fp32_bits_only_for_fp32() -> None:
    assert enc.encode_constant(1.0, DataFormats.IEEE_FP32) == 0x3F800000
    assert enc.encode_constant(1e300, DataFormats.IEEE_FP32) == 0x7F800000
    assert enc.encode_constant(1.0, DataFormats.SENINT8) == 0x3E00


def test_the_host_reads_65504_as_infinity() -> None:
    read = enc.to_host(enc.to_device(np.array([65504, 1.5], np.float16), "float16"), "float16")
    assert read.tolist() == [np.inf, 1.5]


@pytest.mark.parametrize(("dtype", "infinity"), [("float16", 0x7C00), ("bfloat16", 0x7F80)])
def test_infinities_and_nan_stay_apart_on_the_way_there_and_back(dtype: str, infinity: int) -> None:
    magnitude = ALL_CODES & 0x7FFF
    patterns = ALL_CODES[magnitude >= infinity]
    host = patterns.view(np.float16) if dtype == "float16" else patterns
    read = enc.to_host(enc.to_device(host, dtype), dtype).view(np.uint16)
    infinite = patterns & 0x7FFF == infinity
    assert np.array_equal(read[infinite], patterns[infinite])
    assert np.all(read[~infinite] & 0x7FFF > infinity)
    assert np.array_equal(read & 0x8000, patterns & 0x8000)


@given(st.floats(width=32, allow_nan=False))
def test_bfloat16_is_nearest_even(value: float) -> None:
    code = int(enc.bfloat16_encode(np.float32(value)))
    got = float(enc.bfloat16_decode(code))
    if not np.isfinite(got):
        assert abs(value) >= 2.0**128 * (1 - 2.0**-9)
        return
    error = abs(Fraction(got) - Fraction(value))
    for neighbour in (code - 1, code + 1):
        other = float(enc.bfloat16_decode(neighbour & 0xFFFF))
        if np.isfinite(other) and not np.isnan(other):
            distance = abs(Fraction(other) - Fraction(value))
            assert error < distance or (error == distance and code % 2 == 0)


def fp8_value(code: int, exponent_bits: int, bias: int) -> Fraction:
    fraction_bits = 7 - exponent_bits
    exponent, fraction = code >> fraction_bits, Fraction(code % (1 << fraction_bits), 1 << fraction_bits)
    return Fraction(2) ** (max(exponent, 1) - bias) * (fraction + (exponent > 0))


FP8 = {
    "e4m3fn": (enc.e4m3fn_encode, enc.e4m3fn_decode, 4, 7, {0x7F, 0xFF}, 0x7E),
    "e5m2fnuz": (enc.e5m2fnuz_encode, enc.e5m2fnuz_decode, 5, 16, {0x80}, 0x7F),
}


@pytest.mark.parametrize("name", FP8)
def test_every_fp8_code_decodes_to_its_definition_and_back(name: str) -> None:
    encode, decode, exponent_bits, bias, nans, _ = FP8[name]
    for code in range(256):
        value = float(decode(code))
        if code in nans:
            assert np.isnan(value)
        else:
            magnitude = fp8_value(code & 0x7F, exponent_bits, bias)
            assert Fraction(value) == (-magnitude if code & 0x80 else magnitude)
            assert int(encode(value)) == code


@pytest.mark.parametrize("name", FP8)
@given(value=st.floats(width=32) | st.floats(min_value=-70000, max_value=70000, width=32))
def test_fp8_is_nearest_even_within_its_range(name: str, value: float) -> None:
    encode, _, exponent_bits, bias, nans, largest = FP8[name]
    got = int(encode(np.float32(value)))
    numbers = [fp8_value(code, exponent_bits, bias) for code in range(largest + 2)]
    limit = (numbers[largest] + numbers[largest + 1]) / 2
    if np.isnan(value):
        assert got in nans
    elif np.isinf(value) or abs(Fraction(value)) >= limit:
        sign = 0x80 if value < 0 else 0
        assert got == (0x7E | sign if name == "e4m3fn" else 0x80)
    else:
        distances = [abs(abs(Fraction(value)) - number) for number in numbers[: largest + 1]]
        nearest = [code for code, distance in enumerate(distances) if distance == min(distances)]
        assert got & 0x7F in nearest
        assert len(nearest) == 1 or got % 2 == 0
        assert bool(got & 0x80) == (bool(np.signbit(value)) and not (name == "e5m2fnuz" and got & 0x7F == 0))


def test_floats_become_integers_by_truncation_and_saturation() -> None:
    got = enc.float_to_integer([1.9, -1.9, 3e9, -3e9, np.inf, -np.inf, np.nan], np.int32)
    assert got.tolist() == [1, -1, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0]
    assert enc.float_to_integer([1e30, -1e30, 2.0**62], np.int64).tolist() == [2**63 - 1, -(2**63), 2**62]


def test_an_int64_beyond_int32_is_named_with_its_index() -> None:
    values = np.zeros((2, 3), np.int64)
    values[1, 2] = 2**31
    with pytest.raises(ValueOutOfRange, match=r"2147483648 at index \(1, 2\)"):
        enc.to_device(values, "int64")
    values[1, 2] = -(2**31)
    assert np.array_equal(enc.to_host(enc.to_device(values, "int64"), "int64"), values)


def test_bool_is_one_or_zero_and_any_nonzero_reads_true() -> None:
    assert enc.to_device([True, False], "bool").tolist() == [0x3E00, 0]
    assert enc.to_host([0x3E00, 0, 0x8000, 0x0001, 0x7FFF], "bool").tolist() == [True, False, False, True, True]
