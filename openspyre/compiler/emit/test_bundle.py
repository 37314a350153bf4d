"""Bundles of small programs: facts worked out by hand from the documents, and what cannot be said in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openspyre.artifact.bundle import bundle_texts, parse_bundle, read_bundle
from openspyre.artifact.bundle_check import check_bundle
from openspyre.artifact.bundle_function import Address
from openspyre.artifact.fields import Problem
from openspyre.artifact.superdsc import Axis, Constant, Indirection, Mask, SourcePlace, Stick, SuperDsc
from openspyre.compiler import ir, pipeline
from openspyre.compiler.emit import Emitted, emit_bundle
from openspyre.compiler.passes.outer_tables import OuterTables
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import DataFormats
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.origin import Origin

HALF = DataFormats.SEN169_FP16


def buffer(name: str, size: tuple[int, ...], role: ir.Role = ir.Role.INPUT, dtype: str = "float16") -> ir.Buffer:
    return ir.Buffer(name, dtype, size, row_major(size), role, SpyreTensorLayout(size, dtype))


def whole(of: ir.Buffer) -> ir.Access:
    return ir.Access(of.name, 0, of.stride, of.dtype)


def one(
    row: str,
    sizes: tuple[int, ...],
    inputs: tuple[ir.Operand, ...],
    out: ir.Access,
    *buffers: ir.Buffer,
    reduced: tuple[int, ...] = (),
) -> Emitted:
    dims = tuple(ir.Dim(f"d{i}", size, reduced=i in reduced) for i, size in enumerate(sizes))
    scalars = tuple(operand for operand in inputs if isinstance(operand, ir.Scalar))
    program = ir.Program("p", buffers, (ir.Op("op", row, dims, inputs, (out,), origin=Origin("model.py", 3)),), scalars)
    return emit_bundle(pipeline.run(program, verify=True))


def ops(emitted: Emitted) -> list[SuperDsc]:
    return list(emitted.bundle.ops.values())


def scales(op: SuperDsc) -> list[dict[str, int]]:
    return [dict(tensor.scales) for tensor in op.tensors]


def test_the_documents_addition_of_a_row() -> None:
    """Section 5.6: x [96, 320] + s [320], with the rows of core c at 3 * c * 128 bytes for 32 cores."""
    x, s, y = buffer("x", (96, 320)), buffer("s", (320,)), buffer("y", (96, 320), ir.Role.OUTPUT)
    emitted = one("add", (96, 320), (whole(x), ir.Access("s", 0, (0, 1), "float16")), whole(y), x, s, y)
    (op,) = ops(emitted)
    assert op.axes == (Axis("mb", 96, 32), Axis("out", 320))
    assert [tensor.order for tensor in op.tensors] == [("mb", "out"), ("out", "mb"), ("mb", "out")]
    assert scales(op) == [{"mb": 1, "out": 1}, {"mb": -1, "out": 1}, {"mb": 1, "out": 1}]
    (execute,) = emitted.bundle.function.body
    found = dict(execute.symbols)  # type: ignore[union-attr]
    assert [found[start] for start in op.tensors[0].starts] == [Address(0, 3 * 128 * core) for core in range(32)]
    assert {found[start] for start in op.tensors[1].starts} == {Address(1)}
    assert op.provenance is not None
    assert op.provenance.source == SourcePlace("model.py", 3)
    assert [argument.role for argument in emitted.arguments] == ["input", "input", "output"]


def test_a_slice_is_a_start_and_a_gap() -> None:
    """x[20:30, 64:128] of [128, 256], device [4, 128, 64]: stick 128 + 20 is its first, 118 rows and 3 sticks are left out."""
    x, y = buffer("x", (128, 256)), buffer("y", (10, 64), ir.Role.OUTPUT)
    emitted = one("abs", (10, 64), (ir.Access("x", 20 * 256 + 64, (256, 1), "float16"),), whole(y), x, y)
    (op,) = ops(emitted)
    assert (op.op, emitted.extensions) == ("abs", ())
    (execute,) = emitted.bundle.function.body
    assert dict(execute.symbols)[op.tensors[0].starts[0]] == Address(0, (128 + 20) * 128)  # type: ignore[union-attr]
    assert dict(op.tensors[0].gaps)["mb"] == 118


def test_rows_among_other_rows_are_walked_past_a_dim_of_size_one() -> None:
    """x[3] of [5, 8, 64], device [8, 1, 5, 64]: from row to row there are 5 sticks, one of which is walked."""
    x, y = buffer("x", (5, 8, 64)), buffer("y", (8, 64), ir.Role.OUTPUT)
    (op,) = ops(one("abs", (8, 64), (ir.Access("x", 3 * 512, (64, 1), "float16"),), whole(y), x, y))
    (filler,) = [axis.label for axis in op.axes if axis.size == 1]
    assert op.tensors[0].order[0] == filler
    assert dict(op.tensors[0].gaps) == {filler: 4}
    assert op.tensors[1].gaps == ()


@pytest.mark.parametrize(
    ("row", "name", "bits"),
    [("sum", "sum", 0), ("amax", "max", 0xFFFF), ("amin", "min", 0x7FFF), ("prod", "prod", 0x3E00)],
)
def test_a_fold_along_the_sticks_masks_what_is_no_element(row: str, name: str, bits: int) -> None:
    x = buffer("x", (48, 200))
    y = replace(buffer("y", (48,), ir.Role.OUTPUT), layout=SpyreTensorLayout([48], [1], "float16", [0, -1]))
    (op,) = ops(one(row, (48, 200), (whole(x),), ir.Access("y", 0, (1, 0), "float16"), x, y, reduced=(1,)))
    assert (op.op, op.axes[1].size, op.masks) == (name, 256, (Mask("out", 200),))
    assert op.constants == (Constant("samv-maskvalue", HALF, bits),)
    assert (op.inputs, op.outputs, scales(op)[1]) == ((0, 1), (1,), {"mb": 1, "out": -2})


def test_a_fold_across_sticks_is_nonstick_and_a_mean_has_its_share_in_fp32() -> None:
    x, y = buffer("x", (48, 256)), buffer("y", (256,), ir.Role.OUTPUT)
    (op,) = ops(one("mean", (48, 256), (whole(x),), ir.Access("y", 0, (0, 1), "float16"), x, y, reduced=(0,)))
    assert (op.op, op.masks) == ("meannonstick", ())
    assert op.constants == (Constant("scaling_factor", DataFormats.IEEE_FP32, 0x3CAAAAAB),)  # 1 / 48
    assert [axis.label for axis in op.axes if axis.size == 256] == ["mb"]


def test_a_product_pads_k_and_fills_the_second_operands_rows_with_zeros() -> None:
    """[33, 70] @ [70, 130]: 128 rows in the pool, the last 64 zero before 70 are copied, as the reference does; k ends at 70."""
    a, b, c = buffer("a", (33, 70)), buffer("b", (70, 130)), buffer("c", (33, 130), ir.Role.OUTPUT)
    inputs = (ir.Access("a", 0, (70, 0, 1), "float16"), ir.Access("b", 0, (0, 1, 130), "float16"))
    emitted = one(
        "batchmatmul", (33, 130, 70), inputs, ir.Access("c", 0, (130, 1, 0), "float16"), a, b, c, reduced=(2,)
    )
    zeros, copy, product = ops(emitted)
    assert (copy.op, dict(copy.tensors[1].gaps)) == ("identity", {"mb": 58})
    assert (zeros.op, zeros.axes[0].size, scales(zeros)[0]) == ("identity", 64, {"mb": -1, "out": -2})
    begin = dict(emitted.bundle.function.body[0].symbols)[zeros.tensors[1].starts[0]]  # type: ignore[union-attr]
    assert begin == Address(0, 64 * 128)
    assert [(axis.label, axis.size) for axis in product.axes] == [("mb", 33), ("out", 192), ("in", 128)]
    assert [tensor.role for tensor in product.tensors] == ["INPUT", "KERNEL", "OUTPUT"]
    assert (product.unit, product.masks) == ("pt", (Mask("in", 70),))
    assert [argument.role for argument in emitted.arguments] == ["pool", "input", "input", "output", "constant"]
    assert emitted.arguments[0].bytes == 3 * 128 * 128


def test_a_second_operand_along_k_is_turned_first() -> None:
    a, b, c = buffer("a", (32, 128)), buffer("b", (64, 128)), buffer("c", (32, 64), ir.Role.OUTPUT)
    inputs = (ir.Access("a", 0, (128, 0, 1), "float16"), ir.Access("b", 0, (0, 128, 1), "float16"))
    emitted = one("batchmatmul", (32, 64, 128), inputs, ir.Access("c", 0, (64, 1, 0), "float16"), a, b, c, reduced=(2,))
    assert [op.op for op in ops(emitted)] == ["ReStickifyOpHBM", "batchmatmul"]


def test_a_restickify_counts_the_rows_that_are_not_there() -> None:
    """[33, 70] to sticks along its rows: 64 by 128 are walked, the source has 33 rows, the target 70."""
    x = buffer("x", (33, 70))
    y = replace(buffer("y", (33, 70), ir.Role.OUTPUT), layout=SpyreTensorLayout([33, 70], [70, 1], "float16", [1, 0]))
    (op,) = ops(one("relayout", (33, 70), (whole(x),), whole(y), x, y))
    assert (op.op, [(axis.label, axis.size) for axis in op.axes]) == ("ReStickifyOpHBM", [("mb", 64), ("out", 128)])
    assert [(tensor.order, tensor.sticks) for tensor in op.tensors] == [
        (("mb", "out"), (Stick("out", 64),)),
        (("out", "mb"), (Stick("mb", 64),)),
    ]
    assert [dict(tensor.gaps) for tensor in op.tensors] == [{"mb": 31}, {"out": 58}]


def test_numbers_are_sticks_of_their_own() -> None:
    x, y = buffer("x", (4, 64)), buffer("y", (4, 64), ir.Role.OUTPUT)
    emitted = one("mul", (4, 64), (whole(x), ir.Scalar("s", "float16")), whole(y), x, y)
    number = emitted.arguments[-1]
    assert number.layout is not None
    assert (number.name, number.role, number.layout.device_size, number.layout.stride_map) == (
        "s",
        "number",
        [1, 64],
        [-1, -1],
    )
    assert scales(ops(emitted)[0])[1] == {"mb": -1, "out": -2}
    emitted = one("mul", (4, 64), (whole(x), ir.Constant.of(0.5, "float16")), whole(y), x, y)
    assert (emitted.arguments[-1].role, emitted.arguments[-1].value) == ("constant", 0.5)


def test_numbers_that_an_op_has_by_name_are_bits_of_it() -> None:
    x, y = buffer("x", (4, 64)), buffer("y", (4, 64), ir.Role.OUTPUT)
    known = (ir.Constant.of(2.0, "float16"), ir.Constant.of(20.0, "float16"))
    emitted = one("softplus", (4, 64), (whole(x), *known), whole(y), x, y)
    (op,) = ops(emitted)
    beta, threshold = Constant("softplusBeta", HALF, 0x4000), Constant("softplusThresh", HALF, 0x4680)
    assert (op.op, op.constants, len(emitted.arguments)) == ("softplus", (beta, threshold), 2)
    at_launch = tuple(ir.Scalar(name, "float16") for name in ("beta", "threshold"))
    (beyond,) = one("softplus", (4, 64), (whole(x), *at_launch), whole(y), x, y).extensions
    assert (beyond.row, "takes 1 tensors" in beyond.reason) == ("softplus", True)


def test_rows_are_gathered_by_an_index_side_by_side() -> None:
    table, index = buffer("table", (100, 128)), buffer("index", (16,), dtype="int64")
    y = buffer("y", (16, 128), ir.Role.OUTPUT)
    inputs = (ir.Access("table", 0, (0, 1, 128), "float16"), ir.Access("index", 0, (1, 0, 0), "int64"))
    dims = (ir.Dim("i", 16), ir.Dim("j", 128), ir.Dim("index", 100, reduced=True))
    out = ir.Access("y", 0, (128, 1, 0), "float16")
    program = ir.Program("p", (table, index, y), (ir.Op("g", "gather", dims, inputs, (out,)),))
    copy, op = ops(emit_bundle(pipeline.run(program)))
    assert [(made.op, made.cores, made.index) for made in (copy, op)] == [("identity", 25, None), ("identity", 1, 0)]
    assert [tensor.indirection for tensor in op.tensors] == [Indirection.INDEX, Indirection.VALUE, Indirection.NONE]
    assert (op.tensors[0].format, op.tensors[0].order, op.tensors[1].indexed) == (DataFormats.SENUINT32, ("mb",), "mb")


@pytest.mark.parametrize(
    ("row", "dtype", "reason"),
    [
        ("sin", "float16", "no op 'sin'"),
        ("abs", "int32", "does not take IEEE_INT32"),
        ("tanh", "float32", "does not take IEEE_FP32"),
    ],
)
def test_what_the_hardware_has_not_is_an_extension_with_a_reason(
    row: str, dtype: str, reason: str, tmp_path: Path
) -> None:
    x, y = buffer("x", (6, 100), dtype=dtype), buffer("y", (6, 100), ir.Role.OUTPUT, dtype)
    emitted = one(row, (6, 100), (whole(x),), whole(y), x, y)
    (beyond,) = emitted.extensions
    assert (beyond.row, reason in beyond.reason) == (row, True)
    (op,) = ops(emitted)
    assert op.op == f"openspyre.{row}"
    assert op.extension is not None
    for file, text in bundle_texts(emitted.bundle).items():
        (tmp_path / file).write_text(text)
    found = read_bundle(tmp_path)
    assert found.ops == emitted.bundle.ops
    assert check_bundle(found) == []


@pytest.mark.parametrize(
    ("change", "field", "expected"),
    [
        (lambda record: record.update(version=7), "openspyre_.version", "the version this build reads"),
        (lambda record: record.update(row="cos"), "opFuncName", "openspyre.cos"),
        (lambda record: record.update(row="mystery"), "openspyre_.row", "one of"),
        (lambda record: record["dims"][0].update(split=5), "openspyre_.dims[0].split", "a divisor of 6"),
        (lambda record: record.pop("tensors"), "openspyre_.tensors", "list"),
        (lambda record: record["tensors"].pop(), "openspyre_.tensors", "an output"),
        (lambda record: record["tensors"][0].update(format="IEEE_FP32"), "openspyre_.tensors[0]", ""),
        (lambda record: record.update(more=1), "openspyre_", "more"),
    ],
)
def test_a_record_that_was_edited_is_refused_with_its_field(
    change: Callable[[dict[str, Any]], object], field: str, expected: str, tmp_path: Path
) -> None:
    x, y = buffer("x", (6, 100)), buffer("y", (6, 100), ir.Role.OUTPUT)
    for file, text in bundle_texts(one("sin", (6, 100), (whole(x),), whole(y), x, y).bundle).items():
        (tmp_path / file).write_text(text)
    tree = json.loads((tmp_path / "sdsc_0.json").read_text())
    change(tree["0_openspyre.sin"]["openspyre_"])
    (tmp_path / "sdsc_0.json").write_text(json.dumps(tree))
    problems: list[Problem] = []
    bundle = parse_bundle(tmp_path, problems)
    problems += check_bundle(bundle) if bundle is not None else []
    told = [str(problem) for problem in problems]
    assert any(field in text and expected in text for text in told), told


def test_a_stick_that_holds_somebody_elses_elements_is_not_written_whole() -> None:
    """y[:, :30] of [4, 64]: lanes 30 to 63 of each stick are elements, too. They are kept while another dim runs along the sticks."""
    x, y = buffer("x", (4, 30)), buffer("y", (4, 64), ir.Role.UPDATE)
    emitted = one("abs", (4, 30), (whole(x),), ir.Access("y", 0, (64, 1), "float16"), x, y)
    assert not emitted.extensions
    made = [op.op for op in ops(emitted)]
    assert made.count("abs") == 1
    assert set(made[made.index("abs") + 1 :]) == {"ReStickifyOpHBM", "identity"}


@pytest.mark.parametrize("last", [6, -7, 7])
def test_elements_chosen_by_a_constant_are_rows_of_a_turned_tensor(last: int) -> None:
    """x[:, [6, 0, 3, last]] of [32, 7]: the columns lie behind each other in the pool; who put them there tells their number."""
    chosen = np.array([6, 0, 3, last], np.int32)
    x, y = buffer("x", (32, 7)), buffer("y", (32, 4), ir.Role.OUTPUT)
    index = replace(buffer("index", (4,), ir.Role.CONSTANT, "int32"), values=chosen.tobytes())
    dims = (ir.Dim("i", 32), ir.Dim("j", 4), ir.Dim("index", 7, reduced=True))
    read = (ir.Access("x", 0, (7, 0, 1), "float16"), ir.Access("index", 0, (0, 1, 0), "int32"))
    op = ir.Op("op", "gather", dims, read, (ir.Access("y", 0, (4, 1, 0), "float16"),))
    emitted = emit_bundle(pipeline.run(ir.Program("p", (x, index, y), (op,)), verify=True))
    assert [made.op for made in ops(emitted)] == ["ReStickifyOpHBM", "identity", "ReStickifyOpHBM"]
    table = ops(emitted)[1].tensors[ops(emitted)[1].inputs[0]]
    assert table.indirection is Indirection.VALUE
    assert table.order[-1] == table.indexed


def test_a_table_of_the_pool_that_no_op_fills_whole_has_no_length_to_tell() -> None:
    """Two halves that meet in one temp: neither op that writes them says how many rows there are."""
    halves, index = [buffer("a", (8, 128)), buffer("b", (8, 128))], buffer("index", (4,), dtype="int64")
    joined, y = buffer("joined", (16, 128), ir.Role.TEMP), buffer("y", (4, 128), ir.Role.OUTPUT)
    rows = (ir.Dim("i", 8), ir.Dim("j", 128))
    made = [
        ir.Op(half.name, "abs", rows, (whole(half),), (ir.Access("joined", 8 * 128 * n, (128, 1), "float16"),))
        for n, half in enumerate(halves)
    ]
    dims = (ir.Dim("i", 4), ir.Dim("j", 128), ir.Dim("index", 16, reduced=True))
    inputs = (ir.Access("joined", 0, (0, 1, 128), "float16"), ir.Access("index", 0, (1, 0, 0), "int64"))
    made.append(ir.Op("g", "gather", dims, inputs, (ir.Access("y", 0, (128, 1, 0), "float16"),)))
    program = ir.Program("p", (*halves, index, joined, y), tuple(made))
    for step in pipeline.passes():
        program = program if isinstance(step, OuterTables) else step.run(program)
    emitted = emit_bundle(program)
    assert [beyond.row for beyond in emitted.extensions] == ["gather"]


def test_a_table_of_the_pool_that_nobody_fills_has_no_length_to_tell() -> None:
    """torch.empty, set by an index: what lay there before tells nothing."""
    x, index, y = buffer("x", (4, 128)), buffer("index", (4,), dtype="int64"), buffer("y", (16, 128), ir.Role.OUTPUT)
    empty = replace(buffer("t", (16, 128), ir.Role.TEMP), unset=True)
    dims = (ir.Dim("i", 4), ir.Dim("j", 128), ir.Dim("index", 16, reduced=True))
    inputs = (ir.Access("x", 0, (128, 1, 0), "float16"), ir.Access("index", 0, (1, 0, 0), "int64"))
    scatter = ir.Op("s", "scatter", dims, inputs, (ir.Access("t", 0, (0, 1, 128), "float16"),))
    after = ir.Op("a", "abs", (ir.Dim("i", 16), ir.Dim("j", 128)), (whole(empty),), (whole(y),))
    emitted = emit_bundle(pipeline.run(ir.Program("p", (x, index, empty, y), (scatter, after)), verify=True))
    assert [beyond.row for beyond in emitted.extensions] == ["scatter"]


def test_the_place_of_the_largest_is_the_first_of_one_rank() -> None:
    """Along the sticks there is no such op: x [64, 300] is turned first."""
    x, y = buffer("x", (64, 300)), buffer("y", (64,), ir.Role.OUTPUT, "int64")
    emitted = one("argmax", (64, 300), (whole(x),), ir.Access("y", 0, (1, 0), "int64"), x, y, reduced=(1,))
    assert not emitted.extensions
    turned, search = ops(emitted)[:2]
    assert (turned.op, search.op) == ("ReStickifyOpHBM", "topkindex")
    sizes = {axis.label: axis.size for axis in search.axes}
    source, places = (search.tensors[number] for number in (search.inputs[0], search.outputs[0]))
    assert sorted(sizes.values()) == [1, 64, 300]
    assert source.sticks[0].label == places.sticks[0].label
    assert sizes[source.sticks[0].label] == 64
    assert places.format is DataFormats.IEEE_INT32


def test_symbols_go_on_from_file_to_file() -> None:
    x, y, z = buffer("x", (4, 64)), buffer("y", (4, 64), ir.Role.OUTPUT), buffer("z", (4, 64), ir.Role.OUTPUT)
    dims = (ir.Dim("i", 4), ir.Dim("j", 64))
    made = (ir.Op("a", "abs", dims, (whole(x),), (whole(y),)), ir.Op("b", "neg", dims, (whole(y),), (whole(z),)))
    emitted = emit_bundle(pipeline.run(ir.Program("p", (x, y, z), made)))
    first, second = (op.symbols for op in ops(emitted))
    assert [*first, *second] == list(range(-1, -1 - len(first) - len(second), -1))


def test_a_program_whose_passes_have_not_run_is_refused() -> None:
    x, y = buffer("x", (4, 64)), buffer("y", (4, 64), ir.Role.OUTPUT)
    op = ir.Op("a", "abs", (ir.Dim("i", 4), ir.Dim("j", 64)), (whole(x),), (whole(y),))
    with pytest.raises(InternalError, match="layout"):
        emit_bundle(ir.Program("p", (x, replace(y, layout=None)), (op,)))
    with pytest.raises(InternalError, match="without a place"):
        emit_bundle(ir.Program("p", (x, replace(y, role=ir.Role.TEMP)), (op,)))
