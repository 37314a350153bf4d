import copy
import pickle
from typing import Any

import numpy as np
import pytest

from openspyre.spec.errors import InvalidLayout, UnsupportedFormat, UnsupportedRank
from openspyre.spec.formats import DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout, rebuild_layout

FP16 = DataFormats.SEN169_FP16


def stl(size: list[int], dtype: str = "float16", order: list[int] | None = None) -> SpyreTensorLayout:
    return SpyreTensorLayout(size, dtype) if order is None else SpyreTensorLayout(size, dtype, order)


WORKED_EXAMPLES: list[tuple[SpyreTensorLayout, list[int], list[int], int]] = [
    (stl([]), [1, 64], [-1, -1], 128),
    (stl([1]), [1, 64], [-1, -1], 128),
    (stl([64]), [1, 64], [64, 1], 128),
    (stl([100]), [2, 64], [64, 1], 256),
    (stl([4, 128]), [2, 4, 64], [64, 128, 1], 1024),
    (stl([33, 70]), [2, 33, 64], [64, 70, 1], 8448),
    (stl([7, 1]), [1, 7, 64], [-1, 1, -1], 896),
    (stl([1, 7]), [1, 1, 64], [64, -1, 1], 128),
    (stl([3, 5, 130]), [5, 3, 3, 64], [130, 64, 650, 1], 5760),
    (stl([3, 5, 130], "float32"), [5, 5, 3, 32], [130, 32, 650, 1], 9600),
    (stl([2, 3, 4, 65]), [3, 4, 2, 2, 64], [260, 65, 64, 780, 1], 6144),
    (stl([2, 3, 4, 5, 6]), [3, 4, 5, 1, 2, 64], [120, 30, 6, 64, 360, 1], 15360),
    (stl([2, 2, 2, 2, 2, 100]), [2, 2, 2, 2, 2, 2, 64], [800, 400, 200, 100, 64, 1600, 1], 8192),
    (stl([96, 200], order=[1, 0]), [2, 200, 64], [12800, 1, 200], 51200),
    (stl([6, 128, 96], order=[1, 0, 2]), [6, 2, 128, 64], [12288, 64, 96, 1], 196608),
    (stl([6, 128, 96], order=[0, 2, 1]), [96, 2, 6, 64], [1, 6144, 12288, 96], 147456),
    (stl([96, 200], order=[0, 1, -1]), [200, 1, 96, 64], [1, -1, 200, -1], 2457600),
    (stl([40], order=[0, -1]), [1, 40, 64], [-1, 1, -1], 5120),
    (stl([10, 300], "int8"), [3, 10, 128], [128, 300, 1], 3840),
    (stl([10, 300], "float8_e4m3fn"), [3, 10, 128], [128, 300, 1], 3840),
    (stl([10, 50], "bool"), [1, 10, 64], [64, 50, 1], 1280),
    (SpyreTensorLayout([8, 40], [1, 8], "float16", [0, 1]), [1, 8, 64], [512, 1, 8], 1024),
    (stl([512, 256]), [4, 512, 64], [64, 256, 1], 4 * 512 * 128),
    (stl([512, 256], order=[1, 0]), [8, 256, 64], [16384, 1, 256], 8 * 256 * 128),
    (stl([512, 8, 256], order=[2, 1, 0]), [8, 8, 256, 64], [256, 131072, 1, 2048], 8 * 8 * 256 * 128),
    (stl([512, 256], order=[0, 1, -1]), [256, 1, 512, 64], [1, -1, 256, -1], 256 * 512 * 128),
    (stl([5, 10, 200]), [10, 4, 5, 64], [200, 64, 2000, 1], 25600),
]


@pytest.mark.parametrize(("layout", "device_size", "stride_map", "device_bytes"), WORKED_EXAMPLES)
def test_worked_examples_of_the_documents(
    layout: SpyreTensorLayout, device_size: list[int], stride_map: list[int], device_bytes: int
) -> None:
    assert (layout.device_size, layout.stride_map, layout.device_bytes) == (device_size, stride_map, device_bytes)
    assert layout.elems_per_stick() == device_size[-1]


def test_all_constructors_by_position_and_by_keyword_agree() -> None:
    expected = SpyreTensorLayout([2, 33, 64], [64, 70, 1], FP16)
    assert expected.element_arrangement is ElementArrangement.STANDARD
    same = [
        SpyreTensorLayout([33, 70], "float16"),
        SpyreTensorLayout(host_size=(33, 70), dtype=np.float16),
        SpyreTensorLayout([33, 70], "float16", [0, 1]),
        SpyreTensorLayout([33, 70], "float16", dim_order=[0, 1]),
        SpyreTensorLayout([33, 70], [70, 1], "float16", [0, 1]),
        SpyreTensorLayout([33, 70], [70, 1], "float16", [0, 1], ElementArrangement.STANDARD),
        SpyreTensorLayout(host_size=[33, 70], host_strides=[70, 1], dtype="float16", dim_order=[0, 1]),
        SpyreTensorLayout(device_size=[2, 33, 64], stride_map=[64, 70, 1], device_dtype=FP16),
        SpyreTensorLayout([2, 33, 64], [64, 70, 1], device_dtype=FP16),
    ]
    assert all(layout == expected and hash(layout) == hash(expected) for layout in same)


def test_equality_looks_at_all_four_fields() -> None:
    layout = stl([33, 70])
    assert layout != stl([33, 71])
    assert layout != stl([33, 70], "float32")
    assert layout != layout.with_element_arrangement(ElementArrangement.EXX2)
    assert layout.with_element_arrangement(ElementArrangement.EXX2).element_arrangement is ElementArrangement.EXX2
    assert layout != SpyreTensorLayout([2, 33, 64], [64, 71, 1], FP16)
    assert layout != "SpyreTensorLayout"


def test_it_prints_as_documented_and_evaluates_back() -> None:
    layout = stl([33, 70])
    text = "SpyreTensorLayout(device_size=[2, 33, 64], stride_map =[64, 70, 1], device_dtype=DataFormats.SEN169_FP16)"
    assert str(layout) == repr(layout) == text
    assert eval(text) == layout
    permuted = layout.with_element_arrangement(ElementArrangement.QFP8CH)
    assert eval(repr(permuted)) == permuted


def test_it_cannot_be_changed() -> None:
    layout = stl([33, 70])
    layout.device_size[0] = 99
    assert layout.device_size == [2, 33, 64]
    for name in ("device_size", "stride_map", "_device_size", "extra"):
        with pytest.raises(AttributeError):
            setattr(layout, name, [1])
    with pytest.raises(AttributeError):
        del layout._device_size


def test_copies_and_pickles_are_equal() -> None:
    layout = stl([33, 70]).with_element_arrangement(ElementArrangement.EXX2)
    assert copy.deepcopy(layout) == copy.copy(layout) == pickle.loads(pickle.dumps(layout)) == layout
    assert layout.__reduce__()[1] == ((3, [2, 33, 64], [64, 70, 1], FP16, ElementArrangement.EXX2),)


def test_older_pickle_versions_are_read() -> None:
    layout = stl([33, 70])
    assert rebuild_layout((1, [2, 33, 64], [1, 0, 1], [64, 70, 1], FP16)) == layout
    assert rebuild_layout((2, [2, 33, 64], [64, 70, 1], 0)) == layout


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ((4, [1], [1], FP16), "^Unsupported SpyreTensorLayout pickle version: 4$"),
        ((), "^Unsupported SpyreTensorLayout pickle version: None$"),
        ((3, [64], [1], FP16), "^Invalid SpyreTensorLayout pickle v3: wrong tuple size$"),
        ((2, [64], [1], FP16, 0), "^Invalid SpyreTensorLayout pickle v2: wrong tuple size$"),
        ((1, [64], [1], FP16), "^Invalid SpyreTensorLayout pickle v1: wrong tuple size$"),
    ],
)
def test_foreign_pickles_are_refused(state: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidLayout, match=message) as caught:
        rebuild_layout(state)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 2], [0, 1, 0], [-1, 0, 1], [0, -1]])
def test_a_dim_order_that_is_no_permutation_is_refused(order: list[int]) -> None:
    with pytest.raises(InvalidLayout, match="Incompatible host_size and dim_order"):
        stl([4, 8], order=order)


def test_ranks_above_six_are_refused_sparse_ones_above_five() -> None:
    with pytest.raises(UnsupportedRank, match=r"^Unsupported tensor rank: 7 "):
        stl([2] * 7)
    with pytest.raises(UnsupportedRank, match=r"^Unsupported tensor rank: 7 "):
        stl([2] * 6, order=[0, 1, 2, 3, 4, 5, -1])
    assert stl([2] * 5, order=[0, 1, 2, 3, 4, -1]).device_size[-1] == 64


@pytest.mark.parametrize("dtype", ["float64", "complex64", np.float64])
def test_unsupported_dtypes_are_refused_by_name(dtype: object) -> None:
    with pytest.raises(UnsupportedFormat, match=r"does not support dtype (float64|complex64)"):
        SpyreTensorLayout([4], dtype)


@pytest.mark.parametrize(
    ("device_size", "stride_map", "message"),
    [
        ([], [], "at least one"),
        ([2, 64], [1], "same number"),
        ([-1, 64], [64, 1], "negative"),
        ([1, 64], [64, -2], "not below -1"),
        ([1, 65], [64, 1], "a stick holds 64"),
        ([1, "a"], [64, 1], "sequence of integers"),
        (3, [64, 1], "sequence of integers"),
    ],
)
def test_explicit_nonsense_is_refused(device_size: Any, stride_map: Any, message: str) -> None:
    with pytest.raises(InvalidLayout, match=message):
        SpyreTensorLayout(device_size, stride_map, FP16)


@pytest.mark.parametrize(
    "kwargs", [{}, {"host_size": [4]}, {"device_size": [64]}, {"host_size": [4], "dtype": "float16", "stick": 3}]
)
def test_missing_and_unknown_arguments_are_named(kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="missing, unknown or given twice"):
        SpyreTensorLayout(**kwargs)


def test_an_invalid_format_or_arrangement_is_refused() -> None:
    with pytest.raises(UnsupportedFormat):
        SpyreTensorLayout([1, 64], [64, 1], DataFormats.INVALID)
    with pytest.raises(InvalidLayout):
        SpyreTensorLayout([4], [1], "float16", [0], 7)  # type: ignore[call-overload]
