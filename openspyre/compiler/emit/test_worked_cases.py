"""The worked cases of the public documents, field by field, in the files that our compiler writes."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.samples import OUTPUT, at, buffer, compiled, dims, gathered, transposed
from openspyre.artifact import Emitted
from openspyre.artifact.bundle_function import Address
from openspyre.artifact.superdsc_writer import superdsc_json
from openspyre.compiler import ir
from openspyre.spec.encodings import encode_constant
from openspyre.spec.formats import DataFormats

FP16, FP32 = DataFormats.SEN169_FP16, DataFormats.IEEE_FP32


def body(emitted: Emitted, number: int = -1) -> dict[str, Any]:
    """The last op of a bundle, or another one, as its file has it."""
    (found,) = superdsc_json(list(emitted.bundle.ops.values())[number]).values()
    assert isinstance(found, dict)
    return found


def dsc(emitted: Emitted, number: int = -1) -> dict[str, Any]:
    ((_, found),) = body(emitted, number)["dscs_"][0].items()
    return dict(found)


def one(row: str, space: tuple[ir.Dim, ...], inputs: tuple[ir.Operand, ...], out: ir.Access, *of: ir.Buffer) -> Emitted:
    return compiled(ir.Program("p", of, (ir.Op("op", row, space, inputs, (out,)),)))


def add(*sizes: int) -> Emitted:
    x, y, z = buffer("x", sizes), buffer("y", sizes), buffer("z", sizes, OUTPUT)
    return one("add", dims(*sizes), (at(x), at(y)), at(z), x, y, z)


def summed(size: tuple[int, int], dim: int, row: str = "sum") -> Emitted:
    """A sum over one dim of a matrix; along the sticks it leaves one value a stick."""
    x = buffer("x", size)
    out = buffer("out", size[:1], OUTPUT, sparse=True) if dim == 1 else buffer("out", size[1:], OUTPUT)
    return one(row, dims(*size, reduced=(dim,)), (at(x),), at(out, 1, 0) if dim == 1 else at(out, 0, 1), x, out)


def starts(emitted: Emitted, tensor: int, number: int = -1) -> list[Address]:
    """Where each core begins."""
    op = list(emitted.bundle.ops.values())[number]
    symbols = dict(list(emitted.bundle.function.listed())[number].symbols)
    return [symbols[start] for start in op.tensors[tensor].starts]


def test_add_has_one_role_and_each_core_begins_512_bytes_after_the_last() -> None:
    found = dsc(add(128, 256))
    assert found["primaryDsInfo_"] == {
        "OUTPUT": {"layoutDimOrder_": ["mb", "out"], "stickDimOrder_": ["out"], "stickSize_": [64]}
    }
    assert found["N_"] == {"name_": "n", "mb_": 128, "out_": 256}
    stage = found["dataStageParam_"]["0"]["ss_"]
    assert (stage["mb_"], stage["out_"]) == (4, 256)
    assert [lds["dsType_"] for lds in found["labeledDs_"]] == ["OUTPUT"] * 3
    assert starts(add(128, 256), 0) == [Address(0, 512 * core) for core in range(32)]
    assert found["constantInfo_"] == "{}"
    assert (found["maskingConstId_"], found["coordinateMasking_"]) == (-1, {})


def test_cores_are_numbered_with_the_first_dim_fastest() -> None:
    found = body(add(128, 256))
    assert found["numCoresUsed_"] == 32
    assert found["numWkSlicesPerDim_"] == {"mb": 32, "out": 1}
    assert found["coreIdToWkSlice_"]["5"] == {"mb": 5, "out": 0}
    both = body(add(2, 1024))
    assert both["numWkSlicesPerDim_"] == {"mb": 2, "out": 16}
    assert [both["coreIdToWkSlice_"][core] for core in "0123"] == [
        {"mb": 0, "out": 0},
        {"mb": 1, "out": 0},
        {"mb": 0, "out": 1},
        {"mb": 1, "out": 1},
    ]


def test_addresses_are_negative_symbols_that_run_through_the_tensors() -> None:
    data = [node["startAddressCoreCorelet_"]["data_"] for node in dsc(add(128, 256))["scheduleTree_"]]
    assert data[0] == {f"[{core}, 0, 0]": str(-1 - core) for core in range(32)}
    assert data[1]["[0, 0, 0]"] == "-33"
    assert data[2]["[31, 0, 0]"] == "-96"


def test_fold_info_of_a_split_dim_and_of_the_stick() -> None:
    info = dsc(add(128, 256))["scheduleTree_"][0]["coordinates_"]["coordInfo"]
    rows, stick = info["mb"], info["out"]
    assert (rows["spatial"], rows["temporal"], rows["elemArr"], rows["padding"]) == (3, 0, 1, "nopad")
    assert [f["Affine"]["alpha_"] for f in rows["folds"]["dim_prop_func"]] == [4, 0, 0, 1]
    assert [f["factor_"] for f in rows["folds"]["dim_prop_attr"]] == [32, 1, 1, 4]
    assert stick["elemArr"] == 2
    assert [f["Affine"]["alpha_"] for f in stick["folds"]["dim_prop_func"]] == [256, 0, 0, 64, 1]
    assert [f["factor_"] for f in stick["folds"]["dim_prop_attr"]] == [1, 1, 1, 4, 64]
    assert [f["label_"] for f in stick["folds"]["dim_prop_attr"]] == [
        "core_fold",
        "corelet_fold",
        "row_fold",
        "elem_arr_1",
        "elem_arr_0",
    ]


def test_a_sum_over_the_stick_dim_has_scale_minus_2_and_lists_its_accumulator() -> None:
    found = dsc(summed((128, 256), 1))
    assert found["computeOp_"][0]["opFuncName"] == "sum"
    assert found["computeOp_"][0]["inputLabeledDs"] == ["Tensor0-idx0", "Tensor1-idx1"]
    assert found["computeOp_"][0]["outputLabeledDs"] == ["Tensor1-idx1"]
    assert found["labeledDs_"][1]["scale_"] == [1, -2]
    assert found["labeledDs_"][0]["dsType_"] == found["labeledDs_"][1]["dsType_"] == "OUTPUT"
    out = found["scheduleTree_"][1]["coordinates_"]["coordInfo"]["out"]["folds"]
    assert [f["Affine"]["alpha_"] for f in out["dim_prop_func"]] == [64, 0, 0, 64, 0]
    assert [f["factor_"] for f in out["dim_prop_attr"]] == [1, 1, 1, 1, 64]


def test_a_sum_over_rows_is_the_nonstick_function() -> None:
    """The kept dim comes first, as the documents have it."""
    found = dsc(summed((128, 256), 0))
    assert found["computeOp_"][0]["opFuncName"] == "sumnonstick"
    assert found["N_"] == {"name_": "n", "mb_": 256, "out_": 128}
    assert found["scheduleTree_"][0]["layoutDimOrder_"] == ["out", "mb"]
    assert found["primaryDsInfo_"]["OUTPUT"]["stickDimOrder_"] == ["mb"]
    scales = dict(
        zip(found["primaryDsInfo_"]["OUTPUT"]["layoutDimOrder_"], found["labeledDs_"][1]["scale_"], strict=True)
    )
    assert scales == {"mb": 1, "out": -1}


@pytest.mark.parametrize(("row", "value"), [("sum", 0.0), ("amax", -float("inf")), ("amin", float("inf"))])
def test_padding_of_a_folded_stick_dim_is_masked(row: str, value: float) -> None:
    found = dsc(summed((128, 200), 1, row))
    assert found["N_"]["out_"] == 256
    assert found["coordinateMasking_"] == {"out": [[200, 56]]}
    assert found["maskingConstId_"] == 0
    assert found["constantInfo_"]["0"]["name_"] == "samv-maskvalue"
    assert found["constantInfo_"]["0"]["data_"]["data_"]["[0, 0, 0]"] == [encode_constant(value, FP16)]


def product(*batch: int) -> Emitted:
    a, b, out = buffer("a", (*batch, 64, 192)), buffer("b", (*batch, 192, 128)), buffer("c", (*batch, 64, 128), OUTPUT)
    inputs = at(a, *a.stride[:-2], 192, 0, 1), at(b, *b.stride[:-2], 0, 1, 128)
    space = dims(*batch, 64, 128, 192, reduced=(len(batch) + 2,))
    return one("batchmatmul", space, inputs, at(out, *out.stride[:-2], 128, 1, 0), a, b, out)


def test_mm_has_three_roles_and_runs_on_the_matrix_unit() -> None:
    found = dsc(product())
    info = {role: (set(i["layoutDimOrder_"]), i["stickDimOrder_"]) for role, i in found["primaryDsInfo_"].items()}
    assert info == {
        "INPUT": ({"mb", "in"}, ["in"]),
        "KERNEL": ({"in", "out"}, ["out"]),
        "OUTPUT": ({"mb", "out"}, ["out"]),
    }
    assert found["computeOp_"][0]["exUnit"] == "pt"
    assert found["computeOp_"][0]["opFuncName"] == "batchmatmul"
    assert found["computeOp_"][0]["inputLabeledDs"] == ["Tensor0-idx0", "Tensor1-idx1"]


def test_bmm_adds_a_batch_label() -> None:
    assert dsc(product(3))["N_"] == {"name_": "n", "x_": 3, "mb_": 64, "out_": 128, "in_": 192}


def test_restickify_reads_role_output_and_writes_role_kernel() -> None:
    found = dsc(transposed())
    assert found["computeOp_"][0]["opFuncName"] == "ReStickifyOpHBM"
    assert found["computeOp_"][0]["exUnit"] == "sfp"
    assert [lds["dsType_"] for lds in found["labeledDs_"]] == ["OUTPUT", "KERNEL"]


def test_a_slice_of_a_larger_tensor_has_gaps_and_an_offset() -> None:
    """big[20:30, 64:128] of [128, 256], device [4, 128, 64]."""
    small, large = buffer("x", (10, 64)), buffer("big", (128, 256), OUTPUT)
    emitted = one("abs", dims(10, 64), (at(small),), at(large, 256, 1, offset=20 * 256 + 64), small, large)
    nodes = dsc(emitted)["scheduleTree_"]
    assert "backGapCore_" not in nodes[0]
    assert nodes[1]["backGapCore_"]["mb"] == {"-1": "118"}
    rows_20_on, second_stick = 20 * 64 * 2, 128 * 64 * 2
    assert starts(emitted, 1)[0] == Address(1, rows_20_on + second_stick)


def test_constants_have_their_documented_names() -> None:
    x, y = buffer("x", (128, 256)), buffer("y", (128, 256), OUTPUT)
    known = ir.Constant.of(2.0, "float16"), ir.Constant.of(20.0, "float16")
    info = dsc(one("softplus", dims(128, 256), (at(x), *known), at(y), x, y))["constantInfo_"]
    assert {place: entry["name_"] for place, entry in info.items()} == {"0": "softplusBeta", "1": "softplusThresh"}
    assert info["0"]["data_"]["data_"]["[0, 0, 0]"] == [encode_constant(2.0, FP16)]
    mean = dsc(summed((128, 256), 1, "mean"))["constantInfo_"]["0"]
    assert mean["name_"] == "scaling_factor"
    assert mean["data_"]["data_"]["[0, 0, 0]"] == [encode_constant(1 / 256, FP32)]


def test_a_row_added_to_a_matrix() -> None:
    """The documents' OpSpec example: y = x + s with s broadcast along the rows."""
    x, s, y = buffer("x", (96, 320)), buffer("s", (1, 320)), buffer("y", (96, 320), OUTPUT)
    assert x.layout is not None and s.layout is not None
    assert (x.layout.device_size, s.layout.device_size) == ([5, 96, 64], [5, 1, 64])
    found = dsc(one("add", dims(96, 320), (at(x), at(s, 0, 1)), at(y), x, s, y))
    order = found["primaryDsInfo_"]["OUTPUT"]["layoutDimOrder_"]
    assert found["labeledDs_"][1]["dsType_"] == "OUTPUT"
    assert dict(zip(order, found["labeledDs_"][1]["scale_"], strict=True)) == {"mb": -1, "out": 1}
    data = found["scheduleTree_"][1]["startAddressCoreCorelet_"]["data_"]
    assert set(data.values()) == {"-33"}, "all cores read the same row"


def test_a_gather_marks_its_index_and_what_is_found_through_it() -> None:
    found = dsc(gathered())
    compute = found["computeOp_"][0]
    assert (compute["opFuncName"], compute["indirectAccessIndexLabeledDs"]) == ("identity", ["Tensor0-idx0"])
    assert compute["inputLabeledDs"] == ["Tensor1-idx1"]
    assert found["labeledDs_"][0]["dsType_"] == "KERNEL_IDX"
    assert found["labeledDs_"][0]["dataFormat_"] == "SENUINT32"
    assert found["labeledDs_"][0]["memOrg_"] == {"hbm": {"isPresent": 1}}
    index, table, out = found["scheduleTree_"]
    assert (table["indirectAllocType_"], table["relatedIndirectAccessAlloc_"]) == (
        "value_tensor",
        "allocate-Tensor0_hbm",
    )
    assert sorted(table["maxDimSizes_"]) == [-1, 1]
    assert (index["indirectAllocType_"], index["indexTensorType_"]) == ("index_tensor", "index")
    assert out["indirectAllocType_"] == "no_indirection"


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("float16", "float32", "dl16tofp32"),
        ("bfloat16", "float32", "dl16tofp32"),
        ("float32", "float16", "fp32todl16"),
        ("float16", "bfloat16", "identity"),
        ("float16", "float16", "identity"),
        ("float32", "int64", "openspyre.cast"),
    ],
)
def test_a_cast_is_called_by_its_formats(source: str, target: str, name: str) -> None:
    x, y = buffer("x", (4, 256), dtype=source), buffer("y", (4, 256), OUTPUT, target)
    emitted = one("cast", dims(4, 256), (at(x),), at(y), x, y)
    assert dsc(emitted)["computeOp_"][0]["opFuncName"] == name
    assert ("openspyre_" in body(emitted)) is (name == "openspyre.cast")


def test_integers_that_only_move_are_called_fp32() -> None:
    x, y = buffer("x", (4, 64), dtype="int32"), buffer("y", (4, 64), OUTPUT, "int32")
    found = dsc(one("identity", dims(4, 64), (at(x),), at(y), x, y))
    assert found["computeOp_"][0]["attributes_"]["dataFormat_"] == "IEEE_FP32"
    assert found["labeledDs_"][0]["dataFormat_"] == "IEEE_INT32"


def test_a_tensor_that_walks_no_dim_has_no_gaps() -> None:
    x, out = buffer("x", (4, 256)), buffer("out", (), OUTPUT)
    found = dsc(one("sum", dims(4, 256, reduced=(0, 1)), (at(x),), ir.Access("out", 0, (0, 0), "float16"), x, out))
    assert "backGapCore_" not in found["scheduleTree_"][1]
    assert sorted(found["labeledDs_"][1]["scale_"]) == [-2, -1]


def test_an_op_on_single_values_gets_a_stick_of_its_own() -> None:
    x, y = buffer("x", (7,), sparse=True), buffer("y", (7,), OUTPUT, sparse=True)
    found = dsc(one("abs", dims(7), (at(x),), at(y), x, y))
    assert sorted(value for key, value in found["N_"].items() if key != "name_") == [7, 64]
    (info,) = found["primaryDsInfo_"].values()
    assert found["N_"][f"{info['stickDimOrder_'][0]}_"] == 64, "lanes beside the value are computed, too"
