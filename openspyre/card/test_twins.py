"""The card's C++ and the specification's Python are written apart; here they are held equal."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre.card import _card
from openspyre.spec import encodings
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InvalidArgument, InvalidLayout, SpyreError, UnsupportedFormat, ValueOutOfRange
from openspyre.spec.formats import DTYPES, HELD_IN, TENSOR_DTYPES, DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.test_addressing import TiledCase, host_offsets, tiled

FP16 = DataFormats.SEN169_FP16
ALL_CODES = np.arange(1 << 16, dtype=np.uint16)


def bits_of(dtype: str) -> NDArray[Any]:
    """Every pattern of the narrow types, a wide sample (edges included) of the others."""
    numpy_dtype = np.dtype(DTYPES[dtype].numpy)
    if dtype == "bool":
        return np.array([True, False])
    if numpy_dtype.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(numpy_dtype)
    if numpy_dtype.itemsize == 2:
        return ALL_CODES.view(numpy_dtype)
    sample = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    edges = (ALL_CODES.astype(np.uint32) << 16)[:, None] | np.array(
        [0, 1, 0x1FFF, 0x2000, 0x7FFF, 0x8000, 0xFFFF], "u4"
    )
    words = np.concatenate([sample, edges.ravel()])
    return words.view(np.int32).astype(np.int64) if dtype == "int64" else words.view(numpy_dtype)


def same_bits(got: NDArray[Any], expected: NDArray[Any]) -> bool:
    return np.array_equal(got, np.ascontiguousarray(expected).view(np.uint8).ravel())


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
def test_host_to_device_is_the_specification_bit_for_bit(dtype: str) -> None:
    values = bits_of(dtype)
    got = _card.convert_to_device(values, dtype, dtype, int(DTYPES[dtype].device))
    assert same_bits(got, encodings.to_device(values, dtype))


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
def test_device_to_host_is_the_specification_bit_for_bit(dtype: str) -> None:
    codes = ALL_CODES if DTYPES[dtype].device is FP16 else encodings.to_device(bits_of(dtype), dtype)
    got = _card.convert_to_host(codes, dtype, int(DTYPES[dtype].device), dtype)
    expected = encodings.to_host(codes, dtype)
    if dtype == "float16" or dtype == "bfloat16":
        nan = np.isnan(encodings.sen169_decode(codes))
        read = got.view(expected.dtype)
        assert np.array_equal(np.isnan(encodings.decode_host(read, dtype)), nan)
        assert np.array_equal(read[~nan].view(np.uint16), expected[~nan].view(np.uint16))
    else:
        assert same_bits(got, expected)


def test_float32_goes_to_sen169_as_specified() -> None:
    values = bits_of("float32")
    assert same_bits(_card.convert_to_device(values, "float32", "float16", int(FP16)), encodings.sen169_encode(values))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2fnuz"])
def test_fp8_decodes_to_float32_as_specified(dtype: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    got = _card.convert_to_host(codes, dtype, int(DTYPES[dtype].device), "float32").view(np.float32)
    assert np.array_equal(got, encodings.decode_host(codes, dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2fnuz"])
def test_float32_encodes_to_fp8_as_specified(dtype: str) -> None:
    values = bits_of("float32")
    encode = encodings.e4m3fn_encode if dtype == "float8_e4m3fn" else encodings.e5m2fnuz_encode
    got = _card.convert_to_device(values, "float32", dtype, int(DTYPES[dtype].device))
    assert np.array_equal(got, encode(values))


def test_an_int64_that_does_not_fit_is_found_at_its_index() -> None:
    values = np.arange(100, dtype=np.int64)
    values[70] = 1 << 31
    with pytest.raises(ValueOutOfRange, match="70"):
        _card.convert_to_device(values, "int64", "int64", int(DataFormats.IEEE_INT32))


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
def test_a_dtype_is_held_in_the_formats_the_specification_says(dtype: str) -> None:
    for form in DataFormats:
        if form in HELD_IN[dtype]:
            assert _card.intern([1], [1], dtype, [1, form.elems_per_stick()], [-1, -1], int(form)).device_bytes == 128
        elif form.bits:
            with pytest.raises(UnsupportedFormat):
                _card.intern([1], [1], dtype, [1, form.elems_per_stick()], [-1, -1], int(form))


def test_a_type_the_card_lacks_has_no_conversion() -> None:
    with pytest.raises(UnsupportedFormat):
        _card.convert_to_device(np.zeros(1), "float64", "float64", 1)


@given(tiled())
def test_tiled_layouts_and_places_of_elements_agree(case: TiledCase) -> None:
    layout, size, stride = case
    dtype = next(name for name, formats in DTYPES.items() if formats.device is layout.device_dtype and formats.numpy)
    shape = _card.intern(size, stride, dtype, layout.device_size, layout.stride_map, int(layout.device_dtype))
    assert shape.layout_text == str(layout)
    assert shape.device_bytes == layout.device_bytes
    addressing = layout.addressing(size, stride)
    assert shape.host_elements == addressing.host_elements
    for offset in host_offsets(size, stride)[:500]:
        assert shape.device_offset(offset) == addressing.device_offset(offset)
    for outside in (-1, addressing.host_elements):
        with pytest.raises(InvalidArgument):
            shape.device_offset(outside)


@given(
    st.lists(st.integers(0, 200), max_size=7),
    st.data(),
    st.sampled_from(["float16", "float32", "int8", "uint8", "int64"]),
    st.sampled_from(list(ElementArrangement)),
)
def test_the_tiling_rule_and_its_refusals_agree(
    size: list[int], data: st.DataObject, dtype: str, arrangement: ElementArrangement
) -> None:
    order = list(data.draw(st.permutations(range(len(size)))))
    order += data.draw(st.sampled_from([[], [-1], [0]]))
    stride = list(row_major(size))
    form = DTYPES[dtype].device
    try:
        expected = SpyreTensorLayout(size, stride, dtype, order, arrangement)
    except InvalidLayout as refusal:
        with pytest.raises(InvalidLayout) as caught:
            _card.tiled_layout(size, stride, int(form), order, int(arrangement))
        assert str(caught.value).split("(")[0].split(":")[0] == str(refusal).split("(")[0].split(":")[0]
        return
    got = _card.tiled_layout(size, stride, int(form), order, int(arrangement))
    assert got == (expected.device_size, expected.stride_map, int(form), int(arrangement))
    text = _card.intern(size, stride, dtype, *got).layout_text
    assert text == repr(expected)
    assert eval(text) == expected


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 9), st.integers(-1, 130)), max_size=3),
    st.integers(-1, 3),
)
def test_explicit_layouts_fit_in_both_or_in_neither(
    host: list[tuple[int, int]], device: list[tuple[int, int]], stick_stride: int
) -> None:
    size, stride = [n for n, _ in host], [s for _, s in host]
    layout = SpyreTensorLayout([*(n for n, _ in device), 64], [*(s for _, s in device), stick_stride], FP16)
    try:
        addressing = layout.addressing(size, stride)
    except InvalidLayout:
        with pytest.raises(InvalidLayout):
            _card.intern(size, stride, "float16", layout.device_size, layout.stride_map, int(FP16))
        return
    shape = _card.intern(size, stride, "float16", layout.device_size, layout.stride_map, int(FP16))
    for offset in host_offsets(size, stride):
        assert shape.device_offset(offset) == addressing.device_offset(offset)


def test_errors_of_the_card_arrive_as_the_catalogues_classes() -> None:
    with pytest.raises(SpyreError) as caught:
        _card.card(99)
    assert type(caught.value).__name__ == "InvalidDevice"
