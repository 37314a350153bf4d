"""Solvers: what must hold of any plan, on random requests; the documents' worked examples; and the pool."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openspyre.compiler.scratchpad.exact import exact, parts_apart
from openspyre.compiler.scratchpad.pool import planned_pool
from openspyre.compiler.scratchpad.request import Request, Room, problems
from openspyre.compiler.scratchpad.solvers import SOLVERS, greedy_then_exact
from openspyre.spec.machine import SPYRE
from openspyre.spec.resting_pool import Life

ROOM = Room(SPYRE.scratchpad_planned_bytes_per_core)


@st.composite
def requests(draw: st.DrawFn) -> list[Request]:
    """A chain of ops: each writes a tensor, some of them in place of what they read last; inputs are read at least twice."""
    found: list[Request] = []
    count = draw(st.integers(1, 9))
    for number in range(count):
        start = draw(st.integers(0, 12))
        ticks = sorted({start, *(start + draw(st.integers(1, 6)) for _ in range(draw(st.integers(1, 3))))})
        written = draw(st.booleans()) or len(ticks) < 2
        found.append(Request(f"t{number}", 128 * draw(st.integers(1, 8)), tuple(ticks), written, draw(st.booleans())))
    pairs = [(c, p) for c, p in product(range(count), repeat=2) if c != p and found[c].start == found[p].end - 1]
    for child, parent in pairs:
        if found[child].written and found[child].start > found[parent].start and draw(st.booleans()):
            one = found[child]
            parents = (*one.parents, found[parent].name)
            found[child] = Request(one.name, one.size, one.uses, True, one.kept, parents)
    return found


@pytest.mark.parametrize("name", sorted(SOLVERS))
@given(asked=requests(), capacity=st.integers(1, 24))
@settings(max_examples=60, deadline=None)
def test_a_plan_holds(name: str, asked: list[Request], capacity: int) -> None:
    room = Room(128 * capacity)
    plan = SOLVERS[name](asked, room)
    assert problems(asked, plan.places, room) == []
    assert {*plan.places, *plan.spilled} == {request.name for request in asked}
    assert not {*plan.places} & {*plan.spilled}
    assert SOLVERS[name](asked, room) == plan
    assert all("full at step" in why or "too large" in why for why in plan.spilled.values())


@given(asked=requests(), capacity=st.integers(1, 24))
@settings(max_examples=120, deadline=None)
def test_the_exact_solver_is_never_worse_and_its_bound_holds(asked: list[Request], capacity: int) -> None:
    room = Room(128 * capacity)
    best = exact(asked, room)
    others = [solve(asked, room).traffic(asked) for solve in SOLVERS.values()]
    assert best.traffic(asked) <= min(others)
    assert best.bound <= best.traffic(asked)
    assert not best.proven or best.bound == best.traffic(asked)


@given(asked=requests(), capacity=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_no_choice_of_places_on_a_grid_beats_what_the_exact_solver_proves(asked: list[Request], capacity: int) -> None:
    """By brute force over all places of at most four tensors: an oracle that knows nothing of stacking."""
    asked = [
        Request(
            r.name, r.size, r.uses, r.written, r.kept, tuple(p for p in r.parents if p in {a.name for a in asked[:4]})
        )
        for r in asked[:4]
    ]
    room = Room(128 * min(capacity, 8))
    best = exact(asked, room, steps=100_000)
    assert best.proven
    spots = [[None, *range(0, room.capacity - r.size + 1, 128)] for r in asked]
    least = sum(r.traffic for r in asked)
    for chosen in product(*spots):
        cost = sum(r.traffic for r, place in zip(asked, chosen, strict=True) if place is None)
        places = {r.name: place for r, place in zip(asked, chosen, strict=True) if place is not None}
        if cost < least and not problems(asked, places, room):
            least = cost
    assert best.traffic(asked) == least


def test_a_limit_on_the_search_is_kept_and_said() -> None:
    asked = [Request(f"t{n}", 128 * (3 + n % 5), (n, n + 7)) for n in range(14)]
    room = Room(128 * 12)
    plan = exact(asked, room, steps=5)
    assert not plan.proven and plan.bound < plan.traffic(asked) and problems(asked, plan.places, room) == []


def test_softmax_lies_as_the_documents_say() -> None:
    """64 x 256 over 32 cores: copy of the input at 256, max at 0, sub and exp in the copy's place, sum at 0."""
    asked = [
        Request("max", 256, (0, 1)),
        Request("sub", 1024, (1, 2), parents=("x",)),
        Request("exp", 1024, (2, 3, 4), parents=("sub",)),
        Request("sum", 256, (3, 4)),
        Request("x", 1024, (0, 1), written=False),
    ]
    plan = SOLVERS["greedy"](asked, ROOM)
    assert plan.places == {"max": 0, "x": 256, "sub": 256, "exp": 256, "sum": 0}


def test_the_tiles_of_the_documents_lie_as_they_say() -> None:
    """[512, 1024] tiles of (a + b) * c on 4 cores."""
    size = 512 * 1024 * 2 // 4
    asked = [
        Request("a_tile", size, (0, 2)),
        Request("b_tile", size, (1, 2)),
        Request("y", size, (2, 4), parents=("a_tile", "b_tile")),
        Request("c_tile", size, (3, 4)),
        Request("z_tile", size, (4, 5), parents=("y", "c_tile")),
    ]
    plan = SOLVERS["greedy"](asked, ROOM)
    assert plan.places == {"a_tile": 0, "b_tile": 262144, "y": 0, "c_tile": 262144, "z_tile": 0}


def test_a_tensor_and_its_copy_in_another_division_are_placed_together() -> None:
    """A product at 0, its copy behind it although that begins later, and what comes between above both."""
    asked = [
        Request("mm", 2048, (1, 4), group="mm"),
        Request("mul", 2048, (3, 5)),
        Request("mm_copy", 2048, (4, 5), group="mm"),
    ]
    assert SOLVERS["greedy"](asked, ROOM).places == {"mm": 0, "mm_copy": 2048, "mul": 4096}
    tight = SOLVERS["greedy"](asked, Room(3000))
    assert tight.places == {"mul": 0}
    assert tight.spilled["mm"].startswith("its partner 'mm_copy' has no room: full at step 4")


def test_traffic_counts_what_memory_moves() -> None:
    assert Request("t", 128, (0, 1, 2)).traffic == 3 * 128  # one write, two reads
    assert Request("out", 128, (0, 1, 2), kept=True).traffic == 2 * 128  # it is written to memory anyway
    assert Request("x", 128, (0, 1, 2), written=False).traffic == 2 * 128  # it is read once anyway


def test_the_pool_splits_blocks_and_joins_none() -> None:
    """Temporaries of a SwiGLU block as the reference's front end has them: 155648 bytes."""
    lives = [
        Life("mul_6", 6, 8, 8, 8192),
        Life("w1", 7, 8, 8, 65536),
        Life("mm_8", 8, 9, 9, 16384),
        Life("mul_15", 15, 17, 17, 8192),
        Life("w2", 16, 17, 17, 65536),
        Life("mm_17", 17, 18, 18, 16384),
        Life("mul_18", 18, 20, 20, 16384),
        Life("w3", 19, 20, 20, 65536),
        Life("mm_20", 20, 21, 21, 8192),
    ]
    places, extent = planned_pool(lives)
    assert extent == 155648
    assert places["mul_18"] == 8192 and places["w3"] == 90112
    assert places["mm_20"] == 0  # the first block in the list that is large enough


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(1, 9)), max_size=12),
)
@settings(max_examples=100, deadline=None)
def test_the_pool_never_gives_a_byte_twice(lives: list[tuple[int, int, int]]) -> None:
    asked = [
        Life(f"t{n}", first, first + length, first + length, 128 * size)
        for n, (first, length, size) in enumerate(lives)
    ]
    places, extent = planned_pool(asked)
    for one, other in product(asked, repeat=2):
        if one is not other and one.first <= other.last and other.first <= one.last:
            a, b = places[one.name], places[other.name]
            assert a + one.bytes <= b or b + other.bytes <= a
    assert all(places[life.name] + life.bytes <= extent for life in asked)


def test_what_never_lives_together_is_solved_apart() -> None:
    """Eight blocks, of each of which two of three tensors fit: together they are 3 ** 8 choices, apart a handful."""
    blocks = [[Request(f"{n}.{i}", 128 * (4 + i), (10 * n, 10 * n + 5)) for i in range(3)] for n in range(8)]
    requests = [request for block in blocks for request in block]
    assert parts_apart(requests) == blocks
    plan = exact(requests, Room(128 * 11), steps=100)
    assert plan.proven and plan.traffic(requests) == plan.bound == 8 * 2 * 128 * 4  # the smallest of each is left out


def test_greedy_is_helped_where_it_leaves_something_out() -> None:
    """In the order in which they begin, the long small one takes the room of the large one behind it."""
    requests = [Request("small", 128, (0, 9)), Request("large", 256, (1, 2))]
    room = Room(256)
    assert SOLVERS["greedy"](requests, room).traffic(requests) == 2 * 256
    assert greedy_then_exact(requests, room).traffic(requests) == 2 * 128
