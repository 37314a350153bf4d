"""openspyre bisect: planted faults are found, with op, line and element; what is right has no difference."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign.vectors import ABSENT, VECTORS

import torch_spyre
from torch_spyre._inductor import config

pytestmark = pytest.mark.filterwarnings("ignore")


def words_of_bisect(*arguments, expected):
    plain = {name: value for name, value in os.environ.items() if name != "OPENSPYRE_SANITIZE"}
    command = [sys.executable, "-m", "openspyre.tools.command", "bisect", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout or done.stderr


def bisect(*arguments, expected):
    told = words_of_bisect(*arguments, "--json", expected=expected)
    return json.loads(told) if told.startswith("{") else told


def run(directory):
    command = [sys.executable, "-m", "openspyre.tools.command", "run", str(directory)]
    return subprocess.run(command, capture_output=True, text=True)


def model(x, w):
    h = torch.nn.functional.gelu(x @ w)
    h = torch.nn.functional.layer_norm(h + x, (128,))
    return torch.softmax(h * 2, -1), torch.sigmoid(h).sum(0)  # LINE softmax


def line_of(name):
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{next(k for k, line in enumerate(lines, 1) if line.endswith(f'# LINE {name}'))}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same model eager and compiled, saved."""
    place = tmp_path_factory.mktemp("runs")
    torch.manual_seed(0)
    x, w = torch.randn(33, 128).half().to("spyre"), torch.randn(128, 128).half().to("spyre")
    torch.compiler.reset()
    with torch.spyre.save_launches(place / "eager"):
        model(x, w)
    with torch.spyre.save_launches(place / "compiled"):
        torch.compile(model)(x, w)
    return place


@pytest.fixture
def copied(runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs")
    return tmp_path / "runs"


def test_runs_that_agree_have_no_difference(runs):
    assert bisect(runs / "eager", runs / "compiled", expected=0)["compared"] >= 12
    assert bisect(runs / "compiled", expected=0)["compared"] >= 3
    assert bisect(runs / "eager", expected=0)["compared"] >= 8


def test_a_fault_of_fusion_is_found_and_cut_out(copied, tmp_path):
    """The fused program computes something else than the bundle: as if fusion had gone wrong."""
    program = copied / "compiled" / "launch_00000" / "card.program"
    op, wrong = _with_another_opcode(program.read_text())
    program.write_text(wrong)
    found = bisect(copied / "compiled", "--out", tmp_path / "found", expected=1)
    assert found["difference"]["a"]["op"] == op
    assert found["difference"]["a"]["source"].startswith(f"{__file__}:")
    agreed = bisect(copied / "eager", copied / "compiled", expected=0)
    assert agreed["compared"] >= 12  # the bundle itself is right
    assert "only the bundles were compared" in agreed["notes"][0] and "`openspyre bisect DIR`" in agreed["notes"][0]
    for side in ("a", "b"):
        done = run(tmp_path / "found" / side)
        assert done.returncode == 0, done.stderr
        assert "same bits" in done.stdout
    steps = [(tmp_path / "found" / side / "card.program").read_text().count('"name"') for side in ("a", "b")]
    assert steps[0] == 2  # the program and its one step
    assert steps[1] < (copied / "compiled" / "launch_00000" / "unfused.program").read_text().count('"name"')


def chain(x):
    return torch.softmax(torch.tanh(x) * 2 + x, -1)


def test_a_step_that_computes_several_ops_is_blamed_for_all_of_them(tmp_path):
    """Its last op, the only one with a result in memory, is as likely at fault as the others."""
    x = torch.randn(33, 128).half().to("spyre")
    torch.compiler.reset()
    with torch.spyre.save_launches(tmp_path):
        torch.compile(chain)(x)
    program = tmp_path / "launch_00000" / "card.program"
    wrong = program.read_text().replace('"opcode": "mul"', '"opcode": "add"', 1)
    program.write_text(wrong if wrong != program.read_text() else program.read_text().replace('"tanh"', '"abs"', 1))
    told = bisect(tmp_path, expected=1)
    assert (told["difference"]["blame"], told["alone"]) == ("step", {"a": [], "b": []})
    kinds = [op.split("_")[1] for op in told["difference"]["step"]]
    assert kinds == ["tanh", "mul", "add", "max", "sub", "exp", "sum", "realdiv"]
    words = words_of_bisect(tmp_path, expected=1)
    assert "one step of fused, in launch 0, computes 1_tanh, 2_mul" in words and "the fault is in one of them" in words
    assert "have no counterpart" not in words


def test_two_unrelated_runs_are_not_alike(runs, tmp_path):
    with torch.spyre.save_launches(tmp_path):
        torch.cumsum(torch.ones(7, 3, 5).half().to("spyre"), 1)
    told = words_of_bisect(runs / "eager", tmp_path, expected=1)
    assert told.startswith("nothing could be compared: none of the") and "no difference" not in told
    assert bisect(runs / "eager", tmp_path, expected=1)["problem"].startswith("nothing could be compared")


def _with_another_opcode(text):
    """One addition of the program is a subtraction, or the other way round; and the op whose step it stands in."""
    lines, op = text.splitlines(keepends=True), ""
    for k, line in enumerate(lines):
        if not line.startswith(" ") and '"name"' in line:
            op = re.search(r'"name": "([^"]*)"', line)[1]
        changed, count = re.subn(r'"(add|sub)"', lambda m: '"sub"' if m[1] == "add" else '"add"', line, count=1)
        if count and line.startswith(" "):
            return op, "".join([*lines[:k], changed, *lines[k + 1 :]])
    raise AssertionError("the program neither adds nor subtracts")


def test_a_fault_of_the_compiler_is_found_by_its_op_and_line(copied, tmp_path):
    """The bundle says something else than eager code computed."""
    launch = copied / "compiled" / "launch_00000"
    (file,) = [path for path in launch.glob("sdsc_*.json") if re.match(r'\{\s*"\d+_sub"', path.read_text())]
    file.write_text(re.sub(r'"sub"', '"add"', file.read_text()))
    found = bisect(copied / "eager", copied / "compiled", "--out", tmp_path / "found", expected=1)
    told = found["difference"]
    assert told["b"]["op"].endswith("_sub") or told["a"]["op"].endswith("_exp")
    assert line_of("softmax") in (told["a"]["source"], told["b"]["source"])
    for side in ("a", "b"):
        assert run(tmp_path / "found" / side).returncode == 0


def test_other_inputs_are_told_as_such(copied):
    image = copied / "compiled" / "launch_00000" / "buffer_0.npy"
    values = np.load(image)
    np.save(image, np.roll(values, 2))
    found = bisect(copied / "eager", copied / "compiled", expected=1)
    assert found["difference"]["blame"] == "earlier"


def test_differences_within_a_tolerance_are_none(copied):
    image = copied / "compiled" / "launch_00000" / "buffer_0.npy"
    values = np.load(image)
    values[0] ^= 1  # the last bit of one element
    np.save(image, values)
    assert bisect(copied / "eager", copied / "compiled", expected=1)["difference"]
    assert bisect(copied / "eager", copied / "compiled", "--atol", "10", expected=0)["difference"] is None


def test_another_interpreter_runs_the_same(runs, tmp_path):
    assert bisect(runs / "compiled", "--other-python", sys.executable, expected=0)["compared"] >= 3
    told = bisect(runs / "compiled", "--other-python", tmp_path / "none", expected=1)
    assert "cannot run" in told
    old = tmp_path / "python"  # one whose openspyre has no such command
    old.write_text("#!/bin/sh\necho 'invalid choice: bisect' >&2\nexit 2\n")
    old.chmod(0o755)
    assert "may be older" in bisect(runs / "compiled", "--other-python", old, expected=1)


def test_another_version_that_computes_otherwise_is_found(runs, tmp_path):
    """An interpreter whose card gives one step other bits, as its own version may."""
    patched, program = tmp_path / "python", runs / "compiled" / "launch_00000" / "card.program"
    last = re.findall(r'^\w+ \{"name": "([^"]*)"', program.read_text(), re.M)[-1]
    code = (
        "import sys, numpy\n"
        "from openspyre.tools.bisecting import by_steps\n"
        "real = by_steps._outputs\n"
        "def other(part, machine, runnable):\n"
        "    for e in real(part, machine, runnable):\n"
        "        yield by_steps.Elements(e.tensor, e.format, e.dims, e.places, e.codes ^ (part.name == sys.argv[1]))\n"
        "by_steps._outputs = other\n"
        "from openspyre.tools.command import main\n"
        "sys.exit(main(sys.argv[4:]))\n"
    )
    (tmp_path / "code.py").write_text(code)
    patched.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/code.py {last} "$@"\n')
    patched.chmod(0o755)
    found = bisect(runs / "compiled", "--other-python", patched, "--out", tmp_path / "found", expected=1)
    assert found["difference"]["a"]["op"] == last
    assert found["written"] == [str(tmp_path / "found" / "a")]


def test_directories_that_are_none_are_told(runs, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "holds no launch" in bisect(tmp_path / "empty", expected=1)
    assert "is no directory" in bisect(tmp_path / "absent", expected=1)
    shutil.copytree(runs / "compiled" / "launch_00000", tmp_path / "cut")
    (tmp_path / "cut" / "buffer_1.npy").write_bytes(b"\x93NUMPY")
    assert "buffer_1.npy" in bisect(tmp_path / "cut", expected=1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert "no empty directory" in bisect(runs / "compiled", "--out", tmp_path / "full", expected=2)
    assert "take A alone" in bisect(runs / "eager", runs / "compiled", "--other-python", "x", expected=2)


def test_a_launch_that_fails_is_told(tmp_path):
    table, index = torch.randn(10, 64).half().to("spyre"), torch.tensor([1, 99]).to("spyre")
    with torch.spyre.save_launches(tmp_path, failed_only=True), pytest.raises(IndexError):
        torch.nn.functional.embedding(index, table)
    assert "index 99 is out of bounds" in bisect(tmp_path, expected=1)["failure"]


@pytest.mark.skipif(not VECTORS.is_dir(), reason=ABSENT)
@pytest.mark.parametrize("name", ["softmax_last", "broadcast_row"])
def test_our_bundle_beside_one_of_another_compiler(tmp_path, name):
    functions = {"softmax_last": lambda x: torch.softmax(x, -1), "broadcast_row": lambda x, s: x * s + s}
    theirs = VECTORS / "august" / name
    values = [np.load(path) for path in sorted(theirs.glob("input*.npy"))]
    inputs = [torch.from_numpy(value).half().to("spyre") for value in values]
    with config.patch(planner="documented"):
        torch_spyre.export_bundle(functions[name], *inputs, directory=tmp_path / "ours")
    launch = theirs / "launch_0"
    told = json.loads((launch / "args.json").read_text())["args"]
    first = next((k for k, a in enumerate(told) if a.get("parameter") != "%pool_base_addr"), 0)
    images = [w for k in range(len(inputs)) for w in ("--image", f"b.{first + k}={launch}/arg{first + k}_before.npy")]
    found = bisect(tmp_path / "ours", launch / "bundle", *images, "--rtol", "0.01", "--atol", "1e-4", expected=0)
    assert found["compared"] >= 2
    swapped = [word.replace("arg0", "argX").replace("arg1", "arg0").replace("argX", "arg1") for word in images]
    if len(inputs) == 1:
        wrong = tmp_path / "other.npy"
        np.save(wrong, np.load(launch / "arg0_before.npy")[::-1])
        swapped = ["--image", f"b.{first}={wrong}"]
        assert bisect(tmp_path / "ours", launch / "bundle", *swapped, expected=1)["difference"]
