"""The op table holds together: every row can be traced for the lanes it takes, names lead to one row, words are there."""

from __future__ import annotations

from inspect import signature

import pytest

from openspyre.spec.ops import ALL_ROWS, TABLE, Kind, Row
from openspyre.spec.ops.expression import Lane, trace

COMPUTED = [row for row in TABLE.values() if row.kind in (Kind.POINTWISE, Kind.REDUCTION)]


def lanes_of(row: Row) -> list[Lane]:
    return [
        lane for lane, taken in ((Lane.FLOAT, row.floats), (Lane.INT, row.integers), (Lane.BOOL, row.integers)) if taken
    ]


@pytest.mark.parametrize("row", COMPUTED, ids=lambda row: row.name)
def test_a_row_computes_with_every_lane_it_takes(row: Row) -> None:
    assert lanes_of(row)
    if row.body is None:
        assert row.fold is not None
        return
    for lane in lanes_of(row):
        if row.name == "masked_fill" or (row.name == "neg" and lane is Lane.BOOL):
            continue
        code = trace(row.body, (lane,) * (row.operands + len(row.scalars)))
        assert len(code.results) == 1


@pytest.mark.parametrize("row", [row for row in COMPUTED if row.finish], ids=lambda row: row.name)
def test_a_finish_takes_the_total_and_at_most_the_share(row: Row) -> None:
    assert row.finish is not None
    assert 1 <= len(signature(row.finish).parameters) <= 2 + len(row.scalars)


def test_every_row_says_what_it_does() -> None:
    assert all(row.summary and row.artifact and row.name == name for name, row in TABLE.items())
    assert all(row.ulps >= 1 for row in TABLE.values())


def test_two_rows_of_one_overload_differ_in_what_they_ask_of_its_arguments() -> None:
    """Only the last of them may ask for nothing: it takes what is left."""
    served: dict[str, list[Row]] = {}
    for row in COMPUTED:
        for name in row.aten:
            served.setdefault(name, []).append(row)
    for name, rows in served.items():
        assert all(row.fixed for row in rows[:-1]), name
        assert len({row.fixed for row in rows}) == len(rows), name


def test_documented_rows_have_a_documented_name() -> None:
    assert not any("openspyre." in row.artifact for row in TABLE.values() if row.documented)


def test_no_name_stands_twice() -> None:
    names = [row.name for row in ALL_ROWS]
    assert sorted(set(names)) == sorted(names)
