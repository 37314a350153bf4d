"""Random bundles in the documented form: our card and the second reader, who share no code, leave the same memory."""

from __future__ import annotations

import os

import numpy as np
import pytest
from foreign.random_bundles import FP16, Random, random_bundle

from openspyre.artifact.bundle import bundle_texts
from openspyre.card import cards
from openspyre.spec.encodings import sen169_encode
from openspyre.spec.formats import DataFormats
from openspyre.tools.bundle import read
from openspyre.tools.launches import execute, prepare
from tests.independent import run

COUNT = int(os.environ.get("OPENSPYRE_FUZZ_BUNDLES", "150"))
# Functions of our own (N7) may differ from numpy's in the last code; all else is the same arithmetic in the same order.
ROUNDED = ("exp", "tanh", "sigmoid", "silu", "softplus", "reciprocal", "realdiv", "sqrt")


def images(made: Random, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = []
    for number, (size, form) in enumerate(zip(made.argument_bytes, made.formats, strict=True)):
        if number in made.indices:
            bound = made.indices[number]
            values = rng.permutation(-bound)[: size // 4] if bound < 0 else rng.integers(0, bound, size // 4)
            codes = np.resize(values, size // 4).astype(np.int32)
            codes -= abs(bound) * rng.integers(0, 2, codes.size).astype(np.int32)  # counted from the end
        elif form is FP16:
            codes = sen169_encode(rng.standard_normal(size // 2).astype(np.float32)).astype(np.uint16)
        elif form is DataFormats.SEN143_FP8:
            codes = (rng.integers(0, 0x50, size) + 0x80 * rng.integers(0, 2, size)).astype(np.uint8)
        else:
            codes = rng.standard_normal(size // 4).astype(np.float32)
        found.append(codes.view(np.uint8).copy())
    return found


@pytest.mark.parametrize("seed", range(COUNT))
def test_the_card_and_the_second_reader_leave_the_same_memory(seed, tmp_path):
    made = random_bundle(seed)
    for name, text in bundle_texts(made.bundle).items():
        (tmp_path / name).write_text(text)
    before = images(made, seed)
    (expected,) = run([tmp_path], [[image.copy() for image in before]])
    cards.get().clear_scratchpads()
    given = {number: image.tobytes() for number, image in enumerate(before)}
    found = execute(prepare(read(tmp_path), given, None, tmp_path))
    loose = any(op.op in ROUNDED for op in made.bundle.ops.values())
    for number, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        compare(
            np.frombuffer(got, np.uint8),
            wanted,
            made.formats[number],
            loose=loose,
            where=f"{made.said}, argument {number}",
        )


def compare(got, wanted, form, *, loose, where):
    if not loose:
        differ = np.flatnonzero(got != wanted)
        assert not differ.size, f"{where}: {differ.size} bytes differ, first at {differ[0]}"
    elif form is FP16:
        codes = np.abs(got.view(np.uint16).astype(np.int64) - wanted.view(np.uint16).astype(np.int64))
        assert codes.max(initial=0) <= 1, f"{where}: {codes.max()} codes apart"
        assert np.count_nonzero(codes) <= max(2, 0.01 * codes.size), (
            f"{where}: {np.count_nonzero(codes)} of {codes.size} differ"
        )
    else:
        np.testing.assert_allclose(got.view(np.float32), wanted.view(np.float32), rtol=2.0**-21, err_msg=where)


def test_every_kind_is_among_them():
    kinds = {random_bundle(seed).said.partition(":")[0] for seed in range(COUNT)}
    assert len(kinds) == 14 or COUNT < 100
