"""Repeats on the card: any tree of them leaves the memory that numpy leaves, iteration by iteration, and that its unrolled steps leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre.card import cards, programs
from openspyre.program.model import Dim, LaneBlock, Map, Node, Operand, OperandKind, Program, Repeat, Space
from openspyre.program.text import parse_program, print_program
from openspyre.program.tree import in_iteration, unrolled
from openspyre.program.verify import problems
from openspyre.spec.errors import InvalidArgument, SanitizerFinding
from openspyre.spec.ops.expression import Lane, trace

SUM = trace(lambda a, b: a + b, (Lane.INT, Lane.INT))
STICK, STICKS = 32, 40  # words of a stick, sticks of a buffer
NAMES = ("x", "y", "z")
Memory = dict[tuple[Space, int], NDArray[np.int32]]


def at(symbol: int, stick: int, strides: tuple[int, ...], advance: tuple[int, ...], space: Space) -> Operand:
    by = tuple(step * STICK for step in advance)
    moves = tuple(step * STICK for step in strides)
    return Operand(OperandKind.VECTOR, symbol, stick * STICK, moves, 0, "int32", "IEEE_INT32", space, -1, by)


@st.composite
def operands(draw: st.DrawFn, dims: tuple[int, ...], counts: tuple[int, ...], symbol: int, space: Space) -> Operand:
    """Somewhere in its buffer in every iteration."""
    strides = tuple(draw(st.integers(1, 3)) for _ in dims)
    advance = tuple(draw(st.integers(-3, 3)) for _ in counts)[: draw(st.integers(0, len(counts)))]
    reaches = [(extent - 1) * stride for extent, stride in zip(dims, strides, strict=True)]
    moved = [(count - 1) * by for count, by in zip(counts, advance, strict=False)]
    low, high = sum(min(0, r) for r in moved), sum(reaches) + sum(max(0, r) for r in moved)
    if high - low >= STICKS:
        advance, low, high = (), 0, sum(reaches)
    return at(symbol, draw(st.integers(-low, STICKS - 1 - high)), strides, advance, space)


@st.composite
def steps(draw: st.DrawFn, counts: tuple[int, ...]) -> Map:
    dims = (draw(st.integers(1, 4)),)
    places = [(symbol, Space.MEMORY) for symbol in range(4)] + [(0, Space.SCRATCHPAD)]
    target = draw(st.sampled_from(places))
    out = draw(operands(dims, counts, *target))
    others = [place for place in places if place != target]
    first = draw(operands(dims, counts, *draw(st.sampled_from(others))))
    second = out if draw(st.booleans()) else draw(operands(dims, counts, *draw(st.sampled_from(others))))
    return sum_of(first, second, out, dims)


def sum_of(first: Operand, second: Operand, out: Operand, dims: tuple[int, ...] = (1,), name: str = "sum") -> Map:
    nest = tuple(Dim(extent) for extent in dims)
    return Map(name, nest, LaneBlock(STICK, STICK, -1), (first, second), (out,), SUM)


@st.composite
def bodies(draw: st.DrawFn, counts: tuple[int, ...] = ()) -> tuple[Node, ...]:
    found: list[Node] = []
    for _ in range(draw(st.integers(1, 3))):
        if len(counts) < 3 and draw(st.booleans()):
            count = draw(st.integers(1, 4))
            found.append(Repeat(count, draw(bodies((*counts, count)))))
        else:
            found.append(draw(steps(counts)))
    return tuple(found)


def interpret(body: tuple[Node, ...], memory: Memory, iterations: tuple[int, ...] = ()) -> None:
    """What the tree says, on numpy arrays."""
    for node in body:
        match node:
            case Repeat(count, inner):
                for index in range(count):
                    interpret(inner, memory, (*iterations, index))
            case Map(dims=(dim,), inputs=inputs, outputs=(out,)):
                total = [sum(sticks(memory, o, i, iterations) for o in inputs) for i in range(dim.extent)]
                for i, values in enumerate(total):
                    sticks(memory, out, i, iterations)[:] = values


def sticks(memory: Memory, operand: Operand, index: int, iterations: tuple[int, ...]) -> NDArray[np.int32]:
    moved = sum(by * k for by, k in zip(operand.advance, iterations, strict=False))
    first = operand.offset + index * operand.strides[0] + moved
    return memory[operand.space, operand.symbol][first : first + STICK]


def on_the_card(program: Program, images: dict[str, bytes]) -> tuple[bytes, ...]:
    """The arguments' memory after a launch."""
    card = cards.get()
    card.clear_scratchpads()
    buffers = {name: card.allocate(len(image)) for name, image in images.items()}
    for name, image in images.items():
        buffers[name].write_memory(image)
    loaded = programs.load(program)
    try:
        loaded.run(buffers, {}, card.index)
    finally:
        loaded.unload()
    return tuple(buffer.read_memory() for buffer in buffers.values())


def whole(symbol: int, space: Space = Space.MEMORY) -> Operand:
    return at(symbol, 0, (1,), (), space)


# The pool and the scratchpad begin as sums of arguments.
FILL = (
    sum_of(whole(0), whole(1), whole(3), (STICKS,), "pool"),
    sum_of(whole(1), whole(2), whole(0, Space.SCRATCHPAD), (STICKS,), "scratchpad"),
)


@settings(max_examples=80, deadline=None)
@given(bodies(), st.integers(0, 2**32 - 1))
def test_a_tree_does_what_its_iterations_do_one_by_one(body: tuple[Node, ...], seed: int) -> None:
    program = Program("tree", NAMES, (), (*FILL, *body), STICKS * 128)
    assert problems(program) == []
    values = np.random.default_rng(seed).integers(-(2**31), 2**31, (3, STICKS * STICK), dtype=np.int64).astype(np.int32)
    images = {name: values[place].tobytes() for place, name in enumerate(NAMES)}
    memory: Memory = {(Space.MEMORY, place): values[place].copy() for place in range(3)}
    memory[Space.MEMORY, 3] = np.zeros(STICKS * STICK, np.int32)
    memory[Space.SCRATCHPAD, 0] = np.zeros(STICKS * STICK, np.int32)
    interpret(program.body, memory)
    found = on_the_card(program, images)
    assert found == tuple(memory[Space.MEMORY, place].tobytes() for place in range(3))
    assert on_the_card(unrolled(program), images) == found


def tile(advance: tuple[int, ...] = (1,)) -> Map:
    return sum_of(at(0, 0, (1,), advance, Space.MEMORY), at(1, 0, (1,), (), Space.MEMORY), whole(2), name="tile")


def test_a_thousand_iterations_are_one_step_of_the_text() -> None:
    moving = sum_of(at(0, 0, (1,), (1,), Space.MEMORY), whole(2), whole(2))
    program = Program("long", NAMES, (), (Repeat(1000, (moving,)),))
    assert len(print_program(program).splitlines()) < 12
    values = np.arange(1000 * STICK, dtype=np.int32)
    images = {"x": values.tobytes(), "y": bytes(128), "z": bytes(128)}
    found = on_the_card(parse_program(print_program(program)), images)
    assert found[2] == values.reshape(1000, STICK).sum(axis=0, dtype=np.int32).tobytes()


def test_the_card_refuses_repeats_that_cannot_be() -> None:
    for body, problem in (
        ((Repeat(0, (tile(),)),), "at least once"),
        ((Repeat(1 << 30, (tile(()),)),), "at most 16777216 times"),
        ((tile(),), "input 0 moves with 1 repeats, there are 0 around the step"),
        ((Repeat(2, ()), tile(())), "neither apart nor in each other"),
        (
            (Repeat(9, (replace(tile(()), outputs=(at(0, 0, (1,), (2048,), Space.SCRATCHPAD),)),)),),
            "of the scratchpad, which has 2097152 per core",
        ),
        ((Repeat(1 << 24, (tile((1 << 40,)),)),), "moves beyond any card"),
    ):
        with pytest.raises(InvalidArgument, match=problem):
            programs.load(Program("spoilt", NAMES, (), body))


def test_a_repeat_that_leaves_the_card_runs_not_even_once() -> None:
    card = cards.get()
    buffers = {name: card.allocate(128) for name in NAMES}
    for buffer in buffers.values():
        buffer.write_memory(bytes(range(128)))
    loaded = programs.load(Program("far", NAMES, (), (Repeat(1 << 20, (tile((1 << 20,)),)),)))
    with pytest.raises(InvalidArgument):
        loaded.run(buffers, {}, card.index)
    assert buffers["z"].read_memory() == bytes(range(128))


def test_the_sanitizer_sees_every_iteration() -> None:
    if not cards.settings_in_force().sanitize:
        pytest.skip("the sanitizer is off: set OPENSPYRE_SANITIZE=1, as `make test` does")
    program = Program("tiles", NAMES, (), (Repeat(2, (Repeat(3, (tile((3, 1)),)),)),))
    images = {"x": bytes(5 * 128), "y": bytes(128), "z": bytes(128)}
    with pytest.raises(SanitizerFinding, match=r"step 0 'tile', iteration 1\.2"):
        on_the_card(program, images)
    assert in_iteration(program.steps[0], (1, 2)).inputs[0].offset == 5 * STICK
