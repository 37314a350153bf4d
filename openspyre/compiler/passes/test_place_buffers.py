"""Placement: temps that live together never overlap, others share; everything starts at a stick and ends in the pool."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from openspyre.compiler.ir import Access, Buffer, Dim, InPool, Op, Program, Role
from openspyre.compiler.passes.place_buffers import PlaceBuffers
from openspyre.spec.layout import SpyreTensorLayout

TIGHT = PlaceBuffers(resting_percent=0, resting_bytes=0)


def temp(name: str, sticks: int) -> Buffer:
    size = (sticks * 64,)
    return Buffer(name, "float16", size, (1,), Role.TEMP, SpyreTensorLayout(list(size), "float16"))


def step(when: int, touched: list[str]) -> Op:
    """An op that touches some buffers; what it computes does not matter here."""
    accesses = tuple(Access(name, 0, (1,), "float16") for name in touched)
    return Op(f"op{when}", "add", (Dim("n", 1),), accesses[1:], accesses[:1])


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, dict[str, range]]:
    """Temps of random sizes, each alive from one op to another."""
    count = draw(st.integers(1, 12))
    lives: dict[str, range] = {}
    for number in range(draw(st.integers(1, 10))):
        first = draw(st.integers(0, count - 1))
        lives[f"t{number}"] = range(first, draw(st.integers(first, count - 1)) + 1)
    ops = tuple(
        step(when, [name for name, life in lives.items() if when in (life.start, life.stop - 1)])
        for when in range(count)
    )
    buffers = tuple(temp(name, draw(st.integers(1, 9))) for name in draw(st.permutations(list(lives))))
    return Program("p", buffers, ops), lives


@given(programs())
def test_temps_that_live_together_share_no_byte(drawn: tuple[Program, dict[str, range]]) -> None:
    program, lives = drawn
    placed = PlaceBuffers().run(program)
    taken: dict[tuple[int, int], str] = {}
    for buffer in placed.buffers:
        assert isinstance(buffer.place, InPool) and buffer.layout is not None
        first = buffer.place.byte
        assert first % 128 == 0 and first + buffer.layout.device_bytes <= placed.pool_bytes
        for when in lives[buffer.name]:
            for byte in range(first, first + buffer.layout.device_bytes, 128):
                assert taken.setdefault((when, byte), buffer.name) == buffer.name


@given(programs())
def test_placing_changes_nothing_but_places(drawn: tuple[Program, dict[str, range]]) -> None:
    program, _ = drawn
    placed = PlaceBuffers().run(program)
    assert [replace(buffer, place=None) for buffer in placed.buffers] == list(program.buffers)
    assert placed.ops == program.ops


def byte_of(program: Program, name: str) -> int:
    place = program.buffer(name).place
    assert isinstance(place, InPool)
    return place.byte


def test_temps_that_never_meet_share_memory() -> None:
    placed = TIGHT.run(chain_of(10))
    assert placed.pool_bytes == 2 * 4 * 128


def chain_of(count: int, sticks: int = 4) -> Program:
    """A temp per op, read by the next."""
    ops = tuple(step(when, [f"t{when}", f"t{when - 1}"] if when else ["t0"]) for when in range(count))
    return Program("p", tuple(temp(f"t{i}", sticks) for i in range(count)), ops)


def test_bytes_rest_before_another_temp_takes_them() -> None:
    for resting in (0, 1, 5):
        placed = PlaceBuffers(resting_percent=0, resting_bytes=resting * 4 * 128).run(chain_of(12))
        places = [placed.buffer(f"t{i}").place for i in range(12)]
        again = [later for later in range(12) for first in range(later) if places[first] == places[later]]
        assert min(again) == 2 + resting, "the temp of op 0 is read by op 1"
        assert placed.pool_bytes == (2 + resting) * 4 * 128


def test_what_rests_is_a_share_of_the_pool() -> None:
    def pool(percent: int) -> int:
        return PlaceBuffers(resting_percent=percent, resting_bytes=0).run(chain_of(12)).pool_bytes // (4 * 128)

    assert [pool(percent) for percent in (0, 49, 50, 100, 200)] == [2, 2, 3, 4, 6]


def test_bytes_rest_no_longer_than_until_a_contraction() -> None:
    chain = chain_of(12)
    ops = tuple(replace(op, row="batchmatmul") if when in (4, 8) else op for when, op in enumerate(chain.ops))
    placed = PlaceBuffers().run(replace(chain, body=ops))
    places = [byte_of(placed, f"t{i}") for i in range(12)]
    assert [place // (4 * 128) for place in places] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2]


def test_what_begins_as_whatever_lies_there_gets_memory_that_no_op_has_written() -> None:
    chain = chain_of(10)
    temps = tuple(replace(buffer, unset=buffer.name == "t7") for buffer in chain.buffers)
    placed = TIGHT.run(replace(chain, buffers=temps))
    own = placed.buffer("t7").place
    assert all(placed.buffer(f"t{i}").place != own for i in range(7))
    assert placed.buffer("t9").place == own and placed.pool_bytes == 3 * 4 * 128


def test_a_gap_is_filled_first() -> None:
    ops = (step(0, ["low", "high"]), step(1, ["high"]), step(2, ["small", "high"]))
    placed = TIGHT.run(Program("p", (temp("low", 4), temp("high", 4), temp("small", 2)), ops))
    assert placed.buffer("small").place == placed.buffer("low").place
    assert placed.pool_bytes == 8 * 128


def test_temps_nobody_touches_are_dropped_and_arguments_keep_their_own_memory() -> None:
    x = replace(temp("x", 3), role=Role.INPUT)
    placed = PlaceBuffers().run(Program("p", (x, temp("idle", 5)), (step(0, ["x"]),)))
    assert placed.buffers == (x,)
    assert placed.pool_bytes == 0


def test_alignment_is_an_option() -> None:
    ops = (step(0, ["a", "b"]),)
    placed = PlaceBuffers(alignment=4096).run(Program("p", (temp("a", 1), temp("b", 1)), ops))
    assert sorted(byte_of(placed, buffer.name) for buffer in placed.buffers) == [0, 4096]
