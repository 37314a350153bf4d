import numpy as np
import pytest

from openspyre.spec.errors import UnsupportedFormat
from openspyre.spec.formats import (
    DataFormats,
    ElementArrangement,
    get_device_dtype,
    get_elem_in_stick,
    is_supported,
)


def test_a_format_prints_as_python_that_evaluates_back() -> None:
    for form in DataFormats:
        assert str(form) == repr(form) == f"{form}" == f"DataFormats.{form.name}"
        assert eval(repr(form)) is form
    assert repr(ElementArrangement.EXX2) == "ElementArrangement.EXX2"


@pytest.mark.parametrize(
    ("name", "per_stick"),
    [
        ("SEN169_FP16", 64),
        ("IEEE_FP32", 32),
        ("INVALID", 0),
        ("SEN143_FP8", 128),
        ("SEN152_FP8", 128),
        ("SENINT2", 512),
        ("SENINT4", 256),
        ("SENINT8", 128),
        ("SENINT16", 64),
        ("IEEE_INT64", 16),
        ("IEEE_INT32", 32),
        ("SENUINT32", 32),
        ("IEEE_FP16", 64),
        ("BFLOAT16", 64),
    ],
)
def test_elements_per_stick_are_the_documented_ones(name: str, per_stick: int) -> None:
    assert DataFormats[name].elems_per_stick() == per_stick


@pytest.mark.parametrize(
    ("dtype", "form", "per_stick"),
    [
        ("float16", "SEN169_FP16", 64),
        ("torch.bfloat16", "SEN169_FP16", 64),
        ("float32", "IEEE_FP32", 32),
        ("bool", "SEN169_FP16", 64),
        (np.int8, "SENINT8", 128),
        (np.dtype("int16"), "SENINT16", 64),
        (np.dtype("int32"), "IEEE_INT32", 32),
        (np.int64, "IEEE_INT32", 32),
        ("uint8", "SENUINT32", 32),
        ("float8_e4m3fn", "SEN143_FP8", 128),
        ("float8_e5m2fnuz", "SEN152_FP8", 128),
    ],
)
def test_a_dtype_has_its_documented_device_format(dtype: object, form: str, per_stick: int) -> None:
    assert get_device_dtype(dtype) is DataFormats[form]
    assert get_elem_in_stick(dtype) == per_stick
    assert is_supported(dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex64", np.complex128, np.float64, np.uint16])
def test_a_dtype_the_card_lacks_is_invalid_and_named(dtype: object) -> None:
    assert get_device_dtype(dtype) is DataFormats.INVALID
    assert not is_supported(dtype)
    with pytest.raises(UnsupportedFormat, match=r"does not support dtype (float64|complex|uint16).*supported: bool"):
        get_elem_in_stick(dtype)


def test_torch_dtypes_are_known_by_their_name_alone() -> None:
    foreign = type("dtype", (), {"__str__": lambda self: "torch.float8_e4m3fn"})()
    assert get_device_dtype(foreign) is DataFormats.SEN143_FP8
    unknown = type("dtype", (), {"__str__": lambda self: "torch.qint32"})()
    assert get_device_dtype(unknown) is DataFormats.INVALID


@pytest.mark.parametrize("nonsense", ["float17", "", 3, None, object])
def test_what_is_no_dtype_raises(nonsense: object) -> None:
    with pytest.raises(UnsupportedFormat):
        get_elem_in_stick(nonsense)
