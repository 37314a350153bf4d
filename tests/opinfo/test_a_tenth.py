"""A seeded tenth of `make opinfo`: samples of torch's OpInfo and module_db, in processes of their own."""

from __future__ import annotations

import os
import warnings
import zlib
from typing import Any

import pytest
from known import known_differences, unexplained
from shards import tried

SEED = int(os.environ.get("OPENSPYRE_OPINFO_SEED", "0"))
PARTS = 4
SECONDS = 240


def jobs(part: int, compiled: bool, bits: bool = False) -> list[dict[str, Any]]:
    """One (entry, dtype) in ten, spread over the parts; for graphs, which take longer, one in eighty, and against eager alone
    one in twenty-seven."""
    one_in = 27 if bits else 80 if compiled else 10 * PARTS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of its tables
        from entries import entries
    return [
        {"entry": entry.name, "dtype": str(dtype).removeprefix("torch."), "seed": SEED}
        | {"samples": 1 if compiled else 4, "fraction": 1.0, "compiled": compiled, "bits": bits}
        for entry in entries().values()
        for dtype in entry.dtypes()
        if zlib.crc32(f"{entry.name} {dtype} {SEED} {compiled}".encode()) % one_in == part
    ]


def differences(work: list[dict[str, Any]], mode: str) -> list[str]:
    known = known_differences()
    return [
        f"{report['entry']} {report['dtype']} #{number} {described}: {wrong}"
        for report in tried(work, workers=1, seconds=SECONDS)
        for number, described, wrong in unexplained(report, mode, known)[0]
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_tenth_of_the_entries_eagerly(part: int) -> None:
    assert not differences(jobs(part, compiled=False), "eager")


@pytest.mark.timeout(900)
def test_some_of_the_entries_compiled() -> None:
    assert not differences(jobs(0, compiled=True), "compiled")


@pytest.mark.timeout(900)
def test_some_of_the_entries_have_the_bits_of_eager() -> None:
    assert not differences(jobs(1, compiled=True, bits=True), "compiled")
