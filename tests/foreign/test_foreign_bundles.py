"""Bundles that the reference front end wrote, on our card: the memory afterwards is what an independent interpreter left."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from foreign.vectors import ABSENT, Argument, graphs, launches

from openspyre.artifact.bundle import bundle_texts, read_bundle
from openspyre.backend import FuseSteps
from openspyre.card import cards
from openspyre.program.verify import problems
from openspyre.spec.encodings import sen169_decode
from openspyre.spec.errors import IndexOutOfRange
from openspyre.tools.launches import execute, prepare

EXACT = {"cat_rows", "slice_cols", "transpose_add", "index_rows", "embedding", "index_put_rows", "cast_up", "where_cmp",
         "max_last", "broadcast_row", "topk_8"}  # fmt: skip
_GRAPHS = graphs()


@pytest.mark.skipif(not _GRAPHS, reason=ABSENT)
@pytest.mark.parametrize("graph", _GRAPHS, ids=lambda graph: f"{graph.parent.name}-{graph.name}")
def test_memory_after_a_foreign_bundle_is_as_its_vector_says(graph):
    cards.get().clear_scratchpads()
    for launch in launches(graph):
        bundle = read_bundle(launch.bundle)
        given = {number: argument.before.tobytes() for number, argument in enumerate(launch.arguments)}
        if all((argument.before == argument.after).all() for argument in launch.arguments):
            given[len(given) - 1] = b"\xa5" * len(given[len(given) - 1])  # the result lay there already
        after = execute(prepare(bundle, given, None, launch.bundle))
        for number, (found, argument) in enumerate(zip(after, launch.arguments, strict=True)):
            if not argument.is_pool:
                check(
                    found, argument, exact=graph.name in EXACT, where=f"{launch.bundle.parent.name} argument {number}"
                )


def check(found: bytes, argument: Argument, *, exact: bool, where: str) -> None:
    if argument.format in ("IEEE_FP32", "IEEE_INT32"):
        got, wanted = np.frombuffer(found, np.int32), argument.after.view(np.int32)
    else:
        got, wanted = np.frombuffer(found, np.uint16), argument.after.view(np.uint16)
    apart = np.abs(got.astype(np.int64) - wanted.astype(np.int64))
    if exact or argument.format != "SEN169_FP16":
        assert not apart.any(), f"{where}: {np.count_nonzero(apart)} of {apart.size} elements differ"
        return
    assert np.count_nonzero(apart) <= 0.01 * apart.size, (
        f"{where}: {np.count_nonzero(apart)} of {apart.size} elements differ"
    )
    # A sum whose parts cancel keeps the error of its parts: it is measured at their scale, not at its own.
    values, expected = sen169_decode(got), sen169_decode(wanted)
    scale = np.sqrt(np.mean(np.square(expected[np.isfinite(expected)], dtype=np.float64)))
    with np.errstate(invalid="ignore"):
        close = np.abs(values - expected) <= 2.0**-9 * scale
    assert ((apart <= 1) | close).all(), f"{where}: {apart.max()} codes apart"


@pytest.mark.skipif(not _GRAPHS, reason=ABSENT)
@pytest.mark.parametrize("graph", _GRAPHS, ids=lambda graph: f"{graph.parent.name}-{graph.name}")
def test_fusion_changes_no_bit_of_a_foreign_bundles_arguments(graph):
    cards.get().clear_scratchpads()
    plain = [_after(launch, fuse=False) for launch in launches(graph)]
    cards.get().clear_scratchpads()
    assert [_after(launch, fuse=True) for launch in launches(graph)] == plain


def _after(launch, *, fuse):
    given = {number: argument.before.tobytes() for number, argument in enumerate(launch.arguments)}
    prepared = prepare(read_bundle(launch.bundle), given, None, launch.bundle)
    fused = FuseSteps().run(prepared.program)
    assert problems(fused) == []
    after = execute(replace(prepared, program=fused) if fuse else prepared)
    return [found for found, argument in zip(after, launch.arguments, strict=True) if not argument.is_pool]


@pytest.mark.parametrize(
    ("name", "place", "rows"), [("index_rows", 2, 100), ("embedding", 2, 100), ("index_put_rows", 1, 64)]
)
def test_indices_below_0_count_from_the_end_of_a_foreign_bundles_table(name, place, rows):
    graph = next((graph for graph in _GRAPHS if graph.name == name and graph.parent.name == "august"), None)
    if graph is None:
        pytest.skip(ABSENT)
    (launch,) = launches(graph)
    given = {number: argument.before.tobytes() for number, argument in enumerate(launch.arguments)}
    index = np.frombuffer(given[place], np.int32).copy()
    index[::2] -= rows
    given[place] = index.tobytes()
    after = execute(prepare(read_bundle(launch.bundle), given, None, launch.bundle))
    assert bytes(after[3]) == launch.arguments[3].after.tobytes()
    for wrong in (rows, -rows - 1):
        index[3] = wrong
        with pytest.raises(IndexOutOfRange, match=f"index {wrong} is out of bounds for a dimension of size {rows}"):
            execute(prepare(read_bundle(launch.bundle), given | {place: index.tobytes()}, None, launch.bundle))


_AUGUST = [graph for graph in _GRAPHS if graph.parent.name == "august"]


@pytest.mark.skipif(not _AUGUST, reason=ABSENT)
@pytest.mark.parametrize("graph", _AUGUST, ids=lambda graph: graph.name)
def test_what_we_write_of_a_foreign_bundle_is_field_for_field_what_was_read(graph):
    for launch in launches(graph):
        bundle = read_bundle(launch.bundle)
        for file, text in bundle_texts(bundle).items():
            if file.endswith(".json"):
                assert json.loads(text) == json.loads((launch.bundle / file).read_text()), file


@pytest.mark.skipif(not _AUGUST, reason=ABSENT)
@pytest.mark.parametrize("graph", _AUGUST, ids=lambda graph: graph.name)
def test_the_pool_need_not_be_given(graph):
    cards.get().clear_scratchpads()
    (launch,) = launches(graph)
    given = {n: argument.before.tobytes() for n, argument in enumerate(launch.arguments) if not argument.is_pool}
    after = execute(prepare(read_bundle(launch.bundle), given, None, launch.bundle))
    for number, (found, argument) in enumerate(zip(after, launch.arguments, strict=True)):
        if not argument.is_pool:
            check(found, argument, exact=graph.name in EXACT, where=f"argument {number}")
