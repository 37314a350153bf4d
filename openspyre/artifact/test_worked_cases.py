"""The worked cases of the public documents, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.samples import buffer, gathered, walk
from openspyre.artifact.geometry import geometry
from openspyre.artifact.listing import Address, listing
from openspyre.artifact.model import Bundle, Description, Dim, Execution, Place, Role, ScalarSlot
from openspyre.artifact.sdsc import sdsc_json
from openspyre.spec.encodings import encode_constant
from openspyre.spec.formats import DataFormats

FP16 = DataFormats.SEN169_FP16


def body(description: Description) -> dict[str, Any]:
    (found,) = sdsc_json(description, 0, -1).values()
    assert isinstance(found, dict)
    return found


def dsc(description: Description) -> dict[str, Any]:
    ((_, found),) = body(description)["dscs_"][0].items()
    return dict(found)


def add() -> Description:
    sizes = (128, 256)
    x = walk(buffer("x", sizes, Role.INPUT), (256, 1), sizes)
    return Description("add", (Dim("i", 128, 32), Dim("j", 256)), (x, x), (x,))


def summed(size: tuple[int, int], dim: int, row: str = "sum") -> Description:
    """A sum over one dim of a matrix; as the documents have it, the kept dim comes first."""
    x = buffer("x", size, Role.INPUT)
    if dim == 1:
        out = buffer("out", size[:1], Role.OUTPUT, sparse=True)
        dims = (Dim("i", size[0]), Dim("j", size[1], reduced=True))
        return Description(row, dims, (walk(x, (size[1], 1), size),), (walk(out, (1, 0), size),))
    out, sizes = buffer("out", (1, size[1]), Role.OUTPUT), (size[1], size[0])
    dims = (Dim("j", size[1]), Dim("i", size[0], reduced=True))
    return Description(row, dims, (walk(x, (1, size[1]), sizes),), (walk(out, (1, 0), sizes),))


def test_add_has_one_role_and_each_core_begins_512_bytes_after_the_last() -> None:
    found = dsc(add())
    assert found["primaryDsInfo_"] == {
        "OUTPUT": {"layoutDimOrder_": ["mb", "out"], "stickDimOrder_": ["out"], "stickSize_": [64]}
    }
    assert found["N_"] == {"name_": "n", "mb_": 128, "out_": 256}
    assert found["dataStageParam_"]["0"]["ss_"] == {"name_": "core", "mb_": 4, "out_": 256}
    assert [lds["dsType_"] for lds in found["labeledDs_"]] == ["OUTPUT"] * 3
    assert geometry(add()).tensors[0].core_bytes == tuple(512 * core for core in range(32))
    assert found["constantInfo_"] == "{}"
    assert (found["maskingConstId_"], found["coordinateMasking_"]) == (-1, {})


def test_cores_are_numbered_with_the_first_dim_fastest() -> None:
    found = body(add())
    assert found["numCoresUsed_"] == 32
    assert found["numWkSlicesPerDim_"] == {"mb": 32, "out": 1}
    assert found["coreIdToWkSlice_"]["5"] == {"mb": 5, "out": 0}
    x = walk(buffer("x", (4, 256), Role.INPUT), (256, 1), (4, 256))
    both = Description("add", (Dim("i", 4, 2), Dim("j", 256, 2)), (x, x), (x,))
    assert [body(both)["coreIdToWkSlice_"][c] for c in "0123"] == [
        {"mb": 0, "out": 0},
        {"mb": 1, "out": 0},
        {"mb": 0, "out": 1},
        {"mb": 1, "out": 1},
    ]


def test_addresses_are_negative_symbols_that_run_through_the_tensors() -> None:
    data = [node["startAddressCoreCorelet_"]["data_"] for node in dsc(add())["scheduleTree_"]]
    assert data[0] == {f"[{core}, 0, 0]": str(-1 - core) for core in range(32)}
    assert data[1]["[0, 0, 0]"] == "-33"
    assert data[2]["[31, 0, 0]"] == "-96"


def test_fold_info_of_a_split_dim_and_of_the_stick() -> None:
    info = dsc(add())["scheduleTree_"][0]["coordinates_"]["coordInfo"]
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
    assert found["constantInfo_"]["0"]["data_"]["data_"] == {"[0, 0, 0]": [encode_constant(value, FP16)]}


def test_mm_has_three_roles_and_runs_on_the_matrix_unit() -> None:
    sizes = (64, 128, 192)
    a = walk(buffer("a", (64, 192), Role.INPUT), (192, 0, 1), sizes)
    b = walk(buffer("b", (192, 128), Role.INPUT), (0, 1, 128), sizes)
    out = walk(buffer("c", (64, 128), Role.OUTPUT), (128, 1, 0), sizes)
    dims = (Dim("m", 64), Dim("n", 128), Dim("k", 192, reduced=True))
    found = dsc(Description("batchmatmul", dims, (a, b), (out,)))
    info = {role: (set(i["layoutDimOrder_"]), i["stickDimOrder_"]) for role, i in found["primaryDsInfo_"].items()}
    assert info == {
        "INPUT": ({"mb", "in"}, ["in"]),
        "KERNEL": ({"in", "out"}, ["out"]),
        "OUTPUT": ({"mb", "out"}, ["out"]),
    }
    assert found["primaryDsInfo_"]["INPUT"]["layoutDimOrder_"] == ["mb", "in"]
    assert found["primaryDsInfo_"]["OUTPUT"]["layoutDimOrder_"] == ["mb", "out"]
    assert found["computeOp_"][0]["exUnit"] == "pt"
    assert found["computeOp_"][0]["opFuncName"] == "batchmatmul"
    assert found["computeOp_"][0]["inputLabeledDs"] == ["Tensor0-idx0", "Tensor1-idx1"]


def test_bmm_adds_a_batch_label() -> None:
    sizes = (3, 64, 128, 192)
    a = walk(buffer("a", (3, 64, 192), Role.INPUT), (64 * 192, 192, 0, 1), sizes)
    b = walk(buffer("b", (3, 192, 128), Role.INPUT), (192 * 128, 0, 1, 128), sizes)
    out = walk(buffer("c", (3, 64, 128), Role.OUTPUT), (64 * 128, 128, 1, 0), sizes)
    dims = (Dim("b", 3), Dim("m", 64), Dim("n", 128), Dim("k", 192, reduced=True))
    assert dsc(Description("batchmatmul", dims, (a, b), (out,)))["N_"] == {
        "name_": "n",
        "x_": 3,
        "mb_": 64,
        "out_": 128,
        "in_": 192,
    }


def test_restickify_reads_role_output_and_writes_role_kernel() -> None:
    sizes = (128, 64)
    x = walk(buffer("x", (64, 128), Role.INPUT), (1, 128), sizes, view=True)
    out = walk(buffer("y", (128, 64), Role.OUTPUT), (64, 1), sizes, view=True)
    found = dsc(Description("relayout", (Dim("i", 128), Dim("j", 64)), (x,), (out,)))
    assert found["computeOp_"][0]["opFuncName"] == "ReStickifyOpHBM"
    assert found["computeOp_"][0]["exUnit"] == "sfp"
    assert [lds["dsType_"] for lds in found["labeledDs_"]] == ["OUTPUT", "KERNEL"]


def test_a_slice_of_a_larger_tensor_has_gaps_and_an_offset() -> None:
    large, small = buffer("big", (128, 256), Role.OUTPUT), buffer("x", (10, 64), Role.INPUT)
    sizes = (10, 64)
    target = walk(large, (256, 1), (10, 256))
    op = Description("abs", (Dim("i", 10), Dim("j", 64)), (walk(small, (64, 1), sizes),), (target,))
    nodes = dsc(op)["scheduleTree_"]
    assert "backGapCore_" not in nodes[0]
    assert nodes[1]["backGapCore_"] == {"mb": {"-1": "118"}, "out": {"-1": "192"}}
    rows_20_on, second_stick = 20 * 64 * 2, 128 * 64 * 2
    place = Place("big", rows_20_on + second_stick)
    bundle = Bundle("slice", (small, large), (op,), (Execution("copy", 0, (Place("x", 0), place)),))
    assert listing(bundle).entries[0].addresses == (Address(0, 0), Address(1, 2560 + 16384))


def test_constants_have_their_documented_names() -> None:
    sizes = (128, 256)
    x = walk(buffer("x", sizes, Role.INPUT), (256, 1), sizes)
    slots = (ScalarSlot("float16"), ScalarSlot("float16"))
    softplus = Description("softplus", (Dim("i", 128), Dim("j", 256)), (x, *slots), (x,))
    info = dsc(softplus)["constantInfo_"]
    assert {place: entry["name_"] for place, entry in info.items()} == {"0": "softplusBeta", "1": "softplusThresh"}
    mean = dsc(summed((128, 256), 1, "mean"))["constantInfo_"]["0"]
    assert mean["name_"] == "scaling_factor"
    assert mean["data_"]["data_"]["[0, 0, 0]"] == [encode_constant(1 / 256, FP16)]


def test_a_row_added_to_a_matrix_over_24_cores() -> None:
    """The documents' OpSpec example: y = x + s with s broadcast along the rows."""
    sizes = (96, 320)
    x = walk(buffer("x", sizes, Role.INPUT), (320, 1), sizes)
    s = walk(buffer("s", (1, 320), Role.INPUT), (0, 1), sizes)
    assert (x.layout.device_size, s.layout.device_size) == ([5, 96, 64], [5, 1, 64])
    found = dsc(Description("add", (Dim("i", 96, 24), Dim("j", 320)), (x, s), (x,)))
    assert found["labeledDs_"][1]["dsType_"] == "OUTPUT"
    assert found["labeledDs_"][1]["scale_"] == [-1, 1]
    assert found["dataStageParam_"]["0"]["ss_"] == {"name_": "core", "mb_": 4, "out_": 320}
    data = found["scheduleTree_"][1]["startAddressCoreCorelet_"]["data_"]
    assert set(data.values()) == {"-25"}, "all cores read the same row"


def test_a_gather_marks_its_index_and_what_is_found_through_it() -> None:
    found = dsc(gathered().descriptions[0])
    assert found["computeOp_"][0]["opFuncName"] == "identity"
    assert found["computeOp_"][0]["inputLabeledDs"] == ["Tensor0-idx0"]
    assert found["computeOp_"][0]["indirectAccessIndexLabeledDs"] == ["Tensor1-idx1"]
    assert [lds["dsType_"] for lds in found["labeledDs_"]] == ["OUTPUT", "KERNEL_IDX", "OUTPUT"]
    assert found["labeledDs_"][1]["dataFormat_"] == "SENUINT32"
    assert found["labeledDs_"][1]["memOrg_"] == {"hbm": {"isPresent": 1}}
    table, index, out = found["scheduleTree_"]
    assert (table["indirectAllocType_"], table["relatedIndirectAccessAlloc_"]) == (
        "value_tensor",
        "allocate-Tensor1_hbm",
    )
    assert sorted(table["maxDimSizes_"]) == [-1, -1, 1]
    assert (index["indirectAllocType_"], index["indexTensorType_"]) == ("index_tensor", "index")
    assert out["indirectAllocType_"] == "no_indirection"


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("float16", "float32", "dl16tofp32"),
        ("bfloat16", "float32", "dl16tofp32"),
        ("float32", "float16", "fp32todl16"),
        ("float8_e4m3fn", "float16", "fp8todl16"),
        ("float16", "bfloat16", "identity"),
        ("float16", "float16", "identity"),
        ("float32", "int64", "openspyre.cast"),
    ],
)
def test_a_cast_is_called_by_its_formats(source: str, target: str, name: str) -> None:
    sizes = (4, 256)
    x = walk(buffer("x", sizes, Role.INPUT, source), (256, 1), sizes)
    y = walk(buffer("y", sizes, Role.OUTPUT, target), (256, 1), sizes)
    op = Description("cast", (Dim("i", 4), Dim("j", 256)), (x,), (y,))
    assert dsc(op)["computeOp_"][0]["opFuncName"] == name
    assert body(op)["openspyre_"]["documented"] is (name != "openspyre.cast")


def test_integers_that_only_move_are_called_fp32() -> None:
    sizes = (4, 64)
    x = walk(buffer("x", sizes, Role.INPUT, "int32"), (64, 1), sizes)
    op = Description("identity", (Dim("i", 4), Dim("j", 64)), (x,), (x,))
    assert dsc(op)["computeOp_"][0]["attributes_"]["dataFormat_"] == "IEEE_FP32"
    assert dsc(op)["labeledDs_"][0]["dataFormat_"] == "IEEE_INT32"


def test_a_tensor_that_walks_no_dim_has_no_gaps() -> None:
    sizes = (4, 256)
    x, out = walk(buffer("x", sizes, Role.INPUT), (256, 1), sizes), walk(buffer("out", (), Role.OUTPUT), (0, 0), sizes)
    dims = (Dim("i", 4, reduced=True), Dim("j", 256, reduced=True))
    found = dsc(Description("sum", dims, (x,), (out,)))
    assert "backGapCore_" not in found["scheduleTree_"][1]
    assert found["labeledDs_"][1]["scale_"] == [-1, -2]


def test_an_op_on_single_values_gets_a_stick_of_its_own() -> None:
    x = walk(buffer("x", (7,), Role.INPUT, sparse=True), (1,), (7,))
    found = dsc(Description("abs", (Dim("i", 7),), (x,), (x,)))
    assert found["N_"] == {"name_": "n", "out_": 7, "x_": 64}
    assert found["labeledDs_"][0]["scale_"] == [1, -2]
