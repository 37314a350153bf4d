"""Worked examples of the documents, and the property that the loops put every element where the layout says."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from openspyre.spec.dci import DataConversionInfo, describe_transfer
from openspyre.spec.errors import InvalidLayout, UnsupportedFormat
from openspyre.spec.formats import DataFormats
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.test_addressing import TiledCase, host_offsets, tiled

FP16 = DataFormats.SEN169_FP16
Nest = tuple[list[int], list[int], list[int], int, int]


def nests(dci: DataConversionInfo) -> list[Nest]:
    return [
        (list(i.size), list(i.stride_src), list(i.stride_dst), i.offset_src, i.offset_dst) for i in dci.stride_infos
    ]


WORKED_EXAMPLES: list[tuple[list[int], list[int], list[Nest]]] = [
    ([48, 128], [0, 1], [([64, 48, 2], [1, 128, 64], [1, 64, 3072], 0, 0)]),
    (
        [48, 100],
        [0, 1],
        [([64, 48, 1], [1, 100, 64], [1, 64, 3072], 0, 0), ([36, 48, 1], [1, 100, 64], [1, 64, 3072], 64, 3072)],
    ),
    ([48, 60], [0, 1], [([60, 48, 1], [1, 60, 64], [1, 64, 3072], 0, 0)]),
    (
        [3, 5, 130],
        [0, 1, 2],
        [
            ([64, 3, 2, 5], [1, 650, 64, 130], [1, 64, 192, 576], 0, 0),
            ([2, 3, 1, 5], [1, 650, 64, 130], [1, 64, 192, 576], 128, 384),
        ],
    ),
    ([], [], [([1, 1], [1, 1], [1, 64], 0, 0)]),
    (
        [96, 200],
        [1, 0],
        [
            ([64, 200, 1], [200, 1, 12800], [1, 64, 12800], 0, 0),
            ([32, 200, 1], [200, 1, 12800], [1, 64, 12800], 12800, 12800),
        ],
    ),
    ([40], [0, -1], [([1, 40, 1], [1, 1, 1], [1, 64, 2560], 0, 0)]),
    ([96, 200], [0, 1, -1], [([1, 96, 1, 200], [1, 200, 1, 1], [1, 64, 6144, 6144], 0, 0)]),
]


@pytest.mark.parametrize(("size", "order", "expected"), WORKED_EXAMPLES)
def test_worked_examples_of_the_documents(size: list[int], order: list[int], expected: list[Nest]) -> None:
    layout = SpyreTensorLayout(size, "float16", order)
    dci = describe_transfer(layout, "float16", size)
    assert nests(dci) == expected
    assert dci.input_shape == (tuple(size[::-1]) or (1,))
    assert dci.output_shape == tuple(layout.device_size[::-1])
    back = describe_transfer(layout, "float16", size, to_device=False)
    assert nests(back) == [(n, dst, src, off_dst, off_src) for n, src, dst, off_src, off_dst in expected]
    assert (back.format_src, back.format_dst) == (dci.format_dst, dci.format_src) == (FP16, DataFormats.IEEE_FP16)


def test_a_slice_of_a_wider_cpu_tensor_keeps_its_strides_and_offset() -> None:
    dci = describe_transfer(
        SpyreTensorLayout([16, 128], "float16"), "float16", [16, 128], cpu_stride=[512, 1], cpu_offset=32
    )
    assert nests(dci) == [([64, 16, 2], [1, 512, 64], [1, 64, 1024], 32, 0)]


def test_the_simplified_view_is_outermost_first() -> None:
    layout = SpyreTensorLayout([48, 128], "float16")
    expected = (((2, 48, 64), (3072, 64, 1), (64, 128, 1)),)
    assert describe_transfer(layout, "float16", [48, 128]).loops() == expected
    assert describe_transfer(layout, "float16", [48, 128], to_device=False).loops() == expected


def test_json_has_the_documented_names() -> None:
    dci = describe_transfer(SpyreTensorLayout([48, 128], "float16"), "float16", [48, 128])
    assert json.loads(json.dumps(dci.to_json())) == {
        "dci_dsName_": "DCI-Tensor-0",
        "isHostToSen_": True,
        "dataformat_src_": "IEEE_FP16",
        "dataformat_dst_": "SEN169_FP16",
        "input_shape_": [128, 48],
        "output_shape_": [64, 48, 2],
        "dcsi_": [
            {
                "size_": [64, 48, 2],
                "stride_src_": [1, 128, 64],
                "stride_dst_": [1, 64, 3072],
                "offset_src_": 0,
                "offset_dst_": 0,
            }
        ],
    }


def moves(dci: DataConversionInfo) -> list[tuple[int, int]]:
    """(source, target) element of every move, by running the loops."""
    moved: list[tuple[int, int]] = []
    for info in dci.stride_infos:
        indices = np.indices(info.size).reshape(len(info.size), -1)
        sources = info.offset_src + np.array(info.stride_src) @ indices
        targets = info.offset_dst + np.array(info.stride_dst) @ indices
        moved += zip(sources.tolist(), targets.tolist(), strict=True)
    return moved


@given(tiled())
def test_the_loops_move_every_element_once_to_where_the_layout_says(case: TiledCase) -> None:
    layout, size, stride = case
    offsets = host_offsets(size, stride)
    expected = dict(zip(offsets, layout.addressing(size, stride).device_offsets(offsets).tolist(), strict=True))
    moved = moves(describe_transfer(layout, "float16", size, stride))
    assert len(moved) == len(expected)
    assert dict(moved) == expected


@given(tiled())
def test_a_strided_cpu_tensor_reaches_the_same_places(case: TiledCase) -> None:
    layout, size, stride = case
    cpu_stride = [3 * s for s in np.cumprod([1, *size[:-1]]).tolist()] if size else []
    dci = describe_transfer(layout, "float16", size, stride, cpu_stride=cpu_stride, cpu_offset=7, to_device=False)
    planned, actual = host_offsets(size, stride), host_offsets(size, cpu_stride)
    places = layout.addressing(size, stride).device_offsets(planned).tolist()
    expected = {place: 7 + offset for place, offset in zip(places, actual, strict=True)}
    assert dict(moves(dci)) == expected


@pytest.mark.parametrize(
    ("size", "device_size", "stride_map"),
    [
        ([40, 60], [1, 512, 64], [64, 60, 1]),
        ([40, 60], [38, 64], [64, 1]),
        ([4800], [3, 2, 14, 64], [120, 64, 360, 1]),
    ],
)
def test_explicit_layouts_are_described_too(size: list[int], device_size: list[int], stride_map: list[int]) -> None:
    layout = SpyreTensorLayout(device_size, stride_map, FP16)
    moved = moves(describe_transfer(layout, "float16", size))
    assert sorted(source for source, _ in moved) == list(range(np.prod(size)))
    assert all(target == layout.device_offset(source, size) for source, target in moved)


def test_replicated_dims_are_written_as_often_as_they_stand() -> None:
    layout = SpyreTensorLayout([1, 5, 64], [64, 0, 1], FP16)
    moved = moves(describe_transfer(layout, "float16", [60]))
    assert sorted(moved) == sorted((i, 64 * copy + i) for copy in range(5) for i in range(60))


def test_an_empty_tensor_moves_nothing() -> None:
    assert describe_transfer(SpyreTensorLayout([4, 0], "float16"), "float16", [4, 0]).stride_infos == ()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"host_size": [41, 60]}, InvalidLayout, "Invalid device sizes and stride map"),
        ({"host_size": [40, 60], "cpu_stride": [100, 1]}, InvalidLayout, "Invalid tiling for dimension"),
        ({"host_size": [40, 60], "cpu_stride": [1]}, InvalidLayout, "one entry per dim"),
        ({"host_size": [5, 4], "host_stride": [2, 1]}, InvalidLayout, "gaps or overlaps"),
        ({"host_size": [40, 60], "dtype": "float64"}, UnsupportedFormat, "does not support dtype float64"),
    ],
)
def test_copies_without_a_descriptor_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    folded = SpyreTensorLayout([38, 64], [64, 1], FP16)
    with pytest.raises(error, match=message):
        describe_transfer(folded, **({"dtype": "float16"} | arguments))
