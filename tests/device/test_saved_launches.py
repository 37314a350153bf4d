"""Saved launches: eager, compiled and of directories, they run again with the same bits or the same error, in a process without torch."""

import errno
import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign.handmade import softmax

from openspyre.artifact.bundle import bundle_texts
from openspyre.spec.errors import IndexOutOfRange, InvalidArgument, SaveWarning
from openspyre.tools.bundle import examine
from openspyre.tools.command import main
from openspyre.tools.saving.replaying import replay
from torch_spyre import _C
from torch_spyre._inductor import spyre_hint

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")


def assert_reproduced(directories):
    assert directories
    for directory in directories:
        done = replay(directory)
        assert done.error is None, directory
        assert done.differences == []
        assert any(buffer.after for buffer in done.launch.buffers)


def on_card(*shape):
    return torch.randn(*shape).half().to("spyre")


def test_eager_launches_have_the_same_bits_again(tmp_path):
    x, w = on_card(96, 64), on_card(64, 128)
    with torch.spyre.save_launches(tmp_path) as launches:
        torch.softmax(torch.relu(x @ w), -1)
        x[3:50].mul_(2.0)  # in place, from the middle of a buffer
        torch.add(x[:10], x[:10], out=x[:10])  # one buffer thrice
        torch.nn.functional.dropout(x, 0.3)  # draws random numbers
    assert len(launches.saved) >= 6
    assert [path.name for path in launches.saved] == [f"launch_{k:05}" for k in range(len(launches.saved))]
    assert_reproduced(launches.saved)


def test_the_images_are_those_before_the_launch_and_give_what_torch_computes(tmp_path):
    x = torch.arange(128.0).reshape(2, 64).half()
    held = x.to("spyre")
    with torch.spyre.save_launches(tmp_path) as launches:
        held.add_(1)
    held.zero_()
    (directory,) = launches.saved
    assert main(["run", str(directory), "--out", str(tmp_path / "out")]) == 0
    (values,) = [np.load(f) for f in (tmp_path / "out").glob("*.npy") if not f.name.startswith("segment_")]
    assert np.array_equal(values, (x + 1).numpy())


def test_compiled_launches_with_loops_draws_updates_and_aliases(tmp_path):
    def tiled(x, y):
        with spyre_hint(num_tiles_per_dim={"M": 4}):
            return torch.relu(x + y) * torch.exp(-x)

    def updates(x, y):
        x.add_(y)
        y.mul_(2)
        return torch.rand_like(x) + x, x[1:].sum(0)

    x, y = on_card(64, 128), on_card(64, 128)
    torch.spyre.synchronize()
    from torch_spyre._inductor.propagate_named_dims import declare_tensor_dim, name_tensor_dims

    declare_tensor_dim("M", 64)
    declare_tensor_dim("N", 128)
    name_tensor_dims(x, ["M", "N"])
    name_tensor_dims(y, ["M", "N"])
    with torch.spyre.save_launches(tmp_path) as launches:
        torch.compile(tiled)(x, y)
        torch.compile(updates)(x, y)
        torch.compile(updates)(x, x[:])  # both are one buffer
    assert "repeat" in (launches.saved[0] / "card.program").read_text()
    assert_reproduced(launches.saved)
    for directory in launches.saved:
        bundle, problems = examine(directory)
        assert bundle is not None
        assert problems == []


def test_what_was_compiled_before_is_saved_too(tmp_path):
    function, x = torch.compile(lambda x: torch.exp(x) + 1), on_card(5, 70)
    function(x)
    x * 3
    with torch.spyre.save_launches(tmp_path) as launches:
        function(x)
        x * 3
    assert len(launches.saved) == 2
    assert_reproduced(launches.saved)
    x * 3
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("wrap", [lambda f: f, torch.compile], ids=["eager", "compiled"])
def test_a_launch_that_fails_fails_alike_in_another_process(tmp_path, wrap):
    table, index = on_card(10, 64), torch.tensor([1, 99]).to("spyre")
    good = torch.tensor([1, 2]).to("spyre")
    with torch.spyre.save_launches(tmp_path, failed_only=True) as launches:
        wrap(torch.nn.functional.embedding)(good, table)
        with pytest.raises(IndexOutOfRange):
            wrap(torch.nn.functional.embedding)(index, table)
    (directory,) = launches.saved
    told = json.loads((directory / "launch.json").read_text())
    assert told["error"]["fault"] == "IndexOutOfRange"
    assert told["site"].split(":")[0].endswith(".py")
    done = subprocess.run([sys.executable, "-m", "openspyre.tools.command", "run", str(directory)],
                          capture_output=True, text=True, env={**os.environ, "OPENSPYRE_SANITIZE": "0"})  # fmt: skip
    assert done.returncode == 1
    assert "index 99 is out of bounds for a dimension of size 10" in done.stderr
    assert "the same error as when it was saved" in done.stdout


_FAILING = """
import sys, torch
torch.spyre.synchronize()
x = torch.empty(64, 64, dtype=torch.float16, device="spyre")
try:
    x + 1
except Exception as error:
    print(type(error).__name__)
"""


def test_the_switch_saves_what_the_sanitizer_finds_and_it_is_found_again(tmp_path):
    place = tmp_path / "saved here"
    switches = {"OPENSPYRE_SAVE_FAILED": str(place), "OPENSPYRE_SANITIZE": "1"}
    done = subprocess.run([sys.executable, "-c", _FAILING], capture_output=True, text=True,
                          env={**os.environ, **switches})  # fmt: skip
    assert done.stdout == "SanitizerFinding\n", done.stderr  # at the line itself: launches are waited for
    (directory,) = place.iterdir()
    assert directory.stat().st_mode & 0o77 == 0
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OPENSPYRE_SANITIZE")}
    again = subprocess.run([sys.executable, "-m", "openspyre.tools.command", "run", str(directory), "--json"],
                           capture_output=True, text=True, env=plain)  # fmt: skip
    told = json.loads(again.stdout)
    assert told["differences"] == []
    assert told["error"]["class"] == "SanitizerFinding"
    assert "uninitialised-read" in told["error"]["message"]


def test_kernels_of_directories_are_saved(tmp_path):
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    for name, text in bundle_texts(softmax(8, 128, 4)).items():
        (kernel / name).write_text(text)
    plan, x = _C.prepare_kernel(kernel), on_card(8, 128)
    y = torch.zeros_like(x)
    with torch.spyre.save_launches(tmp_path / "saved") as launches:
        _C.launch_jobplan(plan, [x, y])
    assert_reproduced(launches.saved)
    torch.testing.assert_close(y.cpu().float(), torch.softmax(x.cpu().float(), -1), rtol=2.0**-6, atol=2.0**-14)


def test_names_and_limit_choose(tmp_path):
    x = on_card(64)
    save = torch.spyre.save_launches
    with save(tmp_path / "a", names=["mul"], limit=2) as some, save(tmp_path / "b", failed_only=True) as none:
        for _ in range(4):
            x + 1
            x * 2
    assert [json.loads((path / "launch.json").read_text())["name"] for path in some.saved] == ["aten::mul.Tensor"] * 2
    assert none.saved == []
    assert not (tmp_path / "b").exists()
    with pytest.raises(InvalidArgument, match="names is a list"), torch.spyre.save_launches(tmp_path, names="mul"):
        pass


def test_a_full_disk_fails_no_launch_and_leaves_nothing(tmp_path):
    x = on_card(256, 64)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with torch.spyre.save_launches(tmp_path) as launches:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            with pytest.warns(SaveWarning, match=os.strerror(errno.EFBIG)):
                y = x + 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert launches.saved == []
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(y.cpu(), (x + 1).cpu())


_WRITER = """
import sys, torch
x = torch.full((64,), float(sys.argv[2]), dtype=torch.float16, device="spyre")
with torch.spyre.save_launches(sys.argv[1]):
    for _ in range(20):
        x = x + 1
"""


def test_two_processes_write_into_one_directory(tmp_path):
    done = [subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), str(100 * k)]) for k in range(2)]
    assert [process.wait() for process in done] == [0, 0]
    directories = sorted(tmp_path.iterdir())
    assert [path.name for path in directories] == [f"launch_{k:05}" for k in range(40)]
    assert_reproduced(directories)
    assert len({json.loads((path / "launch.json").read_text())["process"] for path in directories}) == 2


def test_threads_launch_while_launches_are_saved(tmp_path):
    inputs = [on_card(32, 64) for _ in range(4)]
    wrong = []

    def work(x):
        for _ in range(10):
            if not torch.equal((x + x).cpu(), (x * 2).cpu()):
                wrong.append(x)

    with torch.spyre.save_launches(tmp_path) as launches:
        threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(launches.saved) == 80
    assert_reproduced(launches.saved)


def test_another_launch_of_the_same_bits_is_told_from_one_of_others(tmp_path):
    """The digest is no decoration: a byte changed is found."""
    x = on_card(64)
    with torch.spyre.save_launches(tmp_path) as launches:
        x + 1
    (directory,) = launches.saved
    image = np.load(directory / "buffer_0.npy")
    image[0] ^= 1
    np.save(directory / "buffer_0.npy", image)
    assert replay(directory).differences
    assert main(["run", str(directory)]) == 1


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "noise"])
def test_a_damaged_directory_is_told_file_by_file(tmp_path, how, capsys):
    with torch.spyre.save_launches(tmp_path) as launches:
        torch.softmax(on_card(4, 70), -1)
    (directory,) = launches.saved
    for path in sorted(directory.iterdir()):
        if path.name not in ("launch.json", "card.program") and not path.name.startswith("buffer"):
            continue
        whole = path.read_bytes()
        if how == "missing":
            path.unlink()
        else:
            path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "noise": b"\x93" + whole[:50]}[how])
        assert main(["run", str(directory)]) == 1
        assert path.name in capsys.readouterr().err
        path.write_bytes(whole)
    assert main(["run", str(directory)]) == 0


def test_a_launch_spec_of_others_values_is_refused_with_a_saved_launch(tmp_path, capsys):
    with torch.spyre.save_launches(tmp_path) as launches:
        on_card(64) + 1
    with pytest.raises(SystemExit) as stopped:
        main(["run", str(launches.saved[0]), "--set", "c0=1"])
    assert stopped.value.code == 2
    assert "brings its arguments itself" in capsys.readouterr().err


def test_nothing_is_pickled(tmp_path):
    with torch.spyre.save_launches(tmp_path) as launches:
        torch.softmax(on_card(4, 70), -1)
    for path in Path(launches.saved[0]).glob("*.npy"):
        assert np.load(path, allow_pickle=False).dtype == np.uint8
