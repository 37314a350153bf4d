"""Values in scratch memory: who reads what, though bytes are used again, written in parts, or never written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from openspyre.backend.fusion.memory import Listed, Touch
from openspyre.backend.fusion.stick_map import StickMap, Sticks, sticks_of
from openspyre.backend.fusion.values import Home, Values, values_of
from openspyre.program.model import Dim, LaneBlock, Operand, OperandKind, Scatter
from openspyre.program.reach import Piece, pieces
from openspyre.spec.ops.expression import Lane, trace

X, POOL = 0, 1
ROW = 64 * 2  # bytes of a row of one stick


def at(first_row: int, stride: int = 64, symbol: int = POOL, kind: OperandKind = OperandKind.VECTOR) -> Operand:
    return Operand(kind, symbol, first_row * 64, (stride,))


def moved(source: Operand, target: Operand, rows: int = 4, lanes: int = 64) -> Touch:
    return Touch("m", (Dim(rows),), LaneBlock(64, lanes, -1), (source,), (target,))


def values(*steps: Listed) -> Values:
    found = values_of(steps, 2, frozenset({POOL}))
    assert found is not None
    return found


def test_bytes_that_are_written_again_hold_another_value() -> None:
    out = at(0, symbol=X)
    found = values(moved(out, at(0)), moved(at(0), out), moved(out, at(0)), moved(at(0), out))
    assert found.outputs == ((2,), (X,), (3,), (X,))
    assert found.inputs == ((X,), (2,), (X,), (3,))
    assert found.homes == {2: Home(POOL, 0), 3: Home(POOL, 0)}


def test_a_value_of_several_writes_is_what_is_read_together() -> None:
    out = at(0, symbol=X)
    found = values(moved(out, at(4)), moved(out, at(8)), moved(at(4), at(20), 8), moved(out, at(8)), moved(at(8), out))
    assert found.outputs[:2] == ((2,), (2,)), "both are read by the third"
    assert found.inputs[2] == (2,) and found.outputs[2] == (3,)
    assert found.outputs[3] == found.inputs[4] == (4,), "the bytes of the second, but nobody reads the two together"
    assert [found.homes[value].begin for value in (2, 3, 4)] == [4 * ROW, 20 * ROW, 8 * ROW]


def test_a_write_between_the_rows_of_another_leaves_them() -> None:
    """Every other row: by their outer bounds the two overlap."""
    out = at(0, symbol=X)
    even, odd = at(0, 128), at(1, 128)
    found = values(moved(out, even), moved(out, odd), moved(even, out), moved(odd, out))
    assert found.inputs[2:] == ((2,), (3,))
    together = values(moved(out, even), moved(out, odd), moved(at(0), out, 8))
    assert together.outputs[:2] == ((2,), (2,))


def test_a_write_of_some_lanes_leaves_the_others() -> None:
    out = at(0, symbol=X)
    steps = moved(out, at(0)), moved(out, at(0), lanes=30), moved(at(0), out, lanes=30), moved(at(0), out, lanes=31)
    assert values(*steps[:3]).inputs[2] == (3,), "what was there before is not seen"
    assert values(steps[0], steps[1], steps[3]).outputs[:2] == ((2,), (2,))


def test_two_results_per_row_share_their_sticks() -> None:
    out = at(0, symbol=X, kind=OperandKind.SPLAT)
    first, second = (replace(at(0, kind=OperandKind.SPLAT), offset=lane) for lane in (0, 1))
    found = values(moved(out, first), moved(out, second), moved(first, out), moved(second, out))
    assert found.inputs[2:] == ((2,), (3,))


def test_what_nobody_wrote_is_no_value() -> None:
    found = values(moved(at(0), at(8)), moved(at(8), at(0, symbol=X)))
    assert found.inputs == ((POOL,), (2,))


def test_a_scatter_may_leave_what_was_there() -> None:
    out, index = at(0, symbol=X), replace(at(0, symbol=X), dtype="int64", data_format="IEEE_INT32")
    nest = replace(moved(out, at(0, 0)), inputs=(out, index))
    into = Scatter(*nest.head, trace(lambda x: x, (Lane.FLOAT,)), index_stride=64, index_bound=4, accumulate=False)
    found = values(moved(out, at(0)), into, moved(at(0), out))
    assert found.outputs[0] == found.outputs[1] == found.inputs[2] == (2,)


def test_too_much_to_look_at_is_left_alone() -> None:
    far = replace(moved(at(0, symbol=X), at(0, 128)), dims=(Dim(1 << 23),))
    assert values_of((far,), 2, frozenset({POOL})) is None
    assert values_of((moved(at(0, symbol=X), at(-1)),), 2, frozenset({POOL})) is None


@given(
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(1, 4), st.integers(-40, 200)), max_size=3),
    st.integers(1, 200),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 3),
)
def test_sticks_hold_all_bytes_of_a_piece_and_if_exact_no_other(
    first: int, grid: list[tuple[int, int]], run: int, size: int, begin: int
) -> None:
    piece = Piece(first, tuple(grid), run)
    touched = np.array([0])
    for count, stride in grid:
        touched = (touched[:, None] + (np.arange(count) * stride)[None, :]).reshape(-1)
    elements = (begin + first + touched)[:, None] + np.arange(run)
    wanted = {int(e) * size + b for e in np.unique(elements) for b in range(size)}
    found = sticks_of(piece, begin * size, size)
    bytes_ = {
        int(stick) * 128 + byte
        for start in found.starts()
        for stick in range(int(start), int(start) + found.run)
        for byte in range(found.low, found.high)
    }
    assert wanted <= bytes_
    assert not found.exact or wanted == bytes_


ACCESSES = st.builds(
    lambda first, count, stride, run, low, width, exact: Sticks(
        first, ((count, stride),) if count > 1 else (), run, low * 16, min(128, (low + width) * 16), exact
    ),
    st.integers(0, 9), st.integers(1, 3), st.integers(1, 5), st.integers(1, 4), st.integers(0, 7), st.integers(1, 8),
    st.booleans(),
)  # fmt: skip


@given(st.lists(st.tuples(st.booleans(), ACCESSES), max_size=12))
def test_writers_are_those_of_every_byte(accesses: list[tuple[bool, Sticks]]) -> None:
    """Against a list of who may have written each byte; nobody who did is left out."""
    sticks = StickMap([access for _, access in accesses])
    written: dict[int, set[int]] = {}
    for writes, access in accesses:
        bytes_ = [
            int(stick) * 128 + byte
            for start in access.starts()
            for stick in range(int(start), int(start) + access.run)
            for byte in range(access.low, access.high)
        ]
        if writes:
            number = sticks.write(access)
            for byte in bytes_:
                written[byte] = {number} | (set() if access.exact else written.get(byte, set()))
        else:
            assert set().union(*(written.get(byte, set()) for byte in bytes_)) <= sticks.writers(access)


def test_the_lanes_of_a_last_block_are_counted() -> None:
    operand = Operand(OperandKind.VECTOR, 0, 0, (64, 640))
    step = Touch("s", (Dim(10), Dim(3)), LaneBlock(64, 150, 1), (operand,), (operand,))
    assert sum(_elements(piece) for piece in pieces(step, 0, output=True)) == 10 * 150
    padded = replace(step, lane=LaneBlock(64, 150, 1, store_padding=True))
    assert sum(_elements(piece) for piece in pieces(padded, 0, output=True)) == 10 * 3 * 64
    assert sum(_elements(piece) for piece in pieces(padded, 0, output=False)) == 10 * 150


def _elements(piece: Piece) -> int:
    return piece.run * int(np.prod([count for count, _ in piece.grid]))
