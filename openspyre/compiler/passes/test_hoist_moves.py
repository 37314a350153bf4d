"""Moves that leave a loop, and those that must stay."""

from __future__ import annotations

from openspyre.compiler.ir import Access, Buffer, Dim, Iota, Loop, Node, Op, Program, Role
from openspyre.compiler.passes.hoist_moves import HoistMoves

DIMS = (Dim("m", 4), Dim("n", 64))


def at(name: str, *advance: int) -> Access:
    return Access(name, 0, (64, 1), "float16", advance)


def move(name: str, source: Access, target: str, row: str = "restickify") -> Op:
    return Op(name, row, DIMS, (source,), (at(target),))


def after(*body: Node) -> list[object]:
    roles = {"x": Role.INPUT, "w": Role.INPUT, "y": Role.OUTPUT, "t": Role.TEMP, "u": Role.TEMP, "v": Role.TEMP}
    buffers = tuple(Buffer(name, "float16", (12, 64), (64, 1), role) for name, role in roles.items())

    def shown(nodes: tuple[Node, ...]) -> list[object]:
        return [node.name if isinstance(node, Op) else shown(node.body) for node in nodes]

    return shown(HoistMoves().run(Program("p", buffers, body)).body)


ADD = Op("add", "add", DIMS, (at("x", 256), at("t")), (at("y", 256),))


def test_a_weight_is_turned_before_the_loop() -> None:
    assert after(Loop(3, (move("turn", at("w"), "t"), ADD))) == ["turn", ["add"]]


def test_so_is_what_is_made_of_it_and_what_fills_the_rest() -> None:
    zeros = Op("zeros", "iota", DIMS, (Iota(0, (0, 0)),), (at("t"),))
    body = (move("turn", at("w"), "u"), zeros, move("copy", at("u"), "t", "identity"), ADD)
    assert after(Loop(3, body)) == ["turn", "zeros", "copy", ["add"]]


def test_out_of_all_loops_or_of_the_inner_one() -> None:
    assert after(Loop(2, (Loop(3, (move("turn", at("w"), "t"), ADD)),))) == ["turn", [["add"]]]
    neg = Op("neg", "neg", DIMS, (at("x", 256),), (at("u"),))
    assert after(Loop(2, (neg, Loop(3, (move("turn", at("u"), "t"), ADD))))) == [["neg", "turn", ["add"]]]


def test_what_moves_or_is_written_in_the_loop_stays() -> None:
    assert after(Loop(3, (move("tile", at("w", 256), "t"), ADD))) == [["tile", "add"]]
    neg = Op("neg", "neg", DIMS, (at("t"),), (at("u"),))
    assert after(Loop(3, (neg, move("turn", at("u"), "t"), ADD))) == [["neg", "turn", "add"]]
    total = Op("total", "add", DIMS, (at("t"), at("x", 256)), (at("t"),))
    assert after(Loop(3, (move("begin", at("w"), "t"), total))) == [["begin", "total"]]
    assert after(Loop(3, (move("out", at("w"), "y"), ADD))) == [["out", "add"]]
