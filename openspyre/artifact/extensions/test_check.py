"""Each kind of damage to a record is named, with its field, what is there and what should be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.artifact.extensions.check import check_description
from openspyre.artifact.extensions.description import Constant, Description, Dim, HostView, Iota, Lanes, Tensor
from openspyre.artifact.fields import Problem, Problems
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats, ElementArrangement, formats_of
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.machine import SPYRE, Machine


def tensor(
    size: tuple[int, ...],
    strides: tuple[int, ...],
    sizes: tuple[int, ...],
    dtype: str = "float16",
    *,
    sparse: bool = False,
    view: bool = False,
) -> Tensor:
    """A dense buffer of a size, walked by host strides over dims of `sizes`; the dim of stride 1 runs along the sticks. `sparse`: a value a stick."""
    layout = SpyreTensorLayout(size, dtype, [*range(len(size)), *([-1] if sparse else [])])
    addressing, lanes = layout.addressing(size, row_major(size)), layout.elems_per_stick()
    walked, lane_dim = [], None
    for dim, (stride, extent) in enumerate(zip(strides, sizes, strict=True)):
        if stride == 1 and not sparse:
            lane_dim = dim
            walked.append(addressing.device_offset(lanes) if extent > lanes else 0)
        else:
            walked.append(addressing.device_offset(stride) if stride and extent > 1 else 0)
    host = HostView(dtype, size, row_major(size), 0, strides) if view else None
    return Tensor(dtype, layout, Lanes.SPLAT if lane_dim is None else Lanes.VECTOR, lane_dim, tuple(walked), host)


def found(description: Description, machine: Machine = SPYRE) -> list[Problem]:
    problems = Problems("")
    check_description(description, problems, machine)
    return problems.found


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


def unary(row: str = "sin", size: tuple[int, int] = (96, 320), split: int = 24) -> Description:
    x = tensor(size, (size[1], 1), size)
    return Description(row, (Dim("i", size[0], split), Dim("j", size[1])), (x,), (x,))


def product(*, along_k: bool = False) -> Description:
    sizes = (64, 100, 192)
    a, out = tensor((64, 192), (192, 0, 1), sizes, "float32"), tensor((64, 100), (100, 1, 0), sizes, "float32")
    b = tensor((100, 192) if along_k else (192, 100), (0, 192, 1) if along_k else (0, 1, 100), sizes, "float32")
    return Description("batchmatmul", (Dim("m", 64, 4), Dim("n", 100, 2), Dim("k", 192, 1, True)), (a, b), (out,))


def transposed() -> Description:
    sizes = (128, 64)
    x, out = tensor((64, 128), (1, 128), sizes, view=True), tensor(sizes, (64, 1), sizes, view=True)
    return Description("relayout", (Dim("i", 128), Dim("j", 64)), (x,), (out,))


def summed(row: str = "sum") -> Description:
    sizes = (128, 200)
    x, out = tensor(sizes, (200, 1), sizes), tensor((128,), (1, 0), sizes, sparse=True)
    return Description(row, (Dim("i", 128, 32), Dim("j", 200, reduced=True)), (x,), (out,))


def scattered() -> Description:
    sizes = (16, 200, 40)
    values, index = tensor((16, 200), (200, 1, 0), sizes), tensor((16,), (1, 0, 0), sizes, "int64", sparse=True)
    dims = (Dim("i", 16), Dim("j", 200, 2), Dim("row", 40, reduced=True))
    return Description("scatter_add", dims, (values, index), (tensor((40, 200), (0, 1, 200), sizes),))


def moments() -> Description:
    layout = SpyreTensorLayout([96, 2], [2, 1], "float32", [0, 1], ElementArrangement.EXX2)
    each = Tensor("float32", layout, Lanes.SPLAT, None, (32, 0))
    x = tensor((96, 200), (200, 1), (96, 200))
    return Description("exx2", (Dim("i", 96, 32), Dim("j", 200, reduced=True)), (x,), (each, each))


SOUND = [unary(), product(), product(along_k=True), transposed(), summed(), scattered(), moments()]


@pytest.mark.parametrize("description", SOUND, ids=lambda description: description.row)
def test_a_sound_record_has_no_problem(description: Description) -> None:
    assert found(description) == []


def test_a_split_that_does_not_divide() -> None:
    problem = only(found(unary(split=5)))
    assert (problem.field, problem.found) == ("openspyre_.dims[0].split", "5")
    assert "divisor of 96" in problem.expected


def test_more_cores_than_a_card_has() -> None:
    dims = (Dim("m", 64, 32), Dim("n", 100, 2), Dim("k", 192, 1, True))
    problem = only(found(replace(product(), dims=dims)))
    assert (problem.found, problem.expected) == ("splits for 64 cores", "at most 32")


def test_a_contraction_whose_tensors_run_along_other_dims() -> None:
    op = product(along_k=True)
    along_m = replace(op, outputs=(replace(op.outputs[0], lane_dim=0),), dims=(Dim("m", 64), *op.dims[1:]))
    problem = next(problem for problem in found(along_m) if problem.field == "openspyre_.lane_dim")
    assert (problem.found, problem.expected[:22]) == ("[2, 2, 0]", "[2, 1, 1] or [2, 2, 1]")


def test_a_span_beyond_what_one_core_reaches() -> None:
    problems = found(unary(size=(1024, 1 << 20), split=2))
    assert all("at most 268431360 bytes" in problem.expected for problem in problems)
    assert len(problems) == 2
    op = unary(size=(1024, 1 << 20))
    assert found(replace(op, dims=(Dim("i", 1024), Dim("j", 1 << 20, 32)))) == []


def test_the_span_is_that_of_the_card_asked_about() -> None:
    far, near = (replace(SPYRE, max_span_bytes_per_core_and_tensor=limit) for limit in (1 << 40, 128))
    assert found(unary(), far) == []
    problems = found(unary(), near)
    assert problems
    assert all("MiB in one core's reach" in problem.found for problem in problems)


WIDTHS = [
    ("float32", True),
    ("int64", True),
    ("int8", True),
    ("int16", False),
    ("uint8", True),
    ("float8_e4m3fn", True),
]


def source_of(op: Description) -> Tensor:
    (source,) = op.inputs
    assert isinstance(source, Tensor)
    return source


@pytest.mark.parametrize(("dtype", "other_width"), WIDTHS)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize("row", ["relayout", "restickify"])
def test_a_tensor_cannot_say_another_dtype_than_its_layout_holds(
    dtype: str, other_width: bool, side: str, row: str
) -> None:
    """The DMA goes by the dtype: one of another width would walk past the end of its memory."""
    op = replace(transposed(), row=row)
    lying = replace(op.outputs[0] if side == "outputs" else source_of(op), dtype=dtype)
    for told in (lying, replace(lying, bits_as=formats_of(dtype).device)):
        problems = found(replace(op, outputs=(told,)) if side == "outputs" else replace(op, inputs=(told,)))
        if other_width or told.bits_as is None:
            assert problems, told
        assert {problem.field.rsplit(".", 1)[-1] for problem in problems} <= {"format", "bits_as"}, problems


def test_a_format_that_cannot_hold_the_dtype_is_named_where_it_is_said() -> None:
    op = transposed()
    narrow = replace(source_of(op), dtype="int32", bits_as=DataFormats.SENINT16)
    assert "openspyre_.tensors[0].format" in [p.field for p in found(replace(op, inputs=(narrow,)))]


@pytest.mark.parametrize("size", [0, 1 << 40, 1 << 56, 1 << 62])
def test_extents_no_card_walks(size: int) -> None:
    """As the card's own check says: along a dim of stride 0 nothing else would stop it."""
    op = unary()
    problems = found(replace(op, dims=(Dim("i", size), op.dims[1])))
    assert any(problem.field == "openspyre_.dims[0].size" for problem in problems)


def test_more_points_than_places_to_store_them() -> None:
    row = tensor((320,), (0, 1), (1 << 30, 320))
    op = Description("sin", (Dim("i", 1 << 30, 32), Dim("j", 320)), (row,), (row,))
    assert "points in" in only(found(op)).found


def test_an_output_does_not_move_with_what_is_folded_or_chosen() -> None:
    op = summed()
    moved = replace(op, outputs=(replace(op.outputs[0], strides=(64, 64)),))
    assert any("reduced dim" in problem.found for problem in found(moved))
    op = scattered()
    folded = replace(op, dims=(Dim("i", 16, reduced=True), *op.dims[1:]))
    assert any("reduced dim" in problem.found for problem in found(folded))


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_moments_are_of_floats(side: str) -> None:
    """As the card says: sums of a row are fp32."""
    op = moments()
    tensors = op.outputs if side == "outputs" else (source_of(op),)
    whole = tuple(
        replace(t, dtype="int32", bits_as=DataFormats.IEEE_INT32, layout=op.outputs[0].layout) for t in tensors
    )
    changed = replace(op, outputs=whole) if side == "outputs" else replace(op, inputs=whole)
    assert any("a float" in problem.expected for problem in found(changed))


def test_a_constant_of_a_dtype_that_no_file_says() -> None:
    op = replace(unary("add"), inputs=(*unary().inputs, Constant(0x3F800000, "float16")))
    assert found(op) == []
    changed = replace(op, inputs=(*unary().inputs, Constant(0x3F800000, "float8_e5m2fnuz")))
    assert only(found(changed)).field == "openspyre_.inputs.constant"


def test_a_tensor_that_is_walked_backwards() -> None:
    """Nothing says how much of the argument lies before the place where a tensor begins."""
    op = unary()
    backwards = replace(source_of(op), strides=(-64, 96 * 64))
    assert only(found(replace(op, inputs=(backwards,)))).field == "openspyre_.tensors[0].strides"


def test_operands_that_the_row_cannot_take() -> None:
    op = unary()
    assert any("operands" in problem.found for problem in found(replace(op, inputs=op.inputs * 2)))
    assert any("no output" in problem.found for problem in found(replace(op, outputs=())))
    assert any("iota" in problem.field for problem in found(replace(op, inputs=(Iota(0, (1,)),))))
