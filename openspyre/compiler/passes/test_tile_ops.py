"""Loops that hints of tiles become: what is in them, what stands around them, and what is refused, with its way out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.compiler import ir
from openspyre.compiler.ir import Access, Buffer, Dim, Hint, Iota, Loop, Node, Op, Program, Role
from openspyre.compiler.loops import listed
from openspyre.compiler.passes.tile_ops import TileOps
from openspyre.compiler.tiling.groups import Untileable
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import row_major

SIZES = {"M": 8, "N": 128, "K": 64}
HINT = Hint(1, tiles=("M", 4))


def buffer(name: str, dims: str, role: Role = Role.TEMP) -> Buffer:
    size = tuple(SIZES[dim] for dim in dims)
    return Buffer(name, "float16", size, row_major(size), role)


def at(name: str, dims: str, of: str, offset: int = 0) -> Access:
    """A tensor along `dims` in an op along `of`."""
    by_dim = dict(zip(dims, row_major([SIZES[dim] for dim in dims]), strict=True))
    return Access(name, offset, tuple(by_dim.get(dim, 0) for dim in of), "float16")


def op(name: str, row: str, of: str, *inputs: tuple[str, str], out: str, hints: tuple[Hint, ...] = (HINT,)) -> Op:
    """An op named as what it writes; lower case dims are reduced."""
    dims = tuple(Dim(dim, SIZES[dim.upper()], reduced=dim.islower(), named=(dim.upper(),)) for dim in of)
    reads = tuple(at(one, along, of.upper()) for one, along in inputs)
    return Op(name, row, dims, reads, (at(name, out, of.upper()),), hints=hints)


def program(*ops: Op, buffers: tuple[Buffer, ...] = ()) -> Program:
    """x and y are inputs along M and N, z the output."""
    given = (buffer("x", "MN", Role.INPUT), buffer("y", "MN", Role.INPUT))
    return Program("tiles", (*given, *buffers), ops)


def shown(body: tuple[Node, ...]) -> list[object]:
    return [node.name if isinstance(node, Op) else (node.count, shown(node.body)) for node in body]


def tiled(given: Program, *, reductions: bool = True) -> Program:
    found = TileOps(reductions).run(given)
    assert Verifier().problems(found) == []
    return found


EXP = op("e", "exp", "MN", ("x", "MN"), out="MN")
ADD = op("z", "add", "MN", ("e", "MN"), ("y", "MN"), out="MN")
CHAIN = program(EXP, ADD, buffers=(buffer("e", "MN"), buffer("z", "MN", Role.OUTPUT)))


def test_tiles_are_copied_in_worked_on_and_copied_out() -> None:
    found = tiled(CHAIN)
    assert shown(found.body) == [(4, ["x.read_copy0_0", "e", "y.read_copy0_1", "z", "z.copy_out4"])]
    assert {b.name: b.size for b in found.buffers if b.role is Role.TEMP} == {
        "e": (2, 128), "x.read_copy0_0": (2, 128), "y.read_copy0_1": (2, 128), "z.tile": (2, 128),
    }  # fmt: skip
    moves = {op.name: [access.advance for access in op.accesses] for op, _ in listed(found.body)}
    assert moves["x.read_copy0_0"] == [(256,), ()] and moves["z.copy_out4"] == [(), (256,)]
    assert moves["e"] == [(), ()] and moves["z"] == [(), (), ()]
    assert all(hint.tiles is None for op, _ in listed(found.body) for hint in op.hints)


def test_a_tile_that_two_read_is_copied_once() -> None:
    add = op("z", "add", "MN", ("e", "MN"), ("x", "MN"), out="MN")
    assert shown(tiled(replace(CHAIN, body=(EXP, add))).body) == [(4, ["x.read_copy0_0", "e", "z", "z.copy_out3"])]


def test_what_does_not_move_is_read_where_it_is() -> None:
    add = op("z", "add", "MN", ("x", "MN"), ("v", "N"), out="MN")
    found = tiled(program(add, buffers=(buffer("v", "N", Role.INPUT), buffer("z", "MN", Role.OUTPUT))))
    assert shown(found.body) == [(4, ["x.read_copy0_0", "z", "z.copy_out2"])]
    assert [a.buffer for op, _ in listed(found.body) if op.name == "z" for a in op.accesses][1] == "v"


def test_levels_nest_by_the_numbers_of_their_hints() -> None:
    """Of a dim in two levels the outer tiles hold inner ones; a count of 1, and a name that no dim has, fall away."""
    hints = (Hint(7, tiles=("M", 2)), Hint(3, tiles=("M", 2)), Hint(4, tiles=("Z", 5)), Hint(5, tiles=("N", 1)))
    found = tiled(replace(CHAIN, body=(replace(EXP, hints=hints), replace(ADD, hints=hints))))
    assert shown(found.body)[0][0:1] == (2,)  # type: ignore[index]
    outer = found.body[0]
    assert isinstance(outer, Loop) and isinstance(outer.body[0], Loop)
    first = outer.body[0].body[0]
    assert isinstance(first, Op) and first.accesses[0].advance == (4 * 128, 2 * 128)


def test_what_stands_between_goes_before_or_behind() -> None:
    between = op("b", "neg", "MN", ("y", "MN"), out="MN", hints=())
    behind = op("d", "neg", "MN", ("e", "MN"), out="MN", hints=())
    buffers = (*CHAIN.buffers, buffer("b", "MN"), buffer("d", "MN", Role.OUTPUT))
    found = tiled(Program("between", buffers, (EXP, behind, between, ADD)))
    assert [node.name if isinstance(node, Op) else node.count for node in found.body] == ["b", 4, "d"]
    # e is read behind the loop as well now: it is copied out, and its tile read inside.
    assert "e.copy_out2" in [op.name for op, _ in listed(found.body)]


def test_what_is_counted_or_drawn_is_made_before_the_loop() -> None:
    dims = (Dim("M", 8, named=("M",)), Dim("N", 128, named=("N",)))
    mask = Op("e", "iota", dims, (Iota(0, (128, 1)),), (at("e", "MN", "MN"),), hints=(HINT,))
    found = tiled(replace(CHAIN, body=(mask, ADD)))
    assert shown(found.body)[0] == "e" and len(found.body) == 2


def test_a_sum_of_tiles_has_an_accumulator() -> None:
    total = op("z", "sum", "mN", ("e", "MN"), out="N")
    found = tiled(program(EXP, total, buffers=(buffer("e", "MN"), buffer("z", "N", Role.OUTPUT))))
    assert shown(found.body) == ["z.begin", (4, ["x.read_copy0_0", "e", "z", "z.take_up"])]
    take_up = next(op for op, _ in listed(found.body) if op.name == "z.take_up")
    assert take_up.row == "add" and [a.buffer for a in take_up.accesses] == ["z", "z.part", "z"]


def test_of_tiles_of_a_result_each_has_an_accumulator_of_its_own() -> None:
    hints = (HINT, Hint(2, tiles=("N", 2)))
    total = op("z", "amax", "Mn", ("x", "MN"), out="M", hints=hints)
    found = tiled(program(total, buffers=(buffer("z", "M", Role.OUTPUT),)))
    assert shown(found.body) == [(4, ["z.begin", (2, ["x.read_copy0_0", "z", "z.take_up"]), "z.copy_out"]), "z.back"]
    begin = next(op for op, _ in listed(found.body) if op.name == "z.begin")
    assert isinstance(begin.inputs[0], ir.Constant) and begin.inputs[0].value == float("-inf")
    assert found.buffer("z.total").size == (2,)


def test_tiles_that_would_cut_sticks_are_of_tensors_that_lie_otherwise() -> None:
    """Turned as a whole before the loop and behind it; in the loop they are whole sticks along M."""
    hints = (Hint(1, tiles=("N", 4)),)
    found = tiled(replace(CHAIN, body=(replace(EXP, hints=hints), replace(ADD, hints=hints))))
    names = ["x.read_copy0_0", "e", "y.read_copy0_1", "z", "z.copy_out4"]
    assert shown(found.body) == ["x.aside0", "y.aside0", (4, names), "z.back"]
    assert [b.layout.stride_map[-1] for b in found.buffers if "aside" in b.name and b.layout] == [128] * 3


def test_an_update_in_place_is_read_before_it_is_copied_out() -> None:
    x = buffer("x", "MN", Role.UPDATE)
    double = replace(op("x", "add", "MN", ("x", "MN"), ("x", "MN"), out="MN"), name="double")
    found = tiled(Program("update", (x,), (double,)))
    assert shown(found.body) == [(4, ["x.read_copy0_0", "double", "x.copy_out2"])]


PRODUCT = op("z", "batchmatmul", "MNk", ("a", "MK"), ("w", "KN"), out="MN")
MEAN = op("z", "mean", "mN", ("x", "MN"), out="N")
LINE = buffer("z", "N", Role.OUTPUT)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (
            replace(CHAIN, body=(replace(EXP, hints=(Hint(1, tiles=("M", 3)),)), replace(ADD, hints=(Hint(1, tiles=("M", 3)),)))),
            ("e (exp)", "dim 'M' of size 8 has no 3 tiles", "choose a count that divides it"),
        ),
        (program(MEAN, buffers=(LINE,)), ("z (mean)", "4 tiles", "dim 'M'", "a mean as a sum")),
        (
            program(op("z", "argmax", "mN", ("x", "MN"), out="N"), buffers=(LINE,)),
            ("z (argmax)", "4 tiles", "dim 'M'", "cannot be put together"),
        ),
        (
            program(op("z", "sum", "mN", ("x", "MN"), out="N", hints=(HINT, Hint(2, tiles=("N", 2)))), buffers=(LINE,)),
            ("z (sum)", "4 tiles along reduced dim 'M'", "2 tiles along dim 'N'", "innermost"),
        ),
        (
            program(
                op("z", "sum", "mn", ("x", "MN"), out="", hints=(HINT, Hint(2, tiles=("N", 2)))),
                buffers=(buffer("z", "", Role.OUTPUT),),
            ),
            ("z (sum)", "dim 'M'", "dim 'N'", "one can be tiled"),
        ),
        (
            program(
                op("s", "sum", "mN", ("x", "MN"), out="N"), op("z", "neg", "N", ("s", "N"), out="N"),
                buffers=(buffer("s", "N"), LINE),
            ),
            ("z (neg)", "4 along no dim of it", "it reads 's', of which s (sum)", "End the scope before it"),
        ),
        (
            program(
                op("s", "sum", "mN", ("x", "MN"), out="N"), op("z", "sub", "MN", ("x", "MN"), ("s", "N"), out="MN"),
                buffers=(buffer("s", "N"), buffer("z", "MN", Role.OUTPUT)),
            ),
            ("z (sub)", "4 along dim 'M'", "it reads 's'"),
        ),
        (
            replace(CHAIN, body=(EXP, replace(ADD, hints=(HINT, Hint(2, tiles=("N", 2)))))),
            ("z (add)", "the same scope", "e (exp)", "under 1 hints of tiles where this is under 2"),
        ),
        (
            replace(CHAIN, body=(EXP, replace(ADD, inputs=(at("y", "MN", "MN"),) * 2, hints=(Hint(2, tiles=("M", 2)),)),
                                 op("q", "neg", "MN", ("e", "MN"), out="MN")), buffers=(*CHAIN.buffers, buffer("q", "MN"))),
            ("z (add)", "between ops of another scope", "e (exp)", "close one scope"),
        ),
        (
            replace(CHAIN, body=(EXP, op("q", "neg", "MN", ("e", "MN"), out="MN", hints=()),
                                 op("z", "add", "MN", ("q", "MN"), ("y", "MN"), out="MN")), buffers=(*CHAIN.buffers, buffer("q", "MN"))),
            ("q (neg)", "needs what e (exp) leaves", "z (add) needs what it leaves", "put it into their scope"),
        ),
        (
            replace(CHAIN, body=(EXP, replace(PRODUCT, inputs=(at("w", "MK", "MNK"), at("e", "MN", "MNK").on("e")),
                                              dims=tuple(replace(d, named=()) for d in PRODUCT.dims))),
                    buffers=(*CHAIN.buffers, buffer("w", "MK", Role.INPUT))),
            ("z (batchmatmul)", "4 along no dim of it", "reads more of 'e' than the tile"),
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_tiled_is_refused_with_a_way_out(given: Program, parts: tuple[str, ...]) -> None:
    with pytest.raises(Untileable) as error:
        TileOps().run(given)
    for part in parts:
        assert part in str(error.value), str(error.value)


def test_reductions_are_not_tiled_where_that_is_switched_off() -> None:
    total = program(op("z", "sum", "mN", ("x", "MN"), out="N"), buffers=(LINE,))
    with pytest.raises(
        Untileable, match=r"z \(sum\): 4 tiles along reduced dim 'M'.*SPYRE_INDUCTOR_ENABLE_REDUCTION_TILING"
    ):
        TileOps(reductions=False).run(total)
    assert shown(tiled(CHAIN, reductions=False).body)


def test_a_program_without_hints_stays_as_it_is() -> None:
    plain = replace(CHAIN, body=tuple(replace(node, hints=()) for node in CHAIN.ops))
    assert TileOps().run(plain) is plain
