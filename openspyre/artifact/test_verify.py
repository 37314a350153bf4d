"""Each kind of damage is named, with its file, its field, what is there and what should be."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzz.samples import (
    buffer,
    matmul,
    normalised,
    pointwise,
    ramp,
    row_sums,
    samples,
    scattered,
    scores,
    transposed,
    walk,
)
from fuzz.text_mutants import SECONDS_PER_MUTANT, answer, mutants
from openspyre.artifact import Bundle, InvalidBundle, Problem, check, read, verify, write
from openspyre.artifact.model import Constant, Description, Dim, Place, Role, Tensor
from openspyre.spec.formats import DataFormats, formats_of
from openspyre.spec.machine import MIB, SPYRE
from openspyre.spec.packing import packed


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write(pointwise(), tmp_path / "bundle")
    return tmp_path / "bundle"


def edit(directory: Path, name: str, change: Callable[[Any], None]) -> None:
    """Changes a JSON file and makes its hash fit again."""
    tree = json.loads((directory / name).read_text())
    change(tree)
    text = json.dumps(tree, indent=2) + "\n"
    (directory / name).write_text(text)
    if name != "manifest.json":
        rehash(directory, name, text)


def rehash(directory: Path, name: str, text: str) -> None:
    digest = hashlib.sha256(text.encode()).hexdigest()
    edit(directory, "manifest.json", lambda tree: tree["files"].__setitem__(name, digest))


def dsc(tree: Any) -> Any:
    ((_, body),) = tree.items()
    return body["dscs_"][0]["add"]


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.parametrize("name", ["manifest.json", "bundle.mlir", "sdsc_0.json", "sdsc_1.json"])
def test_a_missing_file(directory: Path, name: str) -> None:
    (directory / name).unlink()
    problem = only(verify(directory))
    assert (problem.file, problem.found, problem.expected) == (name, "no such file or directory", "a readable file")


@pytest.mark.parametrize("name", ["manifest.json", "sdsc_0.json"])
def test_a_truncated_file(directory: Path, name: str) -> None:
    text = (directory / name).read_text()
    (directory / name).write_text(text[: len(text) // 2])
    assert any(problem.file == name and problem.expected == "JSON" for problem in verify(directory))


def test_a_changed_byte_is_a_wrong_hash(directory: Path) -> None:
    (directory / "sdsc_0.json").write_text((directory / "sdsc_0.json").read_text() + " ")
    problem = only(verify(directory))
    assert (problem.file, problem.field) == ("manifest.json", "files.sdsc_0.json")
    assert "SHA-256" in problem.expected


def test_an_unknown_op(directory: Path) -> None:
    def rename(tree: Any) -> None:
        ((_, body),) = tree.items()
        body["openspyre_"]["row"] = "frobnicate"

    edit(directory, "sdsc_0.json", rename)
    problem = only(verify(directory))
    assert problem.field.endswith("openspyre_.row")
    assert problem.found == "'frobnicate'"


def test_another_version_is_not_read(directory: Path) -> None:
    edit(directory, "manifest.json", lambda tree: tree.__setitem__("version", 2))
    problem = only(verify(directory))
    assert (problem.field, problem.found) == ("version", "2")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("numCoresUsed_",), 23),
        (("N_", "out_"), 384),
        (("computeOp_", 0, "opFuncName"), "sub"),
        (("labeledDs_", 1, "scale_"), [1, 1]),
        (("labeledDs_", 0, "dataFormat_"), "IEEE_FP32"),
        (("scheduleTree_", 0, "startAddressCoreCorelet_", "data_", "[3, 0, 0]"), "-1"),
        (("scheduleTree_", 0, "coordinates_", "coordInfo", "mb", "elemArr"), True),
        (("dataStageParam_", "0", "ss_", "mb_"), 5),
        (("primaryDsInfo_", "OUTPUT", "stickSize_"), [32]),
        (("constantInfo_",), {}),
    ],
)
def test_a_documented_field_that_disagrees_with_the_facts(directory: Path, path: tuple[Any, ...], value: Any) -> None:
    def change(tree: Any) -> None:
        node = dsc(tree)
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = value

    edit(directory, "sdsc_0.json", change)
    problems = verify(directory)
    assert problems
    assert all(problem.file == "sdsc_0.json" for problem in problems)
    assert any(str(path[-1]) in problem.field for problem in problems)


def test_every_disagreement_is_listed_not_only_the_first(directory: Path) -> None:
    def change(tree: Any) -> None:
        dsc(tree)["N_"]["out_"] = 1
        dsc(tree)["extra"] = 1
        del dsc(tree)["coreIdsUsed_"]

    edit(directory, "sdsc_0.json", change)
    assert sorted(problem.field.rsplit(".", 1)[-1] for problem in verify(directory)) == [
        "coreIdsUsed_",
        "extra",
        "out_",
    ]


def test_a_wrong_address_in_the_execution_list(directory: Path) -> None:
    path = directory / "bundle.mlir"
    text = path.read_text().replace("%c5120 = arith.constant 5120", "%c5120 = arith.constant 5248")
    path.write_text(text)
    rehash(directory, "bundle.mlir", text)
    problems = verify(directory)
    assert {problem.file for problem in problems} == {"bundle.mlir"}
    assert any("byte=5248" in problem.found and "byte=5120" in problem.expected for problem in problems)


def found(bundle: Bundle) -> list[Problem]:
    """The same problems stand in the model and in the files it writes."""
    return verify(bundle)


def test_a_split_that_does_not_divide() -> None:
    bundle = pointwise()
    dims = (Dim("i", 96, 5), Dim("j", 320))
    wrong = tuple(replace(description, dims=dims) for description in bundle.descriptions)
    problems = found(replace(bundle, descriptions=wrong))
    assert {problem.found for problem in problems} == {"5"}
    assert all("divisor of 96" in problem.expected for problem in problems)


def test_more_cores_than_a_card_has() -> None:
    bundle = matmul()
    op = replace(bundle.descriptions[0], dims=(Dim("m", 64, 32), Dim("n", 128, 2), Dim("k", 192, 1, True)))
    problem = only(found(replace(bundle, descriptions=(op,))))
    assert (problem.found, problem.expected) == ("splits for 64 cores", "at most 32")


def test_a_contraction_whose_tensors_run_along_other_dims() -> None:
    bundle = scores()
    op = bundle.descriptions[0]
    along_m = replace(op, outputs=(replace(op.outputs[0], lane_dim=0),), dims=(Dim("m", 64), *op.dims[1:]))
    problem = next(p for p in found(replace(bundle, descriptions=(along_m,))) if p.field == "openspyre_.lane_dim")
    assert (problem.found, problem.expected[:22]) == ("[2, 2, 0]", "[2, 1, 1] or [2, 2, 1]")


def test_temps_that_overlap_while_both_are_in_use() -> None:
    bundle = pointwise()
    shifted = tuple(replace(b, place=512) if b.name == "t1" else b for b in bundle.buffers)
    problem = only(found(replace(bundle, buffers=shifted)))
    assert "overlap t1's 512" in problem.found


def test_temps_may_share_memory_one_after_the_other() -> None:
    bundle = pointwise()
    x, s, out, first, second = bundle.buffers
    third = replace(first, name="t2")
    executions = (
        *bundle.executions[:2],
        replace(bundle.executions[0], places=(Place("t1", 0), Place("s", 0), Place("t2", 0))),
    )
    assert found(replace(bundle, buffers=(x, s, out, first, second, third), executions=executions)) == []


def test_an_access_that_leaves_its_buffer() -> None:
    bundle = pointwise()
    places = (Place("x", 128), *bundle.executions[0].places[1:])
    problem = only(found(replace(bundle, executions=(replace(bundle.executions[0], places=places),))))
    assert "bytes 128 to 61568" in problem.found
    assert "61440 bytes of x" in problem.expected


def test_a_span_beyond_what_one_core_reaches() -> None:
    x = buffer("x", (1024, 1 << 20), Role.INPUT)
    out = buffer("out", (1024, 1 << 20), Role.OUTPUT)
    sizes = (1024, 1 << 20)
    whole = walk(x, (1 << 20, 1), sizes)
    bundle = samples()[0]
    op = replace(
        bundle.descriptions[0],
        row="abs",
        dims=(Dim("i", 1024, 2), Dim("j", 1 << 20)),
        inputs=(whole,),
        outputs=(whole,),
    )
    run = replace(bundle.executions[0], places=(Place("x", 0), Place("out", 0)))
    problems = found(Bundle("big", (x, out), (op,), (run,)))
    assert all(f"at most {256 * MIB // MIB} MiB" in problem.expected for problem in problems)
    assert len(problems) == 2
    fits = replace(op, dims=(Dim("i", 1024), Dim("j", 1 << 20, 32)))
    assert found(Bundle("big", (x, out), (fits,), (run,))) == []


def test_the_span_is_that_of_the_card_asked_about() -> None:
    bundle = samples()[0]
    assert check(bundle) == []
    far, near = (replace(SPYRE, max_span_bytes_per_core_and_tensor=limit) for limit in (1 << 40, 128))
    assert check(bundle, far) == []
    assert check(bundle, near) and all("MiB in one core's reach" in p.found for p in check(bundle, near))


def test_an_input_is_never_written() -> None:
    bundle = transposed()
    x, out = bundle.buffers
    problem = only(found(replace(bundle, buffers=(x, replace(out, role=Role.INPUT)))))
    assert "is written" in problem.found


@pytest.mark.parametrize(
    "values", [None, 7, "", "%%%", "AAAA", packed(bytes(639)), packed(bytes(641)), packed(bytes(1 << 24))]
)
def test_values_of_a_constant_that_are_none(tmp_path: Path, values: object) -> None:
    """The row of 320 halves takes 640 bytes; a text that would unpack to far more is not unpacked."""
    bundle = pointwise()
    held = tuple(replace(b, role=Role.CONSTANT, values=bytes(640)) if b.name == "s" else b for b in bundle.buffers)
    place = tmp_path / "bundle"
    write(replace(bundle, buffers=(held[0], held[2], held[1], *held[3:])), place)
    assert verify(place) == []
    edit(place, "manifest.json", lambda tree: tree["constants"][0].update(values=values))
    assert "constants[0].values" in {problem.field for problem in verify(place)}


def test_links_pipes_and_directories_are_not_followed(directory: Path, tmp_path: Path) -> None:
    original = directory / "sdsc_0.json"
    outside = tmp_path / "outside.json"
    original.rename(outside)
    original.symlink_to(outside)
    assert only(verify(directory)).file == "sdsc_0.json"
    original.unlink()
    os.mkfifo(original)
    assert only(verify(directory)).found == "something that is no regular file"
    original.unlink()
    original.mkdir()
    assert only(verify(directory)).file == "sdsc_0.json"
    (tmp_path / "link").symlink_to(directory)
    assert only(verify(tmp_path / "link")).expected == "a bundle directory"


def test_a_name_that_leads_elsewhere_is_refused(directory: Path) -> None:
    edit(directory, "manifest.json", lambda tree: tree["files"].__setitem__("../../etc/passwd", "0" * 64))
    assert any(problem.field == "files" for problem in verify(directory))


def test_reading_a_damaged_bundle_raises_the_same_list(directory: Path) -> None:
    (directory / "sdsc_0.json").unlink()
    (directory / "sdsc_1.json").write_text("{")
    with pytest.raises(InvalidBundle, match=r"sdsc_0\.json") as raised:
        read(directory)
    assert raised.value.problems == verify(directory)


def test_500_mutants_are_answered_without_an_exception(tmp_path: Path) -> None:
    harmless = 0
    for number, (done, files) in enumerate(mutants(seed=20, count=500)):
        start = time.monotonic()
        harmless += not answer(files, tmp_path / str(number))
        assert time.monotonic() - start < SECONDS_PER_MUTANT, done
    assert harmless < 100, "most mutants are damaged, and damage is seen"


def test_the_same_seed_makes_the_same_mutants() -> None:
    first, again, other = (list(mutants(seed, 10)) for seed in (4, 4, 5))
    assert first == again != other


def source_of(op: Description) -> Tensor:
    (source,) = op.inputs
    assert isinstance(source, Tensor)
    return source


WIDTHS = [
    ("float32", True),
    ("int64", True),
    ("int8", True),
    ("int16", False),
    ("uint8", True),
    ("float8_e4m3fn", True),
]


@pytest.mark.parametrize(("dtype", "other_width"), WIDTHS)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize("row", ["relayout", "restickify"])
def test_a_tensor_cannot_say_another_dtype_than_its_layout_holds(
    dtype: str, other_width: bool, side: str, row: str
) -> None:
    """The DMA goes by the dtype: one of another width would walk past the end of its memory."""
    bundle = transposed()
    op = replace(bundle.descriptions[0], row=row)
    lying = replace(op.outputs[0] if side == "outputs" else source_of(op), dtype=dtype)
    for tensor in (lying, replace(lying, bits_as=formats_of(dtype).device)):
        changed = replace(op, outputs=(tensor,)) if side == "outputs" else replace(op, inputs=(tensor,))
        problems = found(replace(bundle, descriptions=(changed,)))
        if other_width or tensor.bits_as is None:
            assert problems, tensor
        fields = {problem.field.rsplit(".", 1)[-1] for problem in problems}
        assert fields <= {"format", "bits_as"}, problems


def test_a_format_that_cannot_hold_the_dtype_is_named_where_it_is_said() -> None:
    """Not only where the tensor is placed: a description is checked before anything is."""
    bundle = transposed()
    op = bundle.descriptions[0]
    narrow = replace(source_of(op), dtype="int32", bits_as=DataFormats.SENINT16)
    problems = found(replace(bundle, descriptions=(replace(op, inputs=(narrow,)),)))
    assert "labeledDs_[0].openspyre_.format" in [problem.field for problem in problems]


def test_a_buffer_cannot_say_another_dtype_than_its_layout_holds() -> None:
    bundle = pointwise()
    wrong = tuple(replace(b, dtype="int64" if b.name == "s" else b.dtype, layout=b.layout) for b in bundle.buffers)
    assert any("Tensor1" in problem.field for problem in found(replace(bundle, buffers=wrong)))
    halves = replace(
        bundle.buffers[0], dtype="float8_e4m3fn", layout=buffer("x", (96, 320), Role.INPUT, "int32").layout
    )
    problems = found(replace(bundle, buffers=(halves, *bundle.buffers[1:])))
    assert any(problem.field == "buffers.x.format" for problem in problems)


@pytest.mark.parametrize("size", [0, 1 << 40, 1 << 56, 1 << 62])
def test_extents_no_card_walks(size: int) -> None:
    """As the card's own check says: along a dim of stride 0 nothing else would stop it."""
    bundle = pointwise()
    op = bundle.descriptions[0]
    longer = replace(op, dims=(Dim("i", size), op.dims[1]))
    problems = found(replace(bundle, descriptions=(longer, bundle.descriptions[1])))
    assert any(problem.field == "openspyre_.dims[0].size" for problem in problems)


def test_more_points_than_places_to_store_them() -> None:
    x, out = buffer("x", (320,), Role.INPUT), buffer("out", (320,), Role.OUTPUT)
    row = walk(x, (0, 1), (1 << 30, 320))
    dims = (Dim("i", 1 << 30, 32), Dim("j", 320))
    op = replace(pointwise().descriptions[0], row="abs", dims=dims, inputs=(row,), outputs=(row,))
    run = replace(pointwise().executions[0], places=(Place("x", 0), Place("out", 0)))
    problem = only(found(Bundle("endless", (x, out), (op,), (run,))))
    assert "points in" in problem.found


@pytest.mark.parametrize("row", ["sum", "scatter_add"])
def test_an_output_does_not_move_with_what_is_folded_or_chosen(row: str) -> None:
    bundle = row_sums() if row == "sum" else scattered()
    number = 0 if row == "sum" else 1
    op = bundle.descriptions[number]
    if row == "sum":
        moved = replace(op, outputs=(replace(op.outputs[0], strides=(64, 64)),))
    else:
        moved = replace(op, dims=(Dim("i", 16, reduced=True), *op.dims[1:]))
    descriptions = tuple(moved if n == number else d for n, d in enumerate(bundle.descriptions))
    assert any("reduced dim" in problem.found for problem in found(replace(bundle, descriptions=descriptions)))


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_moments_are_of_floats(side: str) -> None:
    """As the card says: sums of a row are fp32."""
    bundle = normalised()
    op = bundle.descriptions[0]
    tensors = op.outputs if side == "outputs" else (source_of(op),)
    whole = tuple(
        replace(t, dtype="int32", bits_as=DataFormats.IEEE_INT32, layout=op.outputs[0].layout) for t in tensors
    )
    changed = replace(op, outputs=whole) if side == "outputs" else replace(op, inputs=whole)
    problems = found(replace(bundle, descriptions=(changed, bundle.descriptions[1])))
    assert any("a float" in problem.expected for problem in problems)


def test_a_constant_whose_strides_are_none_of_its_size() -> None:
    bundle = ramp()
    constants = {b.name: replace(b, stride=()) for b in bundle.buffers if b.role is Role.CONSTANT}
    assert constants
    changed = tuple(constants.get(b.name, b) for b in bundle.buffers)
    assert any("device_size" in problem.field for problem in found(replace(bundle, buffers=changed)))


def test_a_constant_of_a_dtype_that_no_file_says() -> None:
    bundle = normalised()
    op = bundle.descriptions[1]
    eps = op.inputs[2]
    assert isinstance(eps, Constant)
    changed = replace(op, inputs=(*op.inputs[:2], replace(eps, dtype="float8_e5m2fnuz")))
    assert found(replace(bundle, descriptions=(bundle.descriptions[0], changed)))
