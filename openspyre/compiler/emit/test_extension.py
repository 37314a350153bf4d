"""Records of extension ops: facts worked out by hand, what ops share, and every simple row through files and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.samples import OUTPUT, TEMP, at, buffer, dims
from openspyre.artifact import Emitted, read_bundle, write_launch
from openspyre.artifact.bundle_check import check_bundle
from openspyre.artifact.extensions.description import Description, Dim, Iota, Lanes
from openspyre.compiler import ir, pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import DataFormats
from openspyre.spec.ops import TABLE, Kind, Row
from openspyre.spec.origin import Origin


def records(emitted: Emitted) -> list[Description]:
    return [op.extension for op in emitted.bundle.ops.values() if op.extension is not None]


def sine(**attributes: float) -> ir.Program:
    """y = sin(x), x [96, 320], rows over 24 cores."""
    x, y = buffer("x", (96, 320)), buffer("y", (96, 320), OUTPUT)
    space = (ir.Dim("i", 96, split=24), ir.Dim("j", 320))
    op = ir.Op("sin_0", "sin", space, (at(x),), (at(y),), tuple(attributes.items()), Origin("model.py", 3))
    return ir.Program("p", (x, y), (op,))


def test_an_op_is_described_as_it_is() -> None:
    (record,) = records(emit_bundle(sine()))
    assert (record.row, record.dims) == ("sin", (Dim("i", 96, 24), Dim("j", 320)))
    x, y = record.tensors
    assert x.layout.device_size == [5, 96, 64]
    assert (x.lanes, x.lane_dim, x.strides) == (Lanes.VECTOR, 1, (64, 96 * 64))
    assert y == x


def test_equal_ops_share_a_superdsc_whatever_their_addresses_and_numbers() -> None:
    x, y, z = buffer("x", (96, 320)), buffer("y", (96, 320), OUTPUT), buffer("z", (96, 320), OUTPUT)
    slope, other = ir.Scalar("slope", "float16"), ir.Scalar("other", "float16")
    ops = (
        ir.Op("l_0", "leaky_relu", dims(96, 320), (at(x), slope), (at(y),)),
        ir.Op("l_1", "leaky_relu", dims(96, 320), (at(y), other), (at(z),)),
        ir.Op("l_2", "abs", dims(96, 320), (at(x),), (at(y),)),
    )
    emitted = emit_bundle(ir.Program("p", (x, y, z), ops, (slope, other)))
    first, second, third = emitted.executions
    assert first.shared is second.shared is not third.shared
    assert first.bases != second.bases
    assert emitted.scalars == ("slope", "other")
    assert [argument.name for argument in emitted.arguments if argument.role == "number"] == ["slope", "other"]
    number = records(emitted)[0].tensors[1]
    assert (number.lanes, number.strides, number.layout.device_size) == (Lanes.SPLAT, (0, 0), [1, 64])
    assert check_bundle(emitted.bundle) == []


def test_attributes_that_compare_equal_are_kept_apart_by_kind() -> None:
    program = sine()
    ops = tuple(replace(program.ops[0], attributes=(("n", value),)) for value in (1, 1.0, True, 1))
    shared = [execution.shared for execution in emit_bundle(replace(program, body=ops)).executions]
    assert [shared.index(each) for each in shared] == [0, 1, 2, 0]


def test_dims_of_size_one_and_empty_ops_are_left_out() -> None:
    x, y = buffer("x", (1, 4, 1, 100)), buffer("y", (1, 4, 1, 100), OUTPUT)
    space = tuple(ir.Dim(name, size) for name, size in zip("abcd", x.size, strict=True))
    full = ir.Op("w", "where", space, (at(x), ir.Iota(3, (7, 5, 2, 1)), at(x)), (at(y),))
    empty = replace(full, dims=(*space[:3], ir.Dim("d", 0)))
    (record,) = records(emit_bundle(ir.Program("p", (x, y), (full, empty))))
    assert [dim.name for dim in record.dims] == ["b", "d"]
    assert record.inputs[1] == Iota(3, (5, 1))


@pytest.mark.parametrize(("m", "n", "k"), [(64, 128, 192), (1, 64, 64), (5, 1, 70), (3, 100, 1), (1, 1, 1)])
def test_a_contraction_keeps_m_n_and_k_whatever_their_size(m: int, n: int, k: int) -> None:
    """In float32, which the matrix unit does not take."""
    a, b, c = (
        buffer("a", (m, k), dtype="float32"),
        buffer("b", (k, n), dtype="float32"),
        buffer("c", (m, n), OUTPUT, "float32"),
    )
    op = ir.Op("mm", "batchmatmul", dims(m, n, k, reduced=(2,)), (at(a, k, 0, 1), at(b, 0, 1, n)), (at(c, n, 1, 0),))
    emitted = emit_bundle(pipeline.run(ir.Program("p", (a, b, c), (op,))))
    record = next(record for record in records(emitted) if record.row == "batchmatmul")
    assert [tensor.lane_dim for tensor in record.tensors] == [2, 1, 1]
    assert check_bundle(emitted.bundle) == []


def test_a_row_for_every_k_is_no_product_of_the_hardware() -> None:
    """The matrix unit's second operand has rows of its own for k. This one was emitted, and no back end could read it."""
    a, b, c = buffer("a", (3, 64)), buffer("b", (5,)), buffer("c", (3, 5), OUTPUT)
    op = ir.Op("mm", "batchmatmul", dims(3, 5, 64, reduced=(2,)), (at(a, 64, 0, 1), at(b, 0, 1, 0)), (at(c, 5, 1, 0),))
    program = ir.Program("p", (a, b, c), (op,))
    (beyond,) = emit_bundle(program).extensions
    assert (beyond.row, beyond.reason) == ("batchmatmul", "its second operand is the same along the dim that is summed")
    staged = emit_bundle(pipeline.run(program, verify=True))
    assert [made.op for made in staged.bundle.ops.values()] == ["identity", "batchmatmul"], "a copy has them"
    assert check_bundle(staged.bundle) == []


def test_a_view_that_misses_the_sticks_is_a_relayout_or_a_bug() -> None:
    x, y = buffer("x", (128, 256)), buffer("y", (128, 64), OUTPUT)
    unaligned = at(x, 256, 1, offset=3)
    with pytest.raises(InternalError, match="lane 3"):
        emit_bundle(ir.Program("p", (x, y), (ir.Op("sin", "sin", dims(128, 64), (unaligned,), (at(y),)),)))
    emitted = emit_bundle(ir.Program("p", (x, y), (ir.Op("move", "relayout", dims(128, 64), (unaligned,), (at(y),)),)))
    source, _ = records(emitted)[0].tensors
    assert source.lanes is Lanes.VIEW
    assert source.view is not None
    assert (source.view.offset, source.view.strides) == (3, (256, 1))
    assert check_bundle(emitted.bundle) == []


def test_bits_read_as_another_type_are_said_so() -> None:
    x, y = buffer("x", (4, 32), dtype="float32"), buffer("y", (4, 32), OUTPUT, "int32")
    op = ir.Op("abs", "abs", dims(4, 32), (ir.Access("x", 0, (32, 1), "int32"),), (at(y),))
    tensor = records(emit_bundle(ir.Program("p", (x, y), (op,))))[0].tensors[0]
    assert (tensor.layout.device_dtype, tensor.bits_as) == (DataFormats.IEEE_FP32, DataFormats.IEEE_INT32)
    assert tensor.format is DataFormats.IEEE_INT32


def test_a_program_whose_passes_have_not_run_is_refused() -> None:
    program = sine()
    without_layout = tuple(replace(b, layout=None) for b in program.buffers)
    with pytest.raises(InternalError, match="layout"):
        emit_bundle(replace(program, buffers=without_layout))
    with pytest.raises(InternalError, match="without a place"):
        emit_bundle(replace(program, buffers=(program.buffers[0], replace(program.buffers[1], role=TEMP))))


def _program(row: Row, size: tuple[int, int]) -> ir.Program:
    """One op of a row over a matrix, its second dim folded where the row folds."""
    dtype = "float16" if row.floats else "int32"
    scalars = tuple(ir.Scalar(name, dtype) for name in row.scalars)
    inputs = [buffer(f"x{i}", size, dtype=dtype) for i in range(row.operands)]
    folds = row.kind is Kind.REDUCTION
    out = buffer("out", (size[0], 1) if folds else size, OUTPUT, dtype)
    target = at(out, 1, 0) if folds else at(out)
    op = ir.Op(row.name, row.name, dims(*size, reduced=(1,) if folds else ()), (*map(at, inputs), *scalars), (target,))
    return ir.Program(row.name, (*inputs, out), (op,), scalars)


SIMPLE = [
    row
    for row in TABLE.values()
    if row.kind in (Kind.POINTWISE, Kind.REDUCTION) and row.operands + len(row.scalars) <= 8
]


@pytest.mark.parametrize("row", SIMPLE, ids=lambda row: row.name)
def test_every_simple_row_goes_through_files_and_back(row: Row, tmp_path: Path) -> None:
    emitted = emit_bundle(pipeline.run(_program(row, (6, 100))))
    write_launch(emitted, tmp_path / "bundle")
    found = read_bundle(tmp_path / "bundle")
    assert found.ops == emitted.bundle.ops
    assert check_bundle(found) == []


def test_no_reduction_takes_numbers() -> None:
    """A record has no place for them: they would come behind the fold."""
    assert [row.name for row in TABLE.values() if row.kind is Kind.REDUCTION and row.scalars] == []
