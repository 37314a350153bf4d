"""Tensors that stay in the scratchpads: where, which copies come with them, why others do not, and that no bit changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.compiler.ir import Access, Buffer, Constant, Dim, InScratchpad, Loop, Node, Op, Program, Role
from openspyre.compiler.passes.plan_scratchpads import PlanScratchpads
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats
from openspyre.spec.layout import SpyreTensorLayout

ROWS, COLUMNS = Dim("r", 64, split=32), Dim("c", 256)
PLAN = PlanScratchpads()


def dense(name: str, role: Role = Role.TEMP, size: tuple[int, ...] = (64, 256)) -> Buffer:
    return Buffer(name, "float16", size, row_major(size), role, SpyreTensorLayout(size, "float16"))


def sparse(name: str, role: Role = Role.TEMP, size: tuple[int, ...] = (64,)) -> Buffer:
    """One value a stick."""
    return Buffer(name, "float16", size, row_major(size), role, SpyreTensorLayout(size, "float16", [0, -1]))


def at(name: str, *strides: int, **fields: object) -> Access:
    return replace(Access(name, 0, strides or (256, 1), "float16"), **fields)  # type: ignore[arg-type]


def op(row: str, reads: list[Access | Constant], write: Access, dims: tuple[Dim, ...] = (ROWS, COLUMNS)) -> Op:
    return Op(f"{row}_{write.buffer}", row, dims, tuple(reads), (write,))


def reduced(row: str, read: str, write: str) -> Op:
    return op(row, [at(read)], at(write, 1, 0), (ROWS, replace(COLUMNS, reduced=True)))


SOFTMAX = Program(
    "softmax",
    (
        dense("x", Role.INPUT),
        dense("y", Role.OUTPUT),
        *map(sparse, ("max", "sum")),
        *map(dense, ("sub", "exp")),
    ),
    (
        reduced("amax", "x", "max"),
        op("sub", [at("x"), at("max", 1, 0)], at("sub")),
        op("exp", [at("sub")], at("exp")),
        reduced("sum", "exp", "sum"),
        op("div", [at("exp"), at("sum", 1, 0)], at("y")),
    ),
)


def places(program: Program) -> dict[str, int]:
    return {b.name: b.place.byte for b in program.buffers if isinstance(b.place, InScratchpad)}


def rows(program: Program) -> list[str]:
    return [node.row for node in program.body if isinstance(node, Op)]


def test_softmax_lies_as_the_documents_say() -> None:
    """Their worked example: a copy of the input at 256, max at 0, sub and exp in the copy's place, sum at 0, the result in memory."""
    planned = PLAN.run(SOFTMAX)
    assert places(planned) == {"max": 0, "sum": 0, "sub": 256, "exp": 256, "x.in_scratchpads": 256}
    assert rows(planned) == ["identity", "amax", "sub", "exp", "sum", "div"]
    assert [dim.split for dim in planned.ops[0].dims] == [32, 1]
    assert Verifier().problems(planned) == []
    assert PLAN.plan(SOFTMAX).reasons == {"y": "nobody reads it"}


def test_what_has_no_room_has_a_reason_that_names_the_step() -> None:
    plan = PlanScratchpads(capacity=1152).plan(SOFTMAX)
    assert plan.places == {"max": 0, "sub": 128, "exp": 128} or "x" in plan.reasons
    assert plan.reasons["x"] == "full at step 0: no 1024 bytes per core are free as long as it lives"


def with_ops(*nodes: Node, more: tuple[Buffer, ...] = ()) -> Program:
    """x, y in, z out, temps t and u."""
    known = (dense("x", Role.INPUT), dense("y", Role.INPUT), dense("z", Role.OUTPUT), dense("t"), dense("u"))
    return Program("p", (*known, *more), nodes)


ADD = op("add", [at("x"), at("y")], at("t"))
MUL = op("mul", [at("t"), at("t")], at("z"))
OTHER = (Dim("r", 64, split=16), Dim("c", 256, split=2))
FEWER = (Dim("r", 64, split=16), COLUMNS)
SPLIT_SUM = (Dim("r", 64, split=8), replace(COLUMNS, split=4, reduced=True))

REASONS: dict[str, tuple[Program, str, str]] = {
    "not in the list": (with_ops(replace(ADD, row="maximum"), replace(MUL, row="minimum"), op("relu", [at("t")], at("u")), op("add", [at("u"), at("t")], at("z"))), "u", "results of relu are not in the documents' list"),
    "written twice": (with_ops(ADD, replace(ADD, name="again"), MUL), "t", "2 ops write into it: a mutation"),
    "a tile that moves": (
        with_ops(op("add", [at("x"), at("y")], at("t")), Loop(2, (op("mul", [at("t", 256, 1, advance=(8192,))], at("z", advance=(8192,)), (Dim("r", 32, split=32), COLUMNS)),))),
        "t",
        "a loop moves it from tile to tile",
    ),
    "a part of it": (with_ops(ADD, op("neg", [at("t")], at("z"), (Dim("r", 32, split=32), COLUMNS))), "t", "neg_z reads a part of it"),
    "another division": (with_ops(ADD, op("neg", [at("t")], at("z"), FEWER)), "t", "add_t and neg_z divide it differently; no copy between cores helps: neg_z has 16 cores, add_t has 32"),
    "a broadcast read": (
        with_ops(op("neg", [at("s", 0, 1)], at("z")), op("neg", [at("s", 0, 1)], at("u")), op("neg", [at("u")], at("t")), more=(dense("s", Role.INPUT, (256,)),)),
        "s",
        "every core of neg_z needs what others have: 1 slices for 32 cores",
    ),
    "sums over cores": (
        with_ops(op("sum", [at("x")], at("s", 1, 0), SPLIT_SUM), op("neg", [at("s", 1)], at("v", 1), (Dim("r", 64, split=8),)), more=(sparse("s"), sparse("v", Role.OUTPUT))),
        "s",
        "sum_s adds up parts of it over cores",
    ),
    "read once": (with_ops(ADD, MUL), "x", "an input that is read once: a copy would save nothing"),
    "no reader": (with_ops(ADD, MUL), "z", "nobody reads it"),
    "the host's op": (
        with_ops(ADD, op("sign", [at("x")], at("u")), op("add", [at("t"), at("u")], at("z"))),
        "t",
        "sign_u (sign), which the host would do, runs while it lives",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REASONS)
def test_who_does_not_stay_has_a_reason(name: str) -> None:
    program, tensor, why = REASONS[name]
    plan = PLAN.plan(program)
    assert tensor not in plan.places and plan.reasons[tensor] == why


def test_an_output_that_is_read_again_stays_and_is_copied_out() -> None:
    program = with_ops(
        ADD, op("neg", [at("t")], at("z")), op("exp", [at("z")], at("w")), more=(dense("w", Role.OUTPUT),)
    )
    planned = PLAN.run(program)
    assert places(planned) == {"t": 0, "z.in_scratchpads": 0}
    assert rows(planned) == ["add", "neg", "identity", "exp"]
    assert [access.buffer for access in planned.ops[2].accesses] == ["z.in_scratchpads", "z"]
    assert planned.ops[3].accesses[0].buffer == "z.in_scratchpads"
    assert Verifier().problems(planned) == []


PRODUCT = Op(
    "mm",
    "batchmatmul",
    (Dim("m", 128, split=8), Dim("n", 256, split=4), Dim("k", 256, reduced=True)),
    (Access("a", 0, (256, 0, 1), "float16"), Access("b", 0, (0, 1, 256), "float16")),
    (Access("p", 0, (256, 1, 0), "float16"),),
)
WIDE = (Dim("m", 128, split=32), Dim("n", 256))
RELAID = Program(
    "relaid",
    (
        dense("a", Role.INPUT, (128, 256)),
        dense("b", Role.INPUT, (256, 256)),
        dense("y", Role.INPUT, (128, 256)),
        dense("z", Role.OUTPUT, (128, 256)),
        *(dense(name, size=(128, 256)) for name in ("p", "scaled")),
    ),
    (PRODUCT, op("mul", [at("y"), at("y")], at("scaled"), WIDE), op("add", [at("p"), at("scaled")], at("z"), WIDE)),
)


def test_a_product_goes_from_core_to_core_as_in_the_reference() -> None:
    """The reference's bundle of (x @ a) + y * 2: product at 0, its copy at 2048, the other operand at 4096, one shuffle."""
    planned = PLAN.run(RELAID)
    assert places(planned) == {"p": 0, "p.relaid": 2048, "scaled": 4096}
    assert rows(planned) == ["batchmatmul", "mul", "shuffle", "add"]
    shuffle = planned.ops[2]
    assert [dim.split for dim in shuffle.dims] == [32, 1]
    assert shuffle.attributes == (("held_splits", (8, 4)), ("held_apart", (1, 8)))
    assert planned.ops[3].accesses[0].buffer == "p.relaid"
    assert Verifier().problems(planned) == []


def test_without_copies_between_cores_the_product_goes_through_memory() -> None:
    for plan in (PlanScratchpads(relayout=False), PlanScratchpads(solver="exact")):
        assert places(plan.run(RELAID)) == {"scaled": 0}
        assert plan.plan(RELAID).reasons["p"] == "mm and add_z divide it differently"


def test_a_tensor_that_a_loop_reads_again_keeps_its_bytes_until_the_loop_ends() -> None:
    """t is read by the first op of the loop; u, which begins behind it, may not take its place: t is read in every iteration."""
    inner = (op("neg", [at("t")], at("u")), op("exp", [at("u")], at("v")), op("add", [at("v"), at("u")], at("z")))
    planned = PLAN.run(with_ops(ADD, Loop(3, inner), more=(dense("v"),)))
    found = places(planned)
    assert set(found) == {"t", "u", "v"}
    assert found["t"] not in (found["u"], found["v"])


def _of_an_image(name: str, role: Role = Role.TEMP) -> Buffer:
    """Images, features, rows and columns: the sticks of all rows of a feature are one device dim."""
    sizes = (3, 10, 5, 128)
    layout = SpyreTensorLayout([10, 10, 3, 64], [640, 64, 6400, 1], DataFormats.SEN169_FP16)
    return Buffer(name, "float16", sizes, row_major(sizes), role, layout)


def _read_by_features() -> Program:
    """A product (of one k: a mul) that divides the places of an image over the cores, for an op that divides its features."""
    places_of = (Dim("b", 3, split=3), Dim("f", 10), Dim("n", 640, split=10))
    features = (Dim("b", 3, split=3), Dim("f", 10, split=10), Dim("h", 5), Dim("w", 128))
    whole, flat = (6400, 640, 128, 1), (6400, 640, 1)
    buffers = _of_an_image("x", Role.INPUT), _of_an_image("p"), _of_an_image("z", Role.OUTPUT)
    ops = (
        op("mul", [at("x", *flat), at("x", *flat)], at("p", *flat), places_of),
        op("add", [at("p", *whole), at("x", *whole)], at("z", *whole), features),
    )
    return Program("features", buffers, ops)


def test_a_division_that_is_none_of_the_tensors_own_dims_goes_through_memory() -> None:
    """Ten slices of ten sticks: of five rows of two sticks nobody could say which core has which."""
    planned = PLAN.run(_read_by_features())
    assert "p" not in places(planned)
    assert rows(planned) == ["mul", "add"]
