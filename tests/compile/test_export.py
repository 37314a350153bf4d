"""`export_bundle`: what a compiled function launches, written to directories, computes the same numbers in a process without torch."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from independent import run as second_reader

import torch_spyre
from openspyre.artifact.launch_spec import read_launch_spec
from openspyre.spec.errors import InvalidArgument
from openspyre.tools.command import main
from openspyre.tools.launch_images import untiled
from openspyre.tools.launches import image_of


def half(*size, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).half()


def outputs(directory, folder):
    """What `openspyre run` leaves of the results, by name."""
    assert main(["run", str(directory), "--out", str(folder)]) == 0
    spec = read_launch_spec(directory)
    return {a.name: np.load(folder / f"{a.name}.npy") for a in spec if a.role in ("output", "update")}


def linear(x, w, b):
    return torch.relu(F.linear(x, w, b)) * 2.5


def chain(x, y):
    return torch.sigmoid(x + y) * x - 0.125


FUNCTIONS = [
    pytest.param(linear, lambda: (half(33, 70), half(130, 70), half(130)), id="a linear layer, k unaligned"),
    pytest.param(chain, lambda: (half(33, 70), half(70)), id="a pointwise chain"),
    pytest.param(lambda x: x[:, 128:320].exp(), lambda: (half(32, 512),), id="a slice"),
    pytest.param(lambda x: torch.cat([x, x * 2]).t() + 1, lambda: (half(32, 128),), id="cat and transpose"),
    pytest.param(lambda x: x.float().log_softmax(-1), lambda: (half(5, 100),), id="extension ops"),
    pytest.param(
        lambda x: F.layer_norm(x, (70,)), lambda: (half(5, 70),), id="a result among several, with a dot in its name"
    ),
    pytest.param(lambda i, w: F.embedding(i, w), lambda: (torch.tensor([3, 1, 4, 1]), half(9, 100)), id="an embedding"),
    pytest.param(
        lambda x, y: torch.addcmul(x, y, y, value=0.3), lambda: (half(7, 90), half(90)), id="a number in a wide op"
    ),
    pytest.param(lambda x: x.bfloat16() * 3, lambda: (half(7, 9),), id="bfloat16"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("function", "draw"), FUNCTIONS)
def test_the_numbers_of_the_compiled_function(function, draw, tmp_path):
    inputs = [value.to("spyre") for value in draw()]
    (launch,) = torch_spyre.export_bundle(function, *inputs, directory=tmp_path / "bundle")
    assert launch == tmp_path / "bundle" / "launch_0"
    (found,) = outputs(launch, tmp_path / "results").values()
    expected = torch.compile(function)(*inputs).cpu()
    bits = expected.view(torch.int16).numpy().view(np.uint16) if expected.dtype is torch.bfloat16 else expected.numpy()
    np.testing.assert_array_equal(found, bits)


@pytest.mark.filterwarnings("ignore")
def test_a_process_without_torch_runs_it(tmp_path):
    inputs = [value.to("spyre") for value in (half(4, 64), half(4, 64, seed=1))]
    (launch,) = torch_spyre.export_bundle(chain, *inputs, directory=tmp_path / "bundle")
    program = "import sys\nfrom openspyre.tools.command import main\ncode = main(sys.argv[1:])\nassert 'torch' not in sys.modules\nsys.exit(code)"
    command = [sys.executable, "-c", program, "run", str(launch), "--out", str(tmp_path / "results"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    written = json.loads(done.stdout)
    (name,) = [name for name in written if "." not in name]
    np.testing.assert_array_equal(np.load(written[name]), chain(*inputs).cpu().numpy())


@pytest.mark.filterwarnings("ignore")
def test_the_second_reader_runs_it(tmp_path):
    """The files alone: documented fields and the images that the launch spec stands for."""
    inputs = [value.to("spyre") for value in (half(33, 70), half(70, 130, seed=1))]
    (launch,) = torch_spyre.export_bundle(torch.matmul, *inputs, directory=tmp_path / "bundle")
    spec = read_launch_spec(launch)
    images = [np.frombuffer(image_of(argument, launch) or bytes(argument.bytes), np.uint8).copy() for argument in spec]
    (after,) = second_reader([launch], [images])
    (result,) = [number for number, argument in enumerate(spec) if argument.role == "output"]
    found = untiled(after[result].tobytes(), spec[result].size, spec[result].layout, spec[result].dtype)
    np.testing.assert_array_equal(found, torch.matmul(*inputs).cpu().numpy())


@pytest.mark.filterwarnings("ignore")
def test_every_launch_has_its_directory_and_its_inputs_of_then(tmp_path):
    def broken(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    x = half(8, 100).to("spyre")
    first, second = torch_spyre.export_bundle(broken, x, directory=tmp_path / "bundle")
    assert [first.name, second.name] == ["launch_0", "launch_1"]
    (middle,) = outputs(first, tmp_path / "one").values()
    (end,) = outputs(second, tmp_path / "two").values()
    np.testing.assert_array_equal(middle, (x * 2).cpu().numpy())
    np.testing.assert_array_equal(end, (x * 2 + 1).cpu().numpy())


@pytest.mark.filterwarnings("ignore")
def test_what_a_launch_updates_is_written_as_it_was(tmp_path):
    def bump(x):
        x.add_(1)

    x = half(5, 70).to("spyre")
    before = x.cpu().numpy().copy()
    (launch,) = torch_spyre.export_bundle(bump, x, directory=tmp_path / "bundle")
    (found,) = outputs(launch, tmp_path / "results").values()
    np.testing.assert_array_equal(found, x.cpu().numpy())
    assert not np.array_equal(found, before)


@pytest.mark.filterwarnings("ignore")
def test_numbers_stand_in_the_launch_spec(tmp_path):
    x = half(4, 64).to("spyre")
    (launch,) = torch_spyre.export_bundle(lambda x: x * 0.3, x, directory=tmp_path / "bundle")
    (number,) = [argument for argument in read_launch_spec(launch) if argument.role == "number"]
    held = 614 / 2048  # 0.3 with nine fraction bits
    assert (number.value, number.dtype, number.layout.device_size) == (held, "float16", [1, 64])


@pytest.mark.filterwarnings("ignore")
def test_without_inputs_the_values_are_to_be_given(tmp_path, capsys):
    x = half(4, 64).to("spyre")
    (launch,) = torch_spyre.export_bundle(torch.exp, x, directory=tmp_path / "bundle", with_inputs=False)
    assert list(launch.glob("*.npy")) == []
    with pytest.raises(SystemExit) as exit_:
        main(["run", str(launch), "--out", str(tmp_path / "results")])
    assert exit_.value.code == 2
    told = capsys.readouterr().err
    (name,) = [argument.name for argument in read_launch_spec(launch) if argument.role == "input"]
    assert f"--input: missing {name} (or --arg 0)" in told
    np.save(tmp_path / "x.npy", x.cpu().numpy())
    for given in (f"--arg=0={tmp_path / 'x.npy'}", f"--input={name}={tmp_path / 'x.npy'}"):
        assert main(["run", str(launch), given, "--out", str(tmp_path / "results")]) == 0
        written = json.loads((tmp_path / "results" / "results.json").read_text())
        (result,) = [np.load(tmp_path / "results" / entry["file"]) for entry in written.values()]
        np.testing.assert_array_equal(result, torch.exp(x).cpu().numpy())


@pytest.mark.filterwarnings("ignore")
def test_later_calls_are_not_recorded_and_work(tmp_path):
    x = half(4, 64).to("spyre")
    compiled = torch.compile(torch.exp)
    torch_spyre.export_bundle(torch.exp, x, directory=tmp_path / "bundle")
    np.testing.assert_array_equal(compiled(x).cpu().numpy(), torch.exp(x).cpu().numpy())
    assert [place.name for place in (tmp_path / "bundle").iterdir()] == ["launch_0"]


def test_a_directory_that_is_in_use_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidArgument, match="no empty directory"):
        torch_spyre.export_bundle(torch.exp, half(4).to("spyre"), directory=tmp_path)
    assert [place.name for place in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.filterwarnings("ignore")
def test_a_function_that_launches_nothing_is_told_so(tmp_path):
    with pytest.raises(InvalidArgument, match=r"launched nothing.*x\.to\('spyre'\)"):
        torch_spyre.export_bundle(torch.exp, torch.ones(4), directory=tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
