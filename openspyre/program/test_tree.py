"""Repeats are what their unrolled steps are, and are found again from single iterations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.program.footprint import footprints
from openspyre.program.model import Dim, LaneBlock, Map, Node, Operand, OperandKind, Program, Repeat, Step
from openspyre.program.tree import in_iteration, mapped, rolled, steps_of, unrolled
from openspyre.program.verify import problems
from openspyre.spec.ops.expression import Lane, trace

COPY = trace(lambda x: x, (Lane.FLOAT,))
STICK = 64


def at(symbol: int, stick: int, *advance: int) -> Operand:
    return Operand(OperandKind.VECTOR, symbol, stick * STICK, (STICK,), advance=tuple(by * STICK for by in advance))


def copy(source: Operand, target: Operand, name: str = "copy") -> Map:
    """Two sticks."""
    return Map(name, (Dim(2),), LaneBlock(64, 64, -1), (source,), (target,), COPY)


def program(*body: Node, pool_sticks: int = 0) -> Program:
    return Program("p", ("x", "y"), (), body, pool_sticks * 128)


TILED = program(
    Repeat(3, (copy(at(0, 0, 2), at(2, 0), "in"), Repeat(2, (copy(at(2, 0), at(1, 0, 2, 6), "out"),)))),
    copy(at(1, 0), at(0, 0), "back"),
    pool_sticks=2,
)


def test_steps_are_listed_once_with_the_counts_around_them() -> None:
    assert [(step.name, counts) for step, counts in steps_of(TILED.body)] == [
        ("in", (3,)),
        ("out", (3, 2)),
        ("back", ()),
    ]
    assert [step.name for step in TILED.steps] == ["in", "out", "back"]


def test_every_iteration_has_its_steps_when_unrolled() -> None:
    flat = unrolled(TILED)
    assert not any(isinstance(node, Repeat) for node in flat.body)
    assert [(s.name, s.inputs[0].offset // STICK, s.outputs[0].offset // STICK) for s in flat.steps] == [
        ("in", 0, 0), ("out", 0, 0), ("out", 0, 6),
        ("in", 2, 0), ("out", 0, 2), ("out", 0, 8),
        ("in", 4, 0), ("out", 0, 4), ("out", 0, 10),
        ("back", 0, 0),
    ]  # fmt: skip
    assert problems(TILED) == problems(flat) == []


def test_a_rewrite_keeps_the_tree() -> None:
    renamed = mapped(TILED.body, lambda step: replace(step, name=step.name.upper()))
    assert [(step.name, counts) for step, counts in steps_of(renamed)] == [("IN", (3,)), ("OUT", (3, 2)), ("BACK", ())]


def test_the_footprint_is_that_of_all_iterations() -> None:
    found, flat = footprints(TILED), footprints(unrolled(TILED))
    for symbol in (0, 1, 2):
        assert (found[symbol].first, found[symbol].end) == (flat[symbol].first, flat[symbol].end)
        assert found[symbol].read_first == flat[symbol].read_first
    assert (found[0].end, found[1].end, found[2].end) == (6 * 128, 12 * 128, 2 * 128)


@pytest.mark.parametrize(
    ("body", "read_first"),
    [
        ((copy(at(0, 0, 2), at(1, 0, 2)), copy(at(1, 0, 2), at(0, 0, 2))), False),  # what this iteration wrote
        ((copy(at(0, 0, 2), at(1, 0, 2)), copy(at(1, 2, 2), at(0, 0, 2))), True),  # what the next one will write
        ((copy(at(0, 0, 2), at(1, 0, 2)), copy(at(1, 4, -2), at(0, 0, 2))), True),  # from the end: not yet written
        ((copy(at(1, 0), at(0, 0, 2)), copy(at(0, 0), at(1, 0))), True),  # written behind the first read
        ((copy(at(0, 0), at(1, 0)), Repeat(2, (copy(at(1, 0), at(0, 0, 0, 2)),))), False),
        ((Repeat(2, (copy(at(0, 0), at(1, 0, 4, 2)),)), copy(at(1, 0, 4), at(0, 0)), copy(at(1, 2, 4), at(0, 2))), False),
    ],
)  # fmt: skip
def test_a_repeat_reads_first_what_no_step_before_it_wrote(body: tuple[Node, ...], read_first: bool) -> None:
    repeated = program(Repeat(3, body))
    assert footprints(repeated)[1].read_first == footprints(unrolled(repeated))[1].read_first == read_first


def test_steps_of_single_iterations_roll_up() -> None:
    step = copy(at(0, 1, 2, -1), at(1, 30, 0, 3))
    found = rolled(lambda iterations: [in_iteration(step, iterations)], (4, 2))
    assert found == (step,)
    assert rolled(lambda iterations: [in_iteration(step, iterations)], (1, 1)) == (in_iteration(step, (0, 0)),)


def test_what_changes_from_iteration_to_iteration_does_not_roll_up() -> None:
    def squares(iterations: tuple[int, ...]) -> list[Step]:
        return [copy(at(0, iterations[0] ** 2), at(1, 0))]

    def growing(iterations: tuple[int, ...]) -> list[Step]:
        return [copy(at(0, 0), at(1, 0))] * (1 + iterations[0])

    def longer_at_the_end(iterations: tuple[int, ...]) -> list[Step]:
        step = copy(at(0, 0), at(1, 0))
        return [replace(step, dims=(Dim(4),)) if iterations[0] == 3 else step]

    def within_sticks(iterations: tuple[int, ...]) -> list[Step]:
        return [copy(replace(at(0, 0), offset=iterations[0]), at(1, 0))]

    for lower in (squares, growing, longer_at_the_end, within_sticks):
        assert rolled(lower, (4,)) is None


@pytest.mark.parametrize(
    ("spoilt", "problem"),
    [
        (program(Repeat(0, (copy(at(0, 0), at(1, 0)),))), "a repeat of 1 nodes, 0 times"),
        (program(Repeat(3, ())), "a repeat of 0 nodes, 3 times"),
        (program(Repeat(1 << 20, (Repeat(1 << 20, (copy(at(0, 0), at(1, 0)),)),))), "run their body 1099511627776 times"),
        (program(copy(at(0, 0, 1), at(1, 0))), "step 0 'copy': input 0 moves with 1 repeats, there are 0 around the step"),
        (program(Repeat(2, (copy(at(0, 0), at(1, 0, 1, 1)),))), "output 0 moves with 2 repeats, there are 1"),
        (program(Repeat(3, (copy(at(0, 2, -2), at(1, 0)),))), "step 0 'copy': input 0 begins 256 bytes before x"),
        (program(Repeat(3, (copy(at(0, 0), at(2, 0, 1)),)), pool_sticks=3), "output 0 reaches byte 511 of the pool, which has 384"),
    ],
)  # fmt: skip
def test_a_loop_that_never_ends_or_leaves_its_buffer_is_named(spoilt: Program, problem: str) -> None:
    assert any(problem in line for line in problems(spoilt)), problems(spoilt)
    assert problems(program(Repeat(3, (copy(at(0, 0), at(2, 0, 1)),)), pool_sticks=4)) == []
