"""Bundles in the documented form through the tools: written, verified, inspected, run; and every mistake is told."""

import json
from dataclasses import replace

import numpy as np
import pytest
from foreign.handmade import softmax
from foreign.random_bundles import random_bundle

from openspyre.artifact.bundle import bundle_texts, read_bundle
from openspyre.artifact.launch_spec import Argument, launch_spec_json
from openspyre.program.footprint import footprints
from openspyre.program.model import Dim, LaneBlock, Map, Operand, OperandKind, Program
from openspyre.spec.encodings import sen169_decode, sen169_encode
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops.expression import Lane, trace
from openspyre.tools.command import main


@pytest.fixture
def kernel(tmp_path):
    """A kernel directory as another compiler would leave it."""
    directory = tmp_path / "kernel"
    directory.mkdir()
    for name, text in bundle_texts(softmax(8, 128, 4)).items():
        (directory / name).write_text(text)
    return directory


@pytest.fixture
def x(tmp_path):
    values = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float16)
    np.save(tmp_path / "x.npy", values)
    return values


def rounded(values):
    return sen169_decode(sen169_encode(values.astype(np.float32)))


def oracle(x):
    """Softmax as the card computes it: every op rounds."""
    x = rounded(x)
    e = rounded(np.exp(rounded(x - x.max(-1, keepdims=True))))
    return rounded(e / rounded(e.sum(-1, keepdims=True)))


def result(path):
    codes = np.load(path).view(np.uint16).reshape(2, 8, 64)
    return sen169_decode(codes.transpose(1, 0, 2).reshape(8, 128))


def test_host_values_go_in_and_device_bytes_come_out(kernel, x, tmp_path, capsys):
    assert main(["verify", str(kernel)]) == 0
    assert main(["run", str(kernel), "--arg", f"0={tmp_path}/x.npy", "--out", str(tmp_path / "out")]) == 0
    assert "6 ops executed" in capsys.readouterr().out
    np.testing.assert_allclose(result(tmp_path / "out" / "segment_1.npy"), oracle(x), rtol=2.0**-8)


def test_raw_bytes_go_in_as_they_are(kernel, x, tmp_path):
    image = sen169_encode(x.astype(np.float32)).reshape(8, 2, 64).transpose(1, 0, 2)
    np.save(tmp_path / "image.npy", image.astype(np.uint16))
    assert main(["run", str(kernel), "--image", f"0={tmp_path}/image.npy", "--out", str(tmp_path / "out")]) == 0
    np.testing.assert_array_equal(
        np.load(tmp_path / "out" / "segment_0.npy"), image.astype(np.uint16).view(np.uint8).ravel()
    )
    np.testing.assert_allclose(result(tmp_path / "out" / "segment_1.npy"), oracle(x), rtol=2.0**-8)


def test_a_launch_spec_says_what_the_arguments_are(kernel, x, tmp_path):
    layout = SpyreTensorLayout([2, 8, 64], [64, 128, 1], softmax(8, 128, 4).ops["sdsc_0.json"].format)
    np.save(kernel / "x.npy", x)
    arguments = (
        Argument("x", "input", 0, "float16", (8, 128), layout, "x.npy"),
        Argument("y", "output", 0, "float16", (8, 128), layout),
    )
    (kernel / "launch_spec.json").write_text(json.dumps(launch_spec_json(arguments)))
    assert main(["run", str(kernel), "--out", str(tmp_path / "out")]) == 0
    np.testing.assert_allclose(result(tmp_path / "out" / "segment_1.npy"), oracle(x), rtol=2.0**-8)
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), oracle(x), rtol=2.0**-8)


@pytest.mark.parametrize("command", ["run", "compile"])
def test_a_launch_spec_of_another_bundle_is_refused(kernel, capsys, command):
    arguments = tuple(Argument(name, "pool", 128) for name in "abc")
    (kernel / "launch_spec.json").write_text(json.dumps(launch_spec_json(arguments)))
    assert main([command, str(kernel)]) == 1
    assert "found 3 arguments, expected 2, as many as the bundle takes" in capsys.readouterr().err


def test_the_layout_of_host_values_may_be_given(kernel, x, tmp_path):
    layout = "SpyreTensorLayout(device_size=[2, 8, 64], stride_map =[64, 128, 1], device_dtype=DataFormats.SEN169_FP16)"
    command = ["run", str(kernel), "--arg", f"0={tmp_path}/x.npy", "--out", str(tmp_path / "out")]
    assert main([*command, "--layout", f"0={layout}"]) == 0
    np.testing.assert_allclose(result(tmp_path / "out" / "segment_1.npy"), oracle(x), rtol=2.0**-8)
    turned = "SpyreTensorLayout(device_size=[1, 128, 64], stride_map=[8192, 1, 128], device_dtype=SEN169_FP16)"
    assert main([*command, "--layout", f"0={turned}"]) == 0  # other bytes, other numbers
    assert not np.allclose(result(tmp_path / "out" / "segment_1.npy"), oracle(x), rtol=2.0**-8)


def test_the_hardwares_ops_are_listed(capsys):
    assert main(["ops", "--hardware", "--json"]) == 0
    listed = {op["op"]: op for op in json.loads(capsys.readouterr().out)}
    assert listed["batchmatmul"]["unit"] == "pt" and listed["clip"]["constants"] == ["clipMin", "clipMax"]


def test_the_size_of_what_an_index_chooses_from_must_be_known(tmp_path, capsys):
    made = next(m for m in map(random_bundle, range(1000)) if m.said.startswith("gather"))
    for name, text in bundle_texts(made.bundle).items():
        (tmp_path / name).write_text(text)
    assert main(["compile", str(tmp_path)]) == 1
    assert "must be known: --bytes 1=N" in capsys.readouterr().err
    made_index = tmp_path / "index.npy"
    np.save(made_index, np.zeros(made.argument_bytes[0], np.uint8))
    assert main(["run", str(tmp_path), "--image", f"0={made_index}"]) == 1
    assert "argument 1 is" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path)]) == 0
    assert "as many bytes as an index asks for" in capsys.readouterr().out
    assert main(["compile", str(tmp_path), "--bytes", f"1={made.argument_bytes[1]}"]) == 0
    assert (tmp_path / "spyreCodeDir" / "spyrecode.json").exists()


def test_an_argument_read_where_nothing_was_written_is_missing():
    """Its first rows are written, then its others are read: zeros would be a wrong number that nobody sees."""
    first, second = (Operand(OperandKind.VECTOR, symbol, 0, (64,)) for symbol in range(2))
    code = trace(lambda x: x, (Lane.FLOAT,))
    step = Map("copy", (Dim(4),), LaneBlock(64, 64, -1), (first,), (second,), code)
    back = replace(
        step, inputs=(Operand(OperandKind.VECTOR, 1, 256, (64,)),), outputs=(Operand(OperandKind.VECTOR, 2, 0, (64,)),)
    )
    found = footprints(Program("p", ("a", "b", "c"), (), (step, back)))
    assert [found[n].read_first for n in range(3)] == [True, True, False]
    same = replace(back, inputs=(Operand(OperandKind.VECTOR, 1, 0, (64,)),))
    assert not footprints(Program("p", ("a", "b", "c"), (), (step, same)))[1].read_first


def test_scratchpads_live_on_from_launch_to_launch(x, tmp_path):
    whole = softmax(8, 128, 4)
    for number, files in enumerate((range(3), range(3, 6))):
        directory = tmp_path / f"kernel_{number}"
        directory.mkdir()
        body = tuple(node for node in whole.function.body if node.file in {f"sdsc_{i}.json" for i in files})
        part = replace(
            whole, function=replace(whole.function, body=body), ops={node.file: whole.ops[node.file] for node in body}
        )
        for name, text in bundle_texts(part).items():
            (directory / name).write_text(text)
    command = ["run", str(tmp_path / "kernel_0"), str(tmp_path / "kernel_1"), "--arg", f"0.0={tmp_path}/x.npy"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    np.testing.assert_allclose(result(tmp_path / "out" / "launch_1" / "segment_1.npy"), oracle(x), rtol=2.0**-8)


def test_inspect_shows_places_divisions_and_the_scratchpads(kernel, capsys):
    assert main(["inspect", str(kernel)]) == 0
    text = capsys.readouterr().out
    for part in ("symbolic addresses", "0. input  arg_0, at least 2048 bytes", "1. output arg_1",
                 "mb=8 split 4, out=128; 4 cores", "scratchpad + 4096", "by op 1 (1_max) on 4 core(s)"):  # fmt: skip
        assert part in text
    assert main(["inspect", str(kernel), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ops"][5]["op"] == "realdiv"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "argument 0 is read, but was not given"),
        (["--arg", "7=x.npy"], "has 2 arguments"),
        (["--arg", "1.0=x.npy"], "there are 1 launch(es)"),
        (["--arg", "0=missing.npy"], "cannot read"),
        (["--arg", "zero=x.npy"], "SEGMENT=..."),
        (["--layout", "0=nonsense"], "there is no --arg 0.0"),
        (["--arg", "0=x.npy", "--layout", "0=nonsense"], "the printed form is wanted"),
        (["--arg", "0=x.npy", "--image", "0=x.npy"], "an argument is given once"),
        (["--image", "0=short.npy"], "has 64 bytes, the bundle reaches byte 2047"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_way_out(
    kernel, x, tmp_path, monkeypatch, capsys, options, said
):
    monkeypatch.chdir(tmp_path)
    np.save("short.npy", np.zeros(64, np.uint8))
    assert main(["run", str(kernel), *options]) == 1
    assert said in capsys.readouterr().err


def edit(kernel, file, change):
    tree = json.loads((kernel / file).read_text())
    (top,) = tree.values()
    change(top, next(iter(top["dscs_"][0].values())))
    (kernel / file).write_text(json.dumps(tree))


MISTAKES = {
    "an op nobody has": ("sdsc_3.json", lambda top, dsc: dsc["computeOp_"][0].update(opFuncName="expp"), "'expp'"),
    "another unit": ("sdsc_3.json", lambda top, dsc: dsc["computeOp_"][0].update(exUnit="pt"), "exUnit"),
    "beyond the scratchpad": (
        "sdsc_3.json",
        lambda top, dsc: dsc["scheduleTree_"][1]["startAddressCoreCorelet_"]["data_"].update({f"[{c}, 0, 0]": "1625216" for c in range(4)}),
        "belong to the back end",
    ),
    "no start of a stick": (
        "sdsc_3.json",
        lambda top, dsc: dsc["scheduleTree_"][1]["startAddressCoreCorelet_"]["data_"].update({"[2, 0, 0]": "4097"}),
        "the first byte of a stick",
    ),
    "a result within an input": (
        "sdsc_3.json",
        lambda top, dsc: dsc["scheduleTree_"][1]["startAddressCoreCorelet_"]["data_"].update({f"[{c}, 0, 0]": "4224" for c in range(4)}),
        "a place of its own",
    ),
    "a core without an address": (
        "sdsc_3.json",
        lambda top, dsc: dsc["scheduleTree_"][1]["startAddressCoreCorelet_"]["data_"].pop("[2, 0, 0]"),
        "one for each of 4",
    ),
    "a split that does not divide": ("sdsc_3.json", lambda top, dsc: top["numWkSlicesPerDim_"].update(mb=3), "a divisor of the size 8"),
    "sizes that contradict": ("sdsc_3.json", lambda top, dsc: dsc["dataStageParam_"]["0"]["ss_"].update(mb_=7), "N_ / split = 2"),
    "an unknown format": ("sdsc_3.json", lambda top, dsc: dsc["labeledDs_"][0].update(dataFormat_="FP17"), "one of SEN169_FP16"),
    "a format of another size": ("sdsc_3.json", lambda top, dsc: dsc["labeledDs_"][0].update(dataFormat_="IEEE_FP32"), "128 bytes"),
    "a tensor that is not there": ("sdsc_3.json", lambda top, dsc: dsc["computeOp_"][0].update(inputLabeledDs=["Tensor7-idx7"]), "Tensor0-idx0"),
    "too few inputs": ("sdsc_2.json", lambda top, dsc: dsc["computeOp_"][0].update(inputLabeledDs=["Tensor0-idx0"]), "2 inputs"),
    "sticks that differ": (
        "sdsc_2.json",
        lambda top, dsc: (dsc["primaryDsInfo_"].update(KERNEL={"layoutDimOrder_": ["mb", "out"], "stickDimOrder_": ["mb"], "stickSize_": [64]}),
                          dsc["labeledDs_"][0].update(dsType_="KERNEL")),
        "one dim along the sticks",
    ),
    "a symbol without a value": (
        "sdsc_5.json",
        lambda top, dsc: dsc["scheduleTree_"][2]["startAddressCoreCorelet_"]["data_"].update({"[1, 0, 0]": "-77"}),
        "no value for symbol -77",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_verify_and_run_say_the_same_of_a_mistake(kernel, x, tmp_path, capsys, mistake):
    file, change, said = MISTAKES[mistake]
    edit(kernel, file, change)
    assert main(["verify", str(kernel)]) == 1
    told = capsys.readouterr().out
    assert said in told, told
    assert main(["run", str(kernel), "--arg", f"0={tmp_path}/x.npy"]) == 1
    refused = capsys.readouterr().err
    assert all(line.strip() in refused for line in told.splitlines()), (told, refused)


def test_a_core_without_its_offset_is_named_as_the_defect_it_is(kernel, capsys):
    text = (kernel / "bundle.mlir").read_text()
    moved = text.replace("sdsc_execute (%arg_1, ", "sdsc_execute (%arg_1_addr_768, ")
    assert moved != text
    (kernel / "bundle.mlir").write_text(moved)
    assert main(["verify", str(kernel)]) == 1
    assert "a known defect" in capsys.readouterr().out


def test_a_directory_without_a_bundle_is_told(tmp_path, capsys):
    assert main(["verify", str(tmp_path / "nothing")]) == 1
    assert "no directory" in capsys.readouterr().out
    (tmp_path / "bundle.mlir").write_text("module {")
    assert main(["run", str(tmp_path)]) == 1
    assert "bundle.mlir: line 1" in capsys.readouterr().err


def test_unknown_fields_are_no_mistake(kernel):
    edit(kernel, "sdsc_3.json", lambda top, dsc: (top.update(aNewField_={"x": 1}), dsc.update(another_=[1, 2])))
    assert read_bundle(kernel).ops["sdsc_3.json"].op == "exp"
    assert main(["verify", str(kernel)]) == 0
