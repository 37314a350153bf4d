"""The commands around a bundle, from the outside: what they print, what they write, how they exit."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz import samples
from openspyre.artifact import Emitted, write_launch
from openspyre.spec.encodings import sen169_decode, sen169_encode
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.ops import TABLE
from openspyre.tools.command import main
from openspyre.tools.named_arguments import scalar_value


def written(bundle: Emitted, tmp_path: Path) -> Path:
    write_launch(bundle, tmp_path / bundle.name)
    return tmp_path / bundle.name


def saved(path: Path, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Values every format holds exactly."""
    array = np.random.default_rng(seed).integers(-8, 8, shape).astype(np.float16)
    np.save(path, array)
    return array


@pytest.mark.parametrize("command", ["run", "verify", "inspect", "ops"])
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    assert f"example: openspyre {command}" in capsys.readouterr().out


def test_verify_tells_a_valid_bundle_from_a_damaged_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = written(samples.pointwise(), tmp_path)
    assert main(["verify", str(directory)]) == 0
    assert capsys.readouterr().out == f"{directory} is valid\n"
    (directory / "sdsc_0.json").unlink()
    assert main(["verify", str(directory)]) == 1
    assert (
        "sdsc_0.json: found no such file or directory, expected the op that bundle.mlir executes"
        in capsys.readouterr().out
    )
    assert main(["verify", str(directory), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["valid"] is False
    assert report["problems"][0]["file"] == "sdsc_0.json"


def test_inspect_shows_names_space_split_and_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = written(samples.pointwise(), tmp_path)
    assert main(["inspect", str(directory), "--cores"]) == 0
    text = capsys.readouterr().out
    assert "1. input  x [96x320] float16, at least 61440 bytes" in text
    assert "4. number slope float16, at least" in text
    assert "over mb=96 split 32, out=320; 32 cores" in text
    assert "core  3: slice mb 3, out 0; argument 1 + 1152, argument 2 + 0, argument 0 + 1152" in text
    assert main(["inspect", str(directory), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert [op["op"] for op in summary["ops"]] == ["add", "add", "mul"]
    assert summary["ops"][1]["provenance"] == "model.py:7"
    core_places = summary["ops"][0]["tensors"][0]["core_places"]
    assert core_places == [f"argument 1 + {3 * 128 * core}" for core in range(32)]


SPEC_MISTAKES: dict[str, tuple[Callable[[Any], object], str]] = {
    "an argument less": (
        lambda arguments: arguments.pop(),
        "found 2 arguments, expected 3, as many as the bundle takes",
    ),
    "a format that cannot hold the dtype": (
        lambda arguments: arguments[0]["layout"].update(device_dtype="SENINT16"),
        "arguments[0].dtype: found float16 in SENINT16",
    ),
    "a size without a place": (lambda arguments: arguments[0].update(size=[96, 999]), "arguments[0].layout"),
    "a shorter argument": (
        lambda arguments: (
            arguments[1]["layout"].update(device_size=[1, 96, 64], stride_map=[64, 64, 1]),
            arguments[1].update(size=[96, 64]),
        ),
        "arguments[1]: found 12288 bytes of out, expected at least 61440",
    ),
    "an input that is written": (lambda arguments: arguments[1].update(role="input"), "though it is written"),
    "a file that is not there": (lambda arguments: arguments[2].update(file="nothing.npy"), "arguments[2].file"),
    "a file that leads elsewhere": (lambda arguments: arguments[2].update(file="../row.npy"), "a file beside it"),
    "another size than the file's": (lambda arguments: arguments[2].update(size=[319]), "arguments[2].file"),
}


@pytest.mark.parametrize("mistake", SPEC_MISTAKES)
def test_verify_and_run_say_the_same_of_a_launch_spec(
    mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """x + a row that the bundle brings: arguments x, out and the row."""
    directory = written(samples.ramp(), tmp_path)
    change, said = SPEC_MISTAKES[mistake]
    tree = json.loads((directory / "launch_spec.json").read_text())
    change(tree["arguments"])
    (directory / "launch_spec.json").write_text(json.dumps(tree))
    assert main(["verify", str(directory)]) == 1
    told = capsys.readouterr().out
    assert said in told, told
    assert main(["run", str(directory), "--input=x=x.npy"]) == 1
    refused = capsys.readouterr().err
    assert all(line.strip() in refused for line in told.splitlines()), (told, refused)


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_a_damaged_bundle_is_refused_with_its_problems(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = written(samples.matmul(), tmp_path)
    (directory / "sdsc_0.json").write_text("{")
    assert main([command, str(directory)]) == 1
    assert "sdsc_0.json" in capsys.readouterr().err


def test_ops_lists_the_whole_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["op"] for record in records] == list(TABLE)
    assert next(record for record in records if record["op"] == "div")["artifact"] == "realdiv"
    assert main(["ops"]) == 0
    assert f"{len(TABLE)} operations: " in capsys.readouterr().out
    assert main(["ops", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(TABLE) + 2


def test_run_computes_what_numpy_computes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory, out = written(samples.pointwise(), tmp_path), tmp_path / "out"
    x, s = saved(tmp_path / "x.npy", (96, 320), 0), saved(tmp_path / "s.npy", (320,), 1)
    files = [f"--input=x={tmp_path / 'x.npy'}", f"--input=s={tmp_path / 's.npy'}"]
    assert main(["run", str(directory), *files, "--set", "slope=0.5", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {f"0.{n}": str(out / f"segment_{n}.npy") for n in range(5)} | {"out": str(out / "out.npy")}
    assert json.loads((out / "results.json").read_text()) == {"out": {"file": "out.npy", "dtype": "float16"}}
    np.testing.assert_array_equal(np.load(out / "out.npy"), (x + 2 * s) / 2)


def test_names_and_segments_may_be_mixed_but_not_for_one_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = written(samples.pointwise(), tmp_path)
    x = saved(tmp_path / "x.npy", (96, 320), 0)
    np.save(tmp_path / "s.npy", np.zeros(5 * 128, np.uint8))
    command = ["run", str(directory), f"--arg=1={tmp_path}/x.npy", f"--image=2={tmp_path}/s.npy", "--set=slope=1"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "out.npy"), x)
    with pytest.raises(SystemExit):
        main([*command, f"--input=x={tmp_path}/x.npy"])
    assert "unknown x" in capsys.readouterr().err
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    assert main(command) == 1
    assert "launch_spec.json says that 'x' is [96, 320] of float16" in capsys.readouterr().err


def test_names_need_a_launch_spec_and_a_launch_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = written(samples.transposed(), tmp_path)
    with pytest.raises(SystemExit) as exit_:
        main(["run", str(directory), str(directory), "--input=x=x.npy"])
    assert exit_.value.code == 2
    assert "names, of one launch: give arguments by segment (--arg, --image)" in capsys.readouterr().err
    (directory / "launch_spec.json").unlink()
    with pytest.raises(SystemExit) as exit_:
        main(["run", str(directory), "--input=x=x.npy"])
    assert exit_.value.code == 2
    assert "launch_spec.json tells, and there is none" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "verify", "inspect", "compile"])
def test_a_directory_with_a_manifest_is_told_what_it_is(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "manifest.json").write_text('{"format": "openspyre bundle", "version": 1}')
    (tmp_path / "old" / "bundle.mlir").write_text("module {}")
    assert main([command, str(tmp_path / "old")]) == 1
    told = "".join(capsys.readouterr())
    assert "a bundle of an earlier openspyre, which went by a manifest" in told
    assert "compile the program again, or write it with torch_spyre.export_bundle" in told


def test_run_refuses_a_card_that_computes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENSPYRE_CARD", "null")
    saved(tmp_path / "x.npy", (128, 200), 0)
    directory = written(samples.row_sums(), tmp_path)
    assert main(["run", str(directory), f"--input=x={tmp_path / 'x.npy'}"]) == 1
    assert "OPENSPYRE_CARD=null computes nothing" in capsys.readouterr().err


def test_run_reduces_contracts_and_moves(tmp_path: Path) -> None:
    x, a, b = (saved(tmp_path / f"{n}.npy", s, 2) for n, s in (("x", (128, 200)), ("a", (64, 192)), ("b", (192, 128))))
    c, moved = saved(tmp_path / "c.npy", (100, 192), 4), saved(tmp_path / "m.npy", (64, 128), 3)
    out = tmp_path / "out"
    exact = np.float32
    for bundle, inputs, expected in (
        (samples.row_sums(), {"x": "x"}, x.astype(exact).sum(1)),
        (samples.matmul(), {"a": "a", "b": "b"}, a.astype(exact) @ b.astype(exact)),
        (samples.scores(), {"a": "a", "b": "c"}, a.astype(exact) @ c.astype(exact).T),
        (samples.transposed(), {"x": "m"}, moved.T),
    ):
        files = [f"--input={name}={tmp_path / file}.npy" for name, file in inputs.items()]
        assert main(["run", str(written(bundle, tmp_path)), *files, "--out", str(out)]) == 0
        rounded = sen169_decode(sen169_encode(expected)).astype(np.float16)
        np.testing.assert_array_equal(np.load(out / "out.npy"), rounded)


def test_infinities_and_nan_go_through_a_bundle(tmp_path: Path) -> None:
    x = np.resize(np.array([np.inf, -np.inf, np.nan, 1.5, -2.0], np.float16), (64, 128))
    np.save(tmp_path / "x.npy", x)
    directory = written(samples.transposed(), tmp_path)
    assert main(["run", str(directory), f"--input=x={tmp_path / 'x.npy'}", "--out", str(tmp_path / "out")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "out.npy"), x.T)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--input: missing x (or --arg 1), s (or --arg 2)"),
        (["--input=x=a.npy", "--input=s=b.npy", "--input=t=c.npy", "--set=slope=1"], "unknown t"),
        (["--input=x=a.npy", "--input=s=b.npy"], "--set: missing slope"),
        (["--input=x"], "must be NAME="),
        (["--input=x=a", "--input=x=b"], "each name once"),
    ],
)
def test_a_command_line_that_does_not_fit_the_bundle_exits_with_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["run", str(written(samples.pointwise(), tmp_path)), *arguments])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_arrays_that_do_not_fit_are_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = written(samples.transposed(), tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((64, 128), np.float32))
    assert main(["run", str(directory), f"--input=x={tmp_path / 'x.npy'}"]) == 1
    assert "input 'x' must be [64, 128] of float16" in capsys.readouterr().err
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert main(["run", str(directory), f"--input=x={tmp_path / 'x.npy'}"]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_types_numpy_lacks_are_tagged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = written(samples.transposed("bfloat16"), tmp_path)
    bits = (np.arange(64 * 128, dtype=np.uint16) % 64 + 0x3F80).reshape(64, 128)
    np.save(tmp_path / "x.npy", bits)
    assert main(["run", str(directory), f"--input=x={tmp_path / 'x.npy'}"]) == 1
    assert "x.npy:bfloat16" in capsys.readouterr().err
    assert main(["run", str(directory), f"--input=x={tmp_path / 'x.npy'}:bfloat16", "--out", str(tmp_path / "o")]) == 0
    assert json.loads((tmp_path / "o" / "results.json").read_text())["out"]["dtype"] == "bfloat16"
    np.testing.assert_array_equal(np.load(tmp_path / "o" / "out.npy"), bits.T)


@pytest.mark.parametrize(
    ("dtype", "text", "value"),
    [
        ("float16", "0.1", float(sen169_decode(0x3733))),
        ("float16", "-inf", -float("inf")),
        ("float32", "0.1", float(np.float32(0.1))),
        ("int64", "-7", -7),
        ("bool", "true", 1),
    ],
)
def test_scalars_are_rounded_as_the_card_would(dtype: str, text: str, value: float) -> None:
    assert scalar_value("s", dtype, text) == value


@pytest.mark.parametrize(
    ("dtype", "text"), [("int32", "1.5"), ("int64", "2147483648"), ("bool", "maybe"), ("float16", "x")]
)
def test_scalars_that_are_none_are_refused(dtype: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match="--set s="):
        scalar_value("s", dtype, text)


def test_a_bundle_runs_in_a_process_without_torch(tmp_path: Path) -> None:
    saved(tmp_path / "x.npy", (64, 128), 5)
    directory = written(samples.transposed(), tmp_path)
    arguments = ["run", str(directory), f"--input=x={tmp_path / 'x.npy'}", "--out", str(tmp_path / "o")]
    program = (
        "import sys; from openspyre.tools.command import main\n"
        f"assert main({arguments!r}) == 0 and 'torch' not in sys.modules"
    )
    environ = {"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "OPENSPYRE_CACHE_DIR": str(tmp_path / "c")}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True, capture_output=True)
    assert (tmp_path / "o" / "out.npy").exists()


def test_a_bundle_draws_from_the_seed_and_offset_it_is_given(tmp_path: Path) -> None:
    """The first block of Philox4x32-10 with key 0 is published: Random123's kat_vectors."""
    directory = written(samples.drawn(), tmp_path)
    assert main(["verify", str(directory)]) == 0

    def run(low: int, high: int, offset: int) -> np.ndarray:
        given = {"seed_low": low, "seed_high": high, "offset_low": offset, "offset_high": 0, "from": 0, "to": 1}
        pairs = [f"--set={name}={value}" for name, value in given.items()]
        assert main(["run", str(directory), *pairs, "--out", str(tmp_path / "out")]) == 0
        return np.asarray(np.load(tmp_path / "out" / "out.npy"))

    first = run(0, 0, 0)
    published = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
    np.testing.assert_array_equal(first[0, :4], (published >> 8) / 2.0**24)
    np.testing.assert_array_equal(run(0, 0, 8).ravel()[:142], first.ravel()[8:])
    assert not np.intersect1d(run(1, 0, 0), first).size and not np.intersect1d(run(0, 1, 0), first).size
