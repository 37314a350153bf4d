"""A pool has the bytes that steps touch: gaps are closed, what lies together stays together, results do not change."""

from __future__ import annotations

from openspyre.backend.fusion.idle_bytes import without_idle_bytes
from openspyre.backend.fusion.test_fuse_steps import OUT, OUT2, POOL, SLOT, USES, X, mapped
from openspyre.backend.fusion.test_repeats import at
from openspyre.program.model import Node, Program, Repeat
from openspyre.program.tree import steps_of
from openspyre.program.verify import problems

BYTES = 2 * SLOT  # of a slot of float16


def closed(*body: Node, slots: int = 16) -> Program:
    program = Program("p", ("x", "y", "out", "out2"), (), body, slots * BYTES, uses=USES)
    found = without_idle_bytes(program)
    assert problems(program) == problems(found) == []
    return found


def places(program: Program) -> list[list[float]]:
    """In slots of the pool, per step."""
    return [
        [o.offset / SLOT for o in (*step.inputs, *step.outputs) if o.symbol == POOL]
        for step, _ in steps_of(program.body)
    ]


def test_a_gap_goes_and_what_was_written_is_read_where_it_went() -> None:
    found = closed(mapped("a", "exp", at(X), at(POOL, 9)), mapped("b", "neg", at(POOL, 9), at(OUT)))
    assert places(found) == [[0], [0]] and found.pool_bytes == BYTES


def test_values_that_share_bytes_keep_their_distance() -> None:
    found = closed(
        mapped("low", "exp", at(X), at(POOL, 1)),
        mapped("a", "exp", at(X), at(POOL, 8)),
        mapped("b", "exp", at(X), at(POOL, 8.5)),
        mapped("c", "neg", at(POOL, 8.5), at(OUT)),
    )
    assert places(found) == [[0], [1], [1.5], [1.5]] and found.pool_bytes == 2.5 * BYTES


def test_what_moves_in_a_repeat_has_room_for_all_iterations() -> None:
    found = closed(
        mapped("first", "exp", at(X), at(POOL, 2)),
        Repeat(3, (mapped("tile", "exp", at(X, 0, 1), at(POOL, 6, 1)),)),
        mapped("last", "neg", at(POOL, 8), at(OUT)),
        mapped("kept", "neg", at(POOL, 2), at(OUT2)),
    )
    assert places(found) == [[0], [1], [3], [0]] and found.pool_bytes == 4 * BYTES


def test_a_pool_without_a_gap_is_left_as_it_is() -> None:
    body = mapped("a", "exp", at(X), at(POOL)), mapped("b", "neg", at(POOL), at(OUT))
    assert closed(*body).body == body and closed(*body).pool_bytes == BYTES
    assert closed(mapped("a", "exp", at(X), at(OUT))).pool_bytes == 0
