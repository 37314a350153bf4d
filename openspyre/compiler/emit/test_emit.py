"""From IR to a bundle: facts worked out by hand, sharing, and every kind of op through files and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from openspyre.artifact import Bundle, read, texts, verify, write
from openspyre.artifact.model import Dim, Iota, Lanes, Place, Scalar, ScalarSlot
from openspyre.compiler import ir, pipeline
from openspyre.compiler.emit import emit
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import DataFormats
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Kind, Row


def buffer(name: str, size: tuple[int, ...], role: ir.Role = ir.Role.INPUT, dtype: str = "float16") -> ir.Buffer:
    return ir.Buffer(name, dtype, size, row_major(size), role, SpyreTensorLayout(size, dtype))


def whole(of: ir.Buffer) -> ir.Access:
    return ir.Access(of.name, 0, of.stride, of.dtype)


def broadcast_add() -> ir.Program:
    """y = x + s, x [96, 320], s [320], rows over 24 cores."""
    x, s, y = buffer("x", (96, 320)), buffer("s", (320,)), buffer("y", (96, 320), ir.Role.OUTPUT)
    dims = (ir.Dim("i", 96, split=24), ir.Dim("j", 320))
    row = ir.Access("s", 0, (0, 1), "float16")
    op = ir.Op("add_0", "add", dims, (whole(x), row), (whole(y),), origin="model.py:3")
    return ir.Program("p", (x, s, y), (op,))


def test_the_documents_example_is_described_as_it_is() -> None:
    bundle = emit(broadcast_add())
    (op,) = bundle.descriptions
    assert op.dims == (Dim("i", 96, 24), Dim("j", 320))
    x, s, y = op.tensors
    assert x.layout.device_size == [5, 96, 64]
    assert (x.lanes, x.lane_dim, x.strides) == (Lanes.VECTOR, 1, (64, 96 * 64))
    assert (s.lanes, s.lane_dim, s.strides) == (Lanes.VECTOR, 1, (0, 64))
    assert y == x
    (execution,) = bundle.executions
    assert (execution.places, execution.origin) == (tuple(Place(name, 0) for name in "xsy"), "model.py:3")


def test_equal_ops_share_a_description_whatever_their_addresses_and_scalars() -> None:
    program = broadcast_add()
    x, s, y = program.buffers
    z = buffer("z", (96, 320), ir.Role.OUTPUT)
    dims = program.ops[0].dims
    slope, other = ir.Scalar("slope", "float16"), ir.Scalar("other", "float16")
    ops = (
        program.ops[0],
        replace(program.ops[0], name="add_1", inputs=(whole(y), program.ops[0].inputs[1]), outputs=(whole(z),)),
        ir.Op("l_0", "leaky_relu", dims, (whole(x), slope), (whole(y),)),
        ir.Op("l_1", "leaky_relu", dims, (whole(z), other), (whole(z),)),
    )
    bundle = emit(ir.Program("p", (x, s, y, z), ops, (slope, other)))
    assert [execution.description for execution in bundle.executions] == [0, 0, 1, 1]
    assert bundle.descriptions[1].inputs[1] == ScalarSlot("float16")
    assert [execution.scalars for execution in bundle.executions[2:]] == [("slope",), ("other",)]
    assert bundle.scalars == (Scalar("slope", "float16"), Scalar("other", "float16"))
    assert verify(bundle) == []


def test_attributes_that_compare_equal_are_kept_apart_by_kind() -> None:
    op = broadcast_add().ops[0]
    ops = tuple(replace(op, attributes=(("n", value),)) for value in (1, 1.0, True, 1))
    bundle = emit(replace(broadcast_add(), body=ops))
    assert [execution.description for execution in bundle.executions] == [0, 1, 2, 0]


def test_a_slice_in_whole_sticks_is_an_offset_of_its_address() -> None:
    x, y = buffer("x", (128, 256)), buffer("y", (10, 64), ir.Role.OUTPUT)
    part = ir.Access("x", 20 * 256 + 64, (256, 1), "float16")
    op = ir.Op("abs", "abs", (ir.Dim("i", 10), ir.Dim("j", 64)), (part,), (whole(y),))
    bundle = emit(ir.Program("p", (x, y), (op,)))
    assert bundle.executions[0].places == (Place("x", (128 * 64 + 20 * 64) * 2), Place("y", 0))
    assert verify(bundle) == []


def test_dims_of_size_one_and_empty_ops_are_left_out() -> None:
    x, y = buffer("x", (1, 4, 1, 100)), buffer("y", (1, 4, 1, 100), ir.Role.OUTPUT)
    dims = tuple(ir.Dim(name, size) for name, size in zip("abcd", x.size, strict=True))
    iota = ir.Iota(3, (7, 5, 2, 1))
    full = ir.Op("w", "where", dims, (whole(x), iota, whole(x)), (whole(y),))
    empty = replace(full, dims=(*dims[:3], ir.Dim("d", 0)))
    bundle = emit(ir.Program("p", (x, y), (full, empty)))
    assert len(bundle.executions) == 1
    assert [dim.name for dim in bundle.descriptions[0].dims] == ["b", "d"]
    assert bundle.descriptions[0].inputs[1] == Iota(3, (5, 1))


@pytest.mark.parametrize(("m", "n", "k"), [(64, 128, 192), (1, 64, 64), (5, 1, 70), (3, 100, 1), (1, 1, 1)])
def test_a_contraction_keeps_m_n_and_k_whatever_their_size(m: int, n: int, k: int) -> None:
    a, b, c = buffer("a", (m, k)), buffer("b", (k, n)), buffer("c", (m, n), ir.Role.OUTPUT)
    dims = (ir.Dim("m", m), ir.Dim("n", n), ir.Dim("k", k, reduced=True))
    inputs = (ir.Access("a", 0, (k, 0, 1), "float16"), ir.Access("b", 0, (0, 1, n), "float16"))
    op = ir.Op("mm", "batchmatmul", dims, inputs, (ir.Access("c", 0, (n, 1, 0), "float16"),))
    bundle = emit(pipeline.run(ir.Program("p", (a, b, c), (op,))))
    description = next(d for d in bundle.descriptions if d.row == "batchmatmul")
    assert [tensor.lane_dim for tensor in description.tensors] == [2, 1, 1]
    assert verify(bundle) == []


def test_a_view_that_misses_the_sticks_is_a_relayout_or_a_bug() -> None:
    x, y = buffer("x", (128, 256)), buffer("y", (128, 64), ir.Role.OUTPUT)
    unaligned = ir.Access("x", 3, (256, 1), "float16")
    dims = (ir.Dim("i", 128), ir.Dim("j", 64))
    with pytest.raises(InternalError, match="lane 3"):
        emit(ir.Program("p", (x, y), (ir.Op("abs", "abs", dims, (unaligned,), (whole(y),)),)))
    bundle = emit(ir.Program("p", (x, y), (ir.Op("move", "relayout", dims, (unaligned,), (whole(y),)),)))
    source, _ = bundle.descriptions[0].tensors
    assert source.lanes is Lanes.VIEW
    assert source.view is not None
    assert (source.view.offset, source.view.strides) == (3, (256, 1))
    assert verify(bundle) == []


def test_bits_read_as_another_type_are_said_so() -> None:
    x, y = buffer("x", (4, 32), dtype="float32"), buffer("y", (4, 32), ir.Role.OUTPUT, "int32")
    op = ir.Op("abs", "abs", (ir.Dim("i", 4), ir.Dim("j", 32)), (ir.Access("x", 0, (32, 1), "int32"),), (whole(y),))
    tensor = emit(ir.Program("p", (x, y), (op,))).descriptions[0].tensors[0]
    assert (tensor.layout.device_dtype, tensor.bits_as) == (DataFormats.IEEE_FP32, DataFormats.IEEE_INT32)
    assert tensor.format is DataFormats.IEEE_INT32


def test_a_program_whose_passes_have_not_run_is_refused() -> None:
    program = broadcast_add()
    without_layout = tuple(replace(b, layout=None) for b in program.buffers)
    with pytest.raises(InternalError, match="layout"):
        emit(replace(program, buffers=without_layout))
    temp = replace(program.buffers[2], role=ir.Role.TEMP)
    with pytest.raises(InternalError, match="place in the pool"):
        emit(replace(program, buffers=(*program.buffers[:2], temp)))


def _program(row: Row, size: tuple[int, int]) -> ir.Program:
    """One op of a row over a matrix, its second dim folded where the row folds."""
    dtype = "float16" if row.floats else "int32"
    scalars = tuple(ir.Scalar(name, dtype) for name in row.scalars)
    inputs = [buffer(f"x{i}", size, dtype=dtype) for i in range(row.operands)]
    folds = row.kind is Kind.REDUCTION
    out = buffer("out", (size[0], 1) if folds else size, ir.Role.OUTPUT, dtype)
    dims = (ir.Dim("i", size[0]), ir.Dim("j", size[1], reduced=folds))
    target = ir.Access("out", 0, (1, 0) if folds else out.stride, dtype)
    op = ir.Op(row.name, row.name, dims, (*map(whole, inputs), *scalars), (target,))
    return ir.Program(row.name, (*inputs, out), (op,), scalars)


SIMPLE = [
    row
    for row in TABLE.values()
    if row.kind in (Kind.POINTWISE, Kind.REDUCTION) and row.operands + len(row.scalars) <= 8
]


@pytest.mark.parametrize("row", SIMPLE, ids=lambda row: row.name)
def test_every_simple_row_goes_through_files_and_back(row: Row, tmp_path: Path) -> None:
    bundle = emit(pipeline.run(_program(row, (6, 100))))
    assert verify(bundle) == []
    write(bundle, tmp_path / "bundle")
    assert verify(tmp_path / "bundle") == []
    assert read(tmp_path / "bundle") == bundle


def test_the_same_program_makes_the_same_files() -> None:
    first, second = (emit(pipeline.run(broadcast_add())) for _ in range(2))
    assert isinstance(first, Bundle)
    assert texts(first) == texts(second)
