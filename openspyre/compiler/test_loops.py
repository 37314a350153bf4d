"""Loops in the IR: what their iterations are, how long buffers live around them, and what the verifier finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.compiler.ir import Access, Buffer, Dim, InPool, Loop, Node, Op, Program, Role
from openspyre.compiler.loops import ends, lifetimes, listed, unrolled
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.passes.drop_dead import DropDead
from openspyre.compiler.passes.place_buffers import PlaceBuffers
from openspyre.compiler.verify import Verifier
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.layout import SpyreTensorLayout

DIMS = (Dim("m", 4), Dim("n", 64))


def buffer(name: str, rows: int, role: Role) -> Buffer:
    return Buffer(name, "float16", (rows, 64), (64, 1), role, SpyreTensorLayout([rows, 64], "float16"))


def at(name: str, *advance: int, offset: int = 0) -> Access:
    return Access(name, offset, (64, 1), "float16", advance)


def neg(name: str, source: Access, target: Access) -> Op:
    return Op(name, "neg", DIMS, (source,), (target,))


BUFFERS = (
    buffer("x", 12, Role.INPUT),
    buffer("t", 4, Role.TEMP),
    buffer("u", 4, Role.TEMP),
    buffer("v", 4, Role.TEMP),
    buffer("y", 12, Role.OUTPUT),
)
# Three tiles of four rows. v dies before the loop; t and u live in it, whichever op of it is at work.
TILED = Program(
    "tiled",
    BUFFERS,
    (
        neg("before", at("x"), at("v")),
        neg("between", at("v"), at("y")),
        Loop(3, (neg("in", at("x", 256), at("t")), neg("mid", at("t"), at("u")), neg("out", at("u"), at("y", 256)))),
    ),
)


def test_every_iteration_has_ops_of_its_own_when_unrolled() -> None:
    flat = unrolled(TILED)
    assert [(op.name, op.inputs[0].offset, op.outputs[0].offset) for op in flat.ops[2:] if isinstance(op.inputs[0], Access)] == [
        ("in.0", 0, 0), ("mid.0", 0, 0), ("out.0", 0, 0),
        ("in.1", 256, 0), ("mid.1", 0, 0), ("out.1", 0, 256),
        ("in.2", 512, 0), ("mid.2", 0, 0), ("out.2", 0, 512),
    ]  # fmt: skip
    assert Verifier().problems(TILED) == Verifier().problems(flat) == []


def test_a_pass_that_knows_no_loops_says_so() -> None:
    with pytest.raises(InvalidArgument, match="program 'tiled' has loops where ops alone are asked for"):
        DropDead().run(TILED)


def test_buffers_of_a_loop_live_as_long_as_it_runs() -> None:
    assert lifetimes(TILED) == {"x": (0, 4), "v": (0, 1), "y": (1, 4), "t": (2, 4), "u": (2, 4)}
    placed = PlaceBuffers(resting_percent=0, resting_bytes=0).run(TILED)
    places = {b.name: b.place for b in placed.buffers}
    assert places["t"] != places["u"] and places["v"] in (places["t"], places["u"])
    assert Verifier(lowered=True).problems(placed) == []


def test_temps_of_a_loop_share_no_bytes() -> None:
    """Even where one is dead before the other is born: a loop is counted as a whole."""
    placed = replace(
        TILED, buffers=tuple(replace(b, place=InPool(0)) if b.role is Role.TEMP else b for b in BUFFERS), pool_bytes=512
    )
    assert any("'t' and 'u' live at the same time" in line for line in Verifier(lowered=True).problems(placed))


def test_ops_in_loops_are_divided_like_others() -> None:
    divided = DivideWork().run(TILED)
    assert [(op.dims[0].split, counts) for op, counts in listed(divided.body)] == [
        (4, ()),
        (4, ()),
        (4, (3,)),
        (4, (3,)),
        (4, (3,)),
    ]


def test_what_tells_all_iterations() -> None:
    assert ends((4, 2)) == [(0, 0), (1, 0), (3, 0), (0, 1), (3, 1)]
    assert ends((1,)) == [(0,)] and ends(()) == [()]


def of(*body: Node) -> Program:
    return replace(TILED, body=(neg("all", at("x"), at("y")), *body))


@pytest.mark.parametrize(
    ("spoilt", "problem"),
    [
        (of(Loop(0, (neg("op", at("x"), at("y")),))), "a loop of 1 nodes, 0 times"),
        (of(Loop(2, ())), "a loop of 0 nodes, 2 times"),
        (of(Loop(1 << 25, (neg("op", at("x"), at("y")),))), "loops run their body 33554432 times"),
        (of(neg("op", at("x", 256), at("y"))), "op 'op': input 0: moves with 1 loops, there are 0 around the op"),
        (of(Loop(4, (neg("op", at("x", 256), at("y")),))), "reaches from 0 to 1023 in 'x', which has 768 elements"),
        (of(Loop(3, (neg("op", at("x", -256), at("y")),))), "reaches from -512 to 255 in 'x'"),
    ],
)
def test_a_loop_that_never_ends_or_leaves_its_buffer_is_named(spoilt: Program, problem: str) -> None:
    assert any(problem in line for line in Verifier().problems(spoilt)), Verifier().problems(spoilt)


def test_a_lowered_loop_moves_by_whole_sticks_evenly() -> None:
    x = Buffer("x", "float16", (8, 128), (128, 1), Role.INPUT, SpyreTensorLayout([8, 128], "float16"))
    y = Buffer("y", "float16", (8, 128), (128, 1), Role.OUTPUT, SpyreTensorLayout([8, 128], "float16"))

    def found(*advance: int, count: int = 2) -> list[str]:
        narrow = Access("x", 0, (128, 1), "float16", advance)
        whole = Access("y", 0, (128, 1), "float16")
        return Verifier(lowered=True).problems(Program("p", (x, y), (Loop(count, (neg("op", narrow, whole),)),)))

    assert found(64) == found(128) == found(256, count=3) == []
    # From the end of a row to the next one is another way in memory than from its first half to its second.
    assert any("lies otherwise in its sticks from iteration to iteration" in line for line in found(64, count=3))
