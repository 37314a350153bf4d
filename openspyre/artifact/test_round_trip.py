"""What is written is read back the same, whatever the bundle; equal bundles have equal files."""

from __future__ import annotations

import json
import stat
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.samples import buffer, samples, walk
from openspyre.artifact import Bundle, content_hash, read, texts, verify, write
from openspyre.artifact.extension_parse import parse_description
from openspyre.artifact.fields import Problems
from openspyre.artifact.geometry import blocks
from openspyre.artifact.listing import Address, Entry, Listing, listing
from openspyre.artifact.manifest import FILE as MANIFEST
from openspyre.artifact.manifest import manifest_json, manifest_of, parse_manifest
from openspyre.artifact.mlir import parse_listing, print_listing
from openspyre.artifact.model import Attribute, Description, Dim, Execution, Iota, Place, Role, Scalar, ScalarSlot
from openspyre.artifact.sdsc import sdsc_json
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.packing import value_bytes

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ATTRIBUTES: st.SearchStrategy[Attribute] = st.one_of(
    st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), NAMES, st.lists(st.integers()).map(tuple)
)


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    """A chain of pointwise ops over one shape, with a broadcast row, an iota and launch scalars, over random cores."""
    sizes = (*draw(st.lists(st.integers(2, 6), max_size=3)), draw(st.integers(2, 200)))
    dtype = draw(st.sampled_from(["float16", "float32", "int64", "bool"]))
    x = buffer(draw(NAMES) + "x", sizes, Role.INPUT, dtype)
    row = buffer("row", sizes[-1:], draw(st.sampled_from([Role.INPUT, Role.UPDATE, Role.CONSTANT])), dtype)
    if row.role is Role.CONSTANT:
        length = value_bytes(row.size, row.stride, dtype)
        row = replace(row, values=draw(st.binary(min_size=length, max_size=length)))
    out = buffer("out", sizes, Role.OUTPUT, dtype)
    bytes_each = x.layout.device_bytes
    temps = [buffer(f"t{i}", sizes, Role.TEMP, dtype, i * bytes_each) for i in range(draw(st.integers(0, 2)))]
    whole, along = walk(x, row_major(sizes), sizes), walk(row, (*(0 for _ in sizes[:-1]), 1), sizes)
    dims = _split(
        draw, Description("add", tuple(Dim(f"d{i}", n) for i, n in enumerate(sizes)), (whole, along), (whole,))
    )
    attributes = tuple(draw(st.dictionaries(NAMES, ATTRIBUTES, max_size=2)).items())
    iota = Iota(draw(st.integers(-5, 5)), tuple(draw(st.integers(-3, 3)) for _ in sizes))
    descriptions = (
        Description("add", dims, (whole, along), (whole,), attributes),
        Description("where", dims, (whole, ScalarSlot(dtype), iota), (whole,)),
    )
    chain = [x, *temps, out]
    executions = []
    for source, target in pairwise(chain):
        if draw(st.booleans()):
            places = (Place(source.name, 0), Place("row", 0), Place(target.name, 0))
            executions.append(Execution(draw(NAMES), 0, places, origin=draw(NAMES)))
        else:
            executions.append(Execution(draw(NAMES), 1, (Place(source.name, 0), Place(target.name, 0)), ("s",)))
    arguments = draw(st.permutations([x, row, out]))
    return Bundle(
        draw(NAMES),
        (*arguments, *temps),
        descriptions,
        tuple(executions),
        (Scalar("s", dtype),),
        len(temps) * bytes_each,
    )


def _split(draw: st.DrawFn, op: Description) -> tuple[Dim, ...]:
    left, dims = 32, []
    for index, dim in enumerate(op.dims):
        count = blocks(op, index)
        split = draw(st.sampled_from([n for n in range(1, min(count, left) + 1) if count % n == 0]))
        left //= split
        dims.append(replace(dim, split=split))
    return tuple(dims)


@settings(max_examples=60)
@given(bundles())
def test_a_bundle_written_is_the_bundle_read(bundle: Bundle) -> None:
    assert verify(bundle) == []
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "deep" / "bundle"
        write(bundle, directory)
        assert verify(directory) == []
        again = read(directory)
    assert again == bundle
    assert content_hash(again) == content_hash(bundle)
    assert texts(again) == texts(bundle)


@settings(max_examples=60)
@given(bundles())
def test_every_file_alone_states_its_part(bundle: Bundle) -> None:
    problems = Problems("")
    files = texts(bundle)
    assert parse_listing(files["bundle.mlir"], problems) == listing(bundle)
    for number, description in enumerate(bundle.descriptions):
        tree = json.loads(json.dumps(sdsc_json(description, number, -1)))
        assert parse_description(tree, problems) == description
    manifest = manifest_of(bundle, {"bundle.mlir": files["bundle.mlir"]})
    assert parse_manifest(json.loads(json.dumps(manifest_json(manifest))), problems) == manifest
    assert problems.found == []


@given(
    st.builds(
        Listing,
        st.just(4),
        st.just(True),
        st.lists(
            st.builds(
                Entry,
                st.integers(0, 99).map("sdsc_{}.json".format),
                st.lists(st.builds(Address, st.integers(-1, 3), st.integers(0, 2**40)), max_size=4).map(tuple),
                st.lists(st.integers(-999, -1), max_size=4).map(tuple),
                NAMES,
                st.lists(NAMES, max_size=3).map(tuple),
                st.lists(NAMES, max_size=3).map(tuple),
                NAMES,
            ),
            max_size=4,
        ).map(tuple),
    )
)
def test_any_execution_list_survives_its_text(found: Listing) -> None:
    problems = Problems("")
    assert parse_listing(print_listing(found), problems) == found
    assert problems.found == []


@pytest.mark.parametrize("bundle", samples(), ids=lambda bundle: bundle.name)
def test_samples_are_valid(bundle: Bundle, tmp_path: Path) -> None:
    write(bundle, tmp_path / "bundle")
    assert verify(tmp_path / "bundle") == []
    assert read(tmp_path / "bundle") == bundle


def test_json_files_are_indented_by_two_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    write(samples()[0], tmp_path / "bundle")
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    for path in (tmp_path / "bundle").glob("*.json"):
        assert path.read_text() == json.dumps(json.loads(path.read_text()), indent=2) + "\n"
    assert sorted(path.name for path in (tmp_path / "bundle").iterdir()) == [
        "bundle.mlir",
        MANIFEST,
        "sdsc_0.json",
        "sdsc_1.json",
    ]
    assert stat.S_IMODE((tmp_path / "bundle").stat().st_mode) == 0o755


def test_a_bundle_never_overwrites_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(InvalidArgument, match="exists already"):
        write(samples()[0], tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "mine"


def test_equal_ops_share_a_file() -> None:
    pointwise = samples()[0]
    entries = listing(pointwise).entries
    assert [entry.file for entry in entries] == ["sdsc_0.json", "sdsc_0.json", "sdsc_1.json"]
    assert entries[0].symbol_ids == entries[1].symbol_ids
    assert entries[0].addresses != entries[1].addresses
    assert entries[2].symbol_ids[0] == entries[0].symbol_ids[-1] - 1, "ids run on through the files"
