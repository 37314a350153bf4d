"""What is written is read back the same; files appear whole or not at all; every kind of damage is named with its file and field."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.samples import pointwise, ramp, samples
from openspyre.artifact import Emitted, InvalidBundle, Problem, read_bundle, write_launch
from openspyre.artifact.bundle import parse_bundle
from openspyre.artifact.extensions.description import (
    Attribute,
    Constant,
    Description,
    Dim,
    HostView,
    Iota,
    Lanes,
    Tensor,
)
from openspyre.artifact.extensions.record import extension_json
from openspyre.artifact.extensions.record_reader import parse_extension
from openspyre.artifact.fields import Fields, Problems
from openspyre.artifact.launch_spec import Argument, launch_spec_json, read_launch_spec
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats
from openspyre.spec.layout import SpyreTensorLayout

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ATTRIBUTES: st.SearchStrategy[Attribute] = st.one_of(
    st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), NAMES, st.lists(st.integers()).map(tuple)
)


@st.composite
def records(draw: st.DrawFn) -> Description:
    """Any record that its JSON can state, sound or not."""
    dims = draw(st.integers(0, 4))
    steps = st.tuples(*[st.integers(-(2**40), 2**40)] * dims)

    def tensor() -> Tensor:
        dtype, form = draw(
            st.sampled_from([("float16", "SEN169_FP16"), ("float32", "IEEE_FP32"), ("int64", "IEEE_INT32")])
        )
        size = tuple(draw(st.lists(st.integers(1, 70), min_size=1, max_size=3)))
        lane = draw(st.integers(0, dims - 1)) if dims and draw(st.booleans()) else None
        view = (
            HostView(dtype, size, row_major(size), draw(st.integers(0, 99)), draw(steps))
            if draw(st.booleans())
            else None
        )
        kind = Lanes.VECTOR if lane is not None else Lanes.VIEW if view and draw(st.booleans()) else Lanes.SPLAT
        bits = draw(st.sampled_from([None, DataFormats[form]]))
        return Tensor(dtype, SpyreTensorLayout(size, dtype), kind, lane, draw(steps), view, bits)

    inputs = [draw(st.sampled_from([0, 1, 2])) for _ in range(draw(st.integers(0, 4)))]
    operands = [
        tensor()
        if kind == 0
        else Constant(draw(st.integers(0, 2**32 - 1)), "float32")
        if kind == 1
        else Iota(draw(st.integers(-5, 5)), draw(steps))
        for kind in inputs
    ]
    space = tuple(
        Dim(draw(NAMES), draw(st.integers(0, 2**40)), draw(st.integers(1, 32)), draw(st.booleans()))
        for _ in range(dims)
    )
    attributes = tuple(draw(st.dictionaries(NAMES, ATTRIBUTES, max_size=2)).items())
    outputs = tuple(tensor() for _ in range(draw(st.integers(1, 2))))
    return Description(
        draw(st.sampled_from(["sin", "sum", "relayout", "gather"])), space, tuple(operands), outputs, attributes
    )


@settings(max_examples=100)
@given(records())
def test_a_record_survives_its_text(record: Description) -> None:
    problems = Problems("")
    tree = json.loads(json.dumps(extension_json(record), allow_nan=False))
    assert repr(parse_extension(Fields(tree, "", problems))) == repr(record), problems.found
    assert problems.found == []


@pytest.mark.parametrize("emitted", samples(), ids=lambda emitted: emitted.name)
def test_samples_are_read_as_they_were_written(emitted: Emitted, tmp_path: Path) -> None:
    write_launch(emitted, tmp_path / "deep" / "bundle")
    found = read_bundle(tmp_path / "deep" / "bundle")
    assert found.ops == emitted.bundle.ops
    assert found.function.parameters == emitted.bundle.function.parameters
    assert [(e.file, dict(e.symbols)) for e in found.function.listed()] == [
        (e.file, dict(e.symbols)) for e in emitted.bundle.function.listed()
    ]
    spec = read_launch_spec(tmp_path / "deep" / "bundle")
    assert spec is not None
    for one, other in zip(spec, emitted.arguments, strict=True):
        assert (one.name, one.role, one.bytes, one.dtype, one.size) == (
            other.name, other.role, other.bytes, other.dtype, other.size
        )  # fmt: skip
        assert (one.layout, one.value, one.stride or row_major(one.size)) == (
            other.layout, other.value, other.stride or row_major(other.size)
        )  # fmt: skip


def test_json_files_are_indented_by_two_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    write_launch(ramp(), tmp_path / "bundle")
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    for path in (tmp_path / "bundle").glob("*.json"):
        assert path.read_text() == json.dumps(json.loads(path.read_text()), indent=2) + "\n"
    names = sorted(path.name for path in (tmp_path / "bundle").iterdir())
    assert names == ["bundle.mlir", "launch_spec.json", "row.npy", "sdsc_0.json"]
    np.testing.assert_array_equal(np.load(tmp_path / "bundle" / "row.npy"), np.arange(320, dtype=np.float16))
    assert stat.S_IMODE((tmp_path / "bundle").stat().st_mode) == 0o755


def test_a_bundle_never_overwrites_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(InvalidArgument, match="exists already"):
        write_launch(pointwise(), tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "mine"


def test_the_same_program_makes_the_same_files(tmp_path: Path) -> None:
    for place in ("one", "other"):
        write_launch(pointwise(), tmp_path / place)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_launch(pointwise(), tmp_path / "bundle")
    return tmp_path / "bundle"


def problems_of(directory: Path) -> list[Problem]:
    problems: list[Problem] = []
    parse_bundle(directory, problems)
    return problems


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.parametrize("name", ["bundle.mlir", "sdsc_0.json", "sdsc_1.json"])
def test_a_missing_file(directory: Path, name: str) -> None:
    (directory / name).unlink()
    problem = only(problems_of(directory))
    assert (problem.file, problem.found) == (name, "no such file or directory")


@pytest.mark.parametrize("name", ["bundle.mlir", "sdsc_0.json"])
def test_a_truncated_file(directory: Path, name: str) -> None:
    text = (directory / name).read_text()
    (directory / name).write_text(text[: len(text) // 2])
    assert {problem.file for problem in problems_of(directory)} == {name}


def test_links_pipes_and_directories_are_not_followed(directory: Path, tmp_path: Path) -> None:
    original = directory / "sdsc_0.json"
    outside = tmp_path / "outside.json"
    original.rename(outside)
    original.symlink_to(outside)
    assert only(problems_of(directory)).file == "sdsc_0.json"
    original.unlink()
    os.mkfifo(original)
    assert only(problems_of(directory)).found == "something that is no regular file"
    original.unlink()
    original.mkdir()
    assert only(problems_of(directory)).file == "sdsc_0.json"
    (tmp_path / "link").symlink_to(directory)
    assert only(problems_of(tmp_path / "link")).found == "no directory"


def test_a_name_that_leads_elsewhere_is_refused(directory: Path) -> None:
    text = (directory / "bundle.mlir").read_text()
    (directory / "bundle.mlir").write_text(text.replace('"sdsc_0.json"', '"../../etc/passwd"'))
    assert any("leads elsewhere" in problem.found or "etc" in problem.found for problem in problems_of(directory))


def test_addresses_that_are_in_no_argument(directory: Path) -> None:
    path = directory / "bundle.mlir"
    text = path.read_text()
    path.write_text(text.replace("arith.constant 384 : index", "arith.constant -384 : index"))
    problems = problems_of(directory)
    assert problems
    assert all("byte -384 of an argument" in problem.found for problem in problems)
    path.write_text(text)
    file = directory / "sdsc_0.json"
    file.write_text(file.read_text().replace('"-1"', f'"{1 << 40}"'))
    problem = only(problems_of(directory))
    assert (problem.file, problem.expected) == ("sdsc_0.json", f"one of the {len(pointwise().arguments)} segments")


def test_reading_a_damaged_bundle_raises_the_same_list(directory: Path) -> None:
    (directory / "sdsc_0.json").unlink()
    (directory / "sdsc_1.json").write_text("{")
    with pytest.raises(InvalidBundle, match=r"sdsc_0\.json") as raised:
        read_bundle(directory)
    assert raised.value.problems == problems_of(directory)


SPEC_MISTAKES: dict[str, tuple[Callable[[Any], object], str]] = {
    "another version": (lambda tree: tree.update(format=2), "format"),
    "another segment": (lambda tree: tree["arguments"][0].update(segment=3), "arguments[0].segment"),
    "an unknown role": (lambda tree: tree["arguments"][1].update(role="guest"), "arguments[1].role"),
    "an unknown dtype": (lambda tree: tree["arguments"][1].update(dtype="float17"), "arguments[1].dtype"),
    "no layout": (lambda tree: tree["arguments"][1].pop("layout"), "arguments[1].layout"),
    "no list": (lambda tree: tree.update(arguments=7), "arguments"),
    "no number": (lambda tree: tree["arguments"][4].update(value="much"), "arguments[4].value"),
}


@pytest.mark.parametrize("mistake", SPEC_MISTAKES)
def test_a_launch_spec_that_was_edited_is_refused_with_its_field(directory: Path, mistake: str) -> None:
    change, field = SPEC_MISTAKES[mistake]
    tree = json.loads((directory / "launch_spec.json").read_text())
    change(tree)
    (directory / "launch_spec.json").write_text(json.dumps(tree))
    with pytest.raises(InvalidBundle) as raised:
        read_launch_spec(directory)
    assert any(problem.field.startswith(field) for problem in raised.value.problems), raised.value.problems


def test_a_launch_spec_says_infinities_as_text(tmp_path: Path) -> None:
    layout = SpyreTensorLayout([1, 64], [-1, -1], DataFormats.SEN169_FP16)
    arguments = tuple(
        Argument(f"n{n}", "number", 128, "float16", (), layout, value=value)
        for n, value in enumerate((float("inf"), float("-inf"), 1.5))
    )
    (tmp_path / "launch_spec.json").write_text(json.dumps(launch_spec_json(arguments), allow_nan=False))
    found = read_launch_spec(tmp_path)
    assert found is not None
    assert [argument.value for argument in found] == [argument.value for argument in arguments]
