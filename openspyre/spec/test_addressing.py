"""The oracle is the definition: the dot product of device coordinates with the stride map is the host offset."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openspyre.spec.addressing import along, joined, row_major
from openspyre.spec.errors import InvalidArgument, InvalidLayout
from openspyre.spec.formats import DataFormats
from openspyre.spec.layout import SpyreTensorLayout

FP16 = DataFormats.SEN169_FP16
TiledCase = tuple[SpyreTensorLayout, list[int], list[int]]


@st.composite
def host_shapes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Sizes with strides of a permuted tensor with gaps between rows: never two elements at one offset."""
    size = draw(st.lists(st.integers(1, 6), max_size=4))
    if size:
        size[draw(st.integers(0, len(size) - 1))] = draw(st.integers(1, 150))
    stride, reach = [0] * len(size), 1
    for dim in draw(st.permutations(range(len(size)))):
        stride[dim] = reach
        reach = reach * size[dim] + draw(st.integers(0, 3))
    return size, stride


@st.composite
def tiled(draw: st.DrawFn) -> TiledCase:
    size, stride = draw(host_shapes())
    order = list(draw(st.permutations(range(len(size)))))
    if draw(st.booleans()):
        order.append(-1)
    dtype = draw(st.sampled_from(["float16", "float32", "int8", "int64"]))
    return SpyreTensorLayout(size, stride, dtype, order), size, stride


def host_offsets(size: list[int], stride: list[int]) -> list[int]:
    return [sum(i * s for i, s in zip(index, stride, strict=True)) for index in product(*map(range, size))]


def check_placement(layout: SpyreTensorLayout, size: list[int], stride: list[int]) -> None:
    offsets = np.array(host_offsets(size, stride))
    places = layout.addressing(size, stride).device_offsets(offsets)
    assert len(set(places.tolist())) == len(set(offsets.tolist()))
    coordinates = np.array(np.unravel_index(places, layout.device_size))
    mapped = np.array(layout.stride_map)
    assert np.array_equal(np.where(mapped > 0, mapped, 0) @ coordinates, offsets)
    assert not coordinates[mapped <= 0].any()
    for i in range(0, len(offsets), max(1, len(offsets) // 50)):
        offset = int(offsets[i])
        assert layout.decode(offset, size, stride) == tuple(coordinates[:, i].tolist())
        assert layout.device_offset(offset, size, stride) == places[i]


@given(tiled())
def test_every_element_of_a_tiled_tensor_has_its_own_place(
    case: tuple[SpyreTensorLayout, list[int], list[int]],
) -> None:
    check_placement(*case)


@pytest.mark.parametrize(
    ("size", "device_size", "stride_map"),
    [
        ([40, 60], [1, 512, 64], [64, 60, 1]),
        ([60], [1, 512, 64], [64, 0, 1]),
        ([40, 60], [38, 64], [64, 1]),
        ([4800], [3, 2, 14, 64], [120, 64, 360, 1]),
        ([16, 4], [1, 64], [64, 1]),
        ([2, 3, 64], [1, 6, 64], [64, 64, 1]),
    ],
)
def test_explicit_layouts_of_the_documents_hold_every_element(
    size: list[int], device_size: list[int], stride_map: list[int]
) -> None:
    check_placement(SpyreTensorLayout(device_size, stride_map, FP16), size, list(row_major(size)))


def test_overlapping_host_strides_share_their_places() -> None:
    flat = SpyreTensorLayout([2, 64], [64, 1], FP16)
    check_placement(flat, [5, 4], [2, 1])
    check_placement(flat, [5, 4], [0, 1])


def test_a_padded_tile_index_is_not_mistaken_for_another_dim() -> None:
    check_placement(SpyreTensorLayout([4, 5, 64], [64, 60, 1], FP16), [5, 60], [60, 1])


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [([33, 70], [70, 1], 33 * 70), ([33, 70], [70, 1], -1), ([3, 5], [8, 1], 6), ([4, 0], [1, 1], 0), ([], [], 1)],
)
def test_an_offset_without_an_element_raises(size: list[int], stride: list[int], offset: int) -> None:
    layout = SpyreTensorLayout(size, stride, "float16", list(range(len(size))))
    with pytest.raises(InvalidArgument, match=f"host offset {offset} "):
        layout.decode(offset, size, stride)


@pytest.mark.parametrize(
    ("device_size", "stride_map", "size", "stride"),
    [
        ([1, 33, 64], [64, 70, 1], [33, 70], [70, 1]),  # one stick short
        ([2, 32, 64], [64, 70, 1], [33, 70], [70, 1]),  # one row short
        ([2, 33, 64], [64, 70, 1], [70, 40], [40, 1]),  # another tensor's
        ([1, 64], [-1, -1], [2], [1]),
        ([0, 64], [64, 1], [1], [1]),
        ([1, 64], [64, 2], [8], [1]),
        ([1, 64], [64, 1], [8], [3]),  # would need room for the gaps
    ],
)
def test_a_layout_without_room_for_the_tensor_names_both(
    device_size: list[int], stride_map: list[int], size: list[int], stride: list[int]
) -> None:
    layout = SpyreTensorLayout(device_size, stride_map, FP16)
    with pytest.raises(InvalidLayout, match=r"Invalid device sizes and stride map.*device_size.*of size") as caught:
        layout.addressing(size, stride)
    assert str(device_size) in str(caught.value)
    assert str(size) in str(caught.value)


def test_a_layout_whose_last_dim_is_no_stick_holds_no_tensor() -> None:
    with pytest.raises(InvalidLayout, match="the stick, must be 64"):
        SpyreTensorLayout([4, 32], [32, 1], FP16).addressing([128])


def test_sizes_and_strides_that_describe_no_tensor_are_refused() -> None:
    layout = SpyreTensorLayout([4, 4], "float16")
    for size, stride in ([[4, 4], [4]], [[4], [-1]]):
        with pytest.raises(InvalidLayout, match="describe no tensor"):
            layout.addressing(size, stride)


@given(host_shapes())
def test_row_major_strides_are_numpys(shape: tuple[list[int], list[int]]) -> None:
    size, _ = shape
    array = np.empty(size, np.int8)
    assert row_major(size) == tuple(array.strides)


BOXES = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@given(BOXES, st.integers(-3, 60), st.lists(st.tuples(st.integers(-30, 30), st.integers(1, 4)), max_size=3))
def test_coordinates_in_a_box_are_those_of_every_place(
    extents: list[int], offset: int, walk: list[tuple[int, int]]
) -> None:
    strides, sizes = [stride for stride, _ in walk], [size for _, size in walk]
    found, whole = along(offset, strides, sizes, zip(row_major(extents), extents, strict=True))
    box = list(product(*map(range, extents)))
    for index in product(*map(range, sizes)) if whole else ():
        place = offset + sum(i * stride for i, stride in zip(index, strides, strict=True))
        assert 0 <= place < len(box)
        told = [start + sum(i * s for i, s in zip(index, steps, strict=True)) for start, steps in found]
        assert tuple(told) == box[place]


@given(st.data(), BOXES, st.lists(st.integers(2, 3), max_size=2))
def test_what_stays_in_every_dim_of_a_box_is_told(data: st.DataObject, extents: list[int], sizes: list[int]) -> None:
    wanted = []
    for extent in extents:
        left, steps = extent - 1, []
        for size in sizes:
            steps.append(data.draw(st.integers(0, left // (size - 1))))
            left -= steps[-1] * (size - 1)
        wanted.append((data.draw(st.integers(0, left)), tuple(steps)))
    units = row_major(extents)
    offset = sum(start * unit for (start, _), unit in zip(wanted, units, strict=True))
    strides = [sum(s[d] * unit for (_, s), unit in zip(wanted, units, strict=True)) for d in range(len(sizes))]
    assert along(offset, strides, sizes, zip(units, extents, strict=True)) == (wanted, True)


def test_dims_that_run_on_into_each_other_in_all_tensors_are_one() -> None:
    assert joined([(4, 1), (3, 4), (1, 99), (2, 24)]) == [(2, 24), (12, 1)]
    assert joined([(3, 4, 8), (4, 1, 2)]) == [(12, 1, 2)]
    assert joined([(3, 4, 9), (4, 1, 2)]) == [(3, 4, 9), (4, 1, 2)]
    assert joined([]) == []
