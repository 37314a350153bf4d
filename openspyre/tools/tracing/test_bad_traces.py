"""Traces that are none, and places that cannot be written: told in a sentence, and nothing is left."""

import json
import resource
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from openspyre.tools.command import main


def kernel(**others: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "pid": 0, "tid": 0, "args": {}} | others


def predicted(name: str) -> dict[str, Any]:
    arguments = {"correlation": 1, "predicted us": 2.0, "ideal us": 1.0}
    return kernel(name=name, cat="gpu_user_annotation", pid=64, args=arguments)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [kernel(), *(predicted(f"op{k} (predicted)") for k in range(50))]}))
    return path


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (kernel(args={"predicted us": "abc"}), "its 'predicted us' is 'abc', no number"),
        (kernel(args={"bytes": None}), "its 'bytes' is None"),
        (kernel(ts=float("inf")), "its 'ts' is inf"),
        (kernel(dur=[1]), "its 'dur' is [1]"),
        (kernel(dur=-5), "its 'dur' is -5, less than nothing"),
        (kernel(ts=10**30), "its 'ts' is 1e+30, more than can be"),
        (kernel(args={"bytes": 1e308}), "its 'bytes' is 1e+308, more than can be"),
        ({"ph": "X", "pid": 1}, "it has no 'ts'"),
    ],
)
def test_a_number_that_is_none_is_told_with_its_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], event: dict[str, Any], words: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps([kernel(), event]))
    assert main(["trace", str(path)]) == 1
    assert f"{path}: event 1 is none of a Chrome trace: {words}" in capsys.readouterr().err


def test_names_cannot_steer_the_terminal_and_break_no_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = tmp_path / "evil.json", tmp_path / "evil.svg"
    path.write_text(json.dumps([kernel(name="a\x1b[31mb", args={"source": "x\x07.py:1\n"})]))
    assert main(["trace", str(path), "--picture", str(picture)]) == 0
    told = capsys.readouterr().out
    assert "a?[31mb" in told and "x?.py:1?" in told and "\x1b" not in told
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


@pytest.mark.parametrize("last", [1e-3, 1e6, 1e12, 1e18])
def test_a_picture_has_an_axis_however_long_it_took(tmp_path: Path, last: float) -> None:
    path, picture = tmp_path / "long.json", tmp_path / "long.svg"
    path.write_text(json.dumps([kernel(ts=0, dur=0), kernel(ts=last)]))
    assert main(["trace", str(path), "--picture", str(picture)]) == 0
    assert 2 <= picture.read_text().count('class="axis"') <= 13


def test_a_file_of_brackets_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep.json").write_text("[" * 200_000)
    assert main(["trace", str(tmp_path / "deep.json")]) == 1
    assert "this is no Chrome trace" in capsys.readouterr().err


def test_a_card_trace_goes_into_a_directory_and_into_no_file(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = trace.read_text()
    assert main(["trace", str(trace), "--card", str(trace)]) == 1
    assert f"{trace} is a file; --card names the directory" in capsys.readouterr().err
    assert main(["trace", str(trace), "--card", str(trace / "inside")]) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert trace.read_text() == before


def test_a_full_disk_leaves_no_half_of_a_card_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))  # room for the cycles, not for the trace
    try:
        assert main(["trace", str(trace), "--card", str(trace.parent / "card")]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot be written: File too large" in capsys.readouterr().err
    assert list(trace.parent.iterdir()) == [trace]
    for _ in range(2):  # and once more into a directory that is there
        assert main(["trace", str(trace), "--card", str(trace.parent / "card")]) == 0
    assert len(list((trace.parent / "card").rglob("ideal_cycles.json"))) == 50
    assert sorted(path.name for path in trace.parent.iterdir()) == ["card", "trace.json"]


def test_a_long_name_loses_its_middle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{'a_very_long_name_' * 6}#{k}" for k in range(2)]
    (tmp_path / "t.json").write_text(json.dumps([kernel(name=name) for name in names]))
    assert main(["trace", str(tmp_path / "t.json")]) == 0
    told = capsys.readouterr().out
    assert "_name_#0 " in told and "_name_#1 " in told and names[0] not in told
