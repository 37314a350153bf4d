"""Fusion around repeats and in them: a value is left out only if no other step, and no other iteration, reads it."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion import FuseSteps
from openspyre.backend.fusion.test_fuse_steps import OUT, OUT2, POOL, SLOT, USES, X, Y, mapped
from openspyre.backend.fusion.test_fuse_steps import at as fixed
from openspyre.program.model import Node, Operand, Program, Repeat, Step
from openspyre.program.tree import steps_of
from openspyre.program.verify import problems


def at(symbol: int, slot: float = 0, *advance: float) -> Operand:
    """Advances in slots."""
    return replace(fixed(symbol, slot), advance=tuple(int(by * SLOT) for by in advance))


def fused(*body: Node) -> tuple[Node, ...]:
    program = Program("p", ("x", "y", "out", "out2"), (), body, 8 * SLOT * 2, uses=USES)
    assert problems(program) == []
    found = FuseSteps().fused(program)
    assert found.problems == () and problems(found.program) == []
    return found.program.body


def names(body: tuple[Node, ...]) -> list[tuple[str, int]]:
    """Steps and how many repeats are around them."""
    return [(step.name, len(counts)) for step, counts in steps_of(body)]


def written(body: tuple[Node, ...]) -> set[tuple[int, int]]:
    return {(o.symbol, o.offset // SLOT) for step, _ in steps_of(body) for o in step.outputs}


def test_a_tile_stays_in_registers() -> None:
    (repeat,) = fused(
        Repeat(4, (mapped("a", "exp", at(X, 0, 1), at(POOL)), mapped("b", "sqrt", at(POOL), at(OUT, 0, 1))))
    )
    assert isinstance(repeat, Repeat) and repeat.count == 4
    (only,) = repeat.body
    assert isinstance(only, Step)
    assert [(o.symbol, o.advance) for o in (*only.inputs, *only.outputs)] == [(X, (SLOT,)), (OUT, (SLOT,))]


def test_steps_before_and_behind_a_repeat_are_one_if_it_does_not_mind() -> None:
    between = Repeat(2, (mapped("r", "neg", at(Y, 0, 1), at(OUT2, 0, 1)),))
    first, last = mapped("a", "exp", at(X), at(POOL)), mapped("b", "sqrt", at(POOL), at(OUT))
    assert names(fused(first, between, last)) == [("r", 1), ("b", 0)]
    reads = Repeat(2, (mapped("r", "neg", at(POOL), at(OUT2, 0, 1)),))
    assert (POOL, 0) in written(fused(first, reads, last))
    writes = Repeat(2, (mapped("r", "neg", at(Y, 0, 1), at(POOL, 0, 1)),))
    assert names(fused(first, mapped("keep", "neg", at(POOL), at(OUT2)), writes, last)) == [
        ("keep", 0),
        ("r", 1),
        ("b", 0),
    ]


def test_what_the_next_iteration_reads_is_stored() -> None:
    last = mapped("out", "neg", at(POOL), at(OUT, 0, 1)), mapped("next", "exp", at(X, 0, 1), at(POOL))
    assert names(fused(mapped("first", "abs", at(Y), at(POOL)), Repeat(3, last)))[1:] == [("out", 1), ("next", 1)]
    inner = Repeat(3, (Repeat(2, (mapped("out", "neg", at(POOL), at(OUT, 0, 0, 1)),)), last[1]))
    assert (POOL, 0) in written(fused(mapped("first", "abs", at(Y), at(POOL)), inner)[1:])


def test_what_is_read_behind_the_repeat_is_stored() -> None:
    tile = mapped("a", "exp", at(X, 0, 1), at(POOL)), mapped("b", "sqrt", at(POOL), at(OUT, 0, 1))
    assert (POOL, 0) in written(fused(Repeat(3, tile), mapped("c", "neg", at(POOL), at(OUT2))))
    assert (POOL, 0) in written(fused(Repeat(2, (Repeat(3, tile), mapped("c", "neg", at(POOL), at(OUT2, 0, 1))))))


def test_tiles_of_a_value_in_the_pool_are_stored_each() -> None:
    """Who reads them may be another iteration: what moves through the pool is handed on, and stored."""
    tiles = Repeat(
        3, (mapped("a", "exp", at(X, 0, 1), at(POOL, 1, 1)), mapped("b", "sqrt", at(POOL, 1, 1), at(OUT, 0, 1)))
    )
    kept = written(fused(tiles, mapped("c", "neg", at(POOL, 2), at(OUT2))))
    assert (POOL, 0) in kept, "nobody touches the first slot, so it goes"


def test_memory_that_moves_in_two_ways_is_left_alone() -> None:
    body = (
        mapped("a", "exp", at(X, 0, 1), at(POOL, 0, 1)),
        mapped("b", "sqrt", at(POOL, 2), at(OUT, 0, 1)),
    )
    assert fused(Repeat(3, body)) == (Repeat(3, body),)
