"""The commands around a bundle, from the outside: what they print, what they write, how they exit."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz import samples
from openspyre.artifact import Bundle, write
from openspyre.artifact.model import Scalar, Tensor
from openspyre.compiler import emit, pipeline
from openspyre.compiler.text import parse_program
from openspyre.spec.encodings import sen169_decode, sen169_encode
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.ops import TABLE
from openspyre.tools.command import main
from openspyre.tools.run import scalar_value


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENSPYRE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def written(bundle: Bundle, tmp_path: Path) -> Path:
    write(bundle, tmp_path / bundle.name)
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
    assert "sdsc_0.json: found no such file or directory, expected a readable file" in capsys.readouterr().out
    assert main(["verify", str(directory), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["valid"] is False
    assert report["problems"][0]["file"] == "sdsc_0.json"


def test_inspect_shows_space_split_and_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = written(samples.pointwise(), tmp_path)
    assert main(["inspect", str(directory), "--cores"]) == 0
    text = capsys.readouterr().out
    assert "over i=96 (mb, split 24), j=320 (out); 24 cores" in text
    assert "core  3: slice mb 3, out 0; x + 1536, s + 0, t0 + 1536" in text
    assert main(["inspect", str(directory), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert [op["name"] for op in summary["ops"]] == ["add_0", "add_1", "leaky"]
    assert summary["ops"][0]["operands"][0]["core_bytes"] == [512 * core for core in range(24)]


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


def test_run_computes_what_numpy_computes(tmp_path: Path, capsys: pytest.CaptureFixture[str], own_cache: Path) -> None:
    directory = written(samples.pointwise(), tmp_path)
    x, s = saved(tmp_path / "x.npy", (96, 320), 0), saved(tmp_path / "s.npy", (320,), 1)
    files = [f"--input=x={tmp_path / 'x.npy'}", f"--input=s={tmp_path / 's.npy'}"]
    for _ in range(2):
        out = tmp_path / "out"
        assert main(["run", str(directory), *files, "--set", "slope=0.5", "--out", str(out), "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"out": {"file": "out.npy", "dtype": "float16"}}
        total = x + 2 * s
        np.testing.assert_array_equal(np.load(out / "out.npy"), np.where(total > 0, total, total / 2))
    assert len(list(own_cache.rglob("*.program"))) == 1


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
        ([], "missing x, s"),
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
    bundle = samples.transposed()
    buffers = tuple(replace(buffer, dtype="bfloat16") for buffer in bundle.buffers)
    op = bundle.descriptions[0]

    def retyped(tensor: Tensor) -> Tensor:
        assert tensor.view is not None
        return replace(tensor, dtype="bfloat16", view=replace(tensor.view, buffer_dtype="bfloat16"))

    inputs = tuple(retyped(tensor) for tensor in op.tensors[:1])
    changed = replace(op, inputs=inputs, outputs=(retyped(op.outputs[0]),))
    directory = written(replace(bundle, name="b16", buffers=buffers, descriptions=(changed,)), tmp_path)
    bits = (np.arange(64 * 128, dtype=np.uint16) % 64 + 0x3F80).reshape(64, 128)
    np.save(tmp_path / "x.npy", bits)
    assert main(["run", str(directory), f"--input=x={tmp_path / 'x.npy'}"]) == 1
    assert "x.npy:bfloat16" in capsys.readouterr().err
    assert main(["run", str(directory), f"--input=x={tmp_path / 'x.npy'}:bfloat16", "--out", str(tmp_path / "o")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "o" / "out.bfloat16.npy"), bits.T)


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
    assert scalar_value(Scalar("s", dtype), text) == value


@pytest.mark.parametrize(
    ("dtype", "text"), [("int32", "1.5"), ("int64", "2147483648"), ("bool", "maybe"), ("float16", "x")]
)
def test_scalars_that_are_none_are_refused(dtype: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match="--set s="):
        scalar_value(Scalar("s", dtype), text)


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


DRAWING = """
program "draw" pool 0
number "seed_low" int32
number "seed_high" int32
number "offset_low" int32
number "offset_high" int32
number "from" float32
number "to" float32
buffer "out" output float32 [3, 50] [50, 1]
op "draw" uniform
  dim "rows" 3
  dim "columns" 50
  count 0 [50, 1]
  number "seed_low" int32
  number "seed_high" int32
  number "offset_low" int32
  number "offset_high" int32
  number "from" float32
  number "to" float32
  write "out" float32 0 [50, 1]
"""


def test_a_bundle_draws_from_the_seed_and_offset_it_is_given(tmp_path: Path) -> None:
    """The first block of Philox4x32-10 with key 0 is published: Random123's kat_vectors."""
    bundle = emit.emit(pipeline.run(parse_program(DRAWING), verify=True))
    directory = written(bundle, tmp_path)
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
