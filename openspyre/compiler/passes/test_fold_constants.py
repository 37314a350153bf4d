"""What is known when a program is compiled becomes constants, with the values that numpy gives; what is not, or is cheaper, stays."""

from dataclasses import replace

import numpy as np
import pytest

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Access, Buffer, Constant, Dim, Iota, Op, Program, Role, Scalar
from openspyre.compiler.passes.drop_dead import DropDead
from openspyre.compiler.passes.fold_constants import FoldConstants
from openspyre.compiler.text import parse_program, print_program
from openspyre.compiler.verify import Verifier
from openspyre.spec.packing import elements_of

N = 8
ALONG = (Dim("i", N),)
START, STEP = Scalar("start", "int32", 3), Scalar("step", "int32", 0xFFFFFFFE)  # 3, 1, -1, ...
RANGE = 3 - 2 * np.arange(N)


def flat(name: str, dtype: str = "int64", role: Role = Role.TEMP) -> Buffer:
    return Buffer(name, dtype, (N,), (1,), role)


def at(name: str, dtype: str = "int64", offset: int = 0) -> Access:
    return Access(name, offset, (1,), dtype)


def arange(target: str, dtype: str = "int64", start: Scalar = START) -> Op:
    return Op(f"range_{target}", "arange", ALONG, (Iota(0, (1,)), start, STEP), (at(target, dtype),))


def op(row: str, target: Access, *inputs: Access | Constant | Iota) -> Op:
    return Op(f"{row}_{target.buffer}", row, ALONG, inputs, (target,))


def folded(*ops: Op, buffers: tuple[Buffer, ...], scalars: tuple[Scalar, ...] = (START, STEP)) -> Program:
    program = Program("p", buffers, ops, scalars)
    assert Verifier().problems(program) == []
    result = DropDead().run(FoldConstants().run(program))
    assert Verifier().problems(result) == []
    assert parse_program(print_program(result)) == result
    pipeline.run(program, verify=True)
    return result


def constants(program: Program) -> dict[str, np.ndarray]:
    return {b.name: elements_of(b.values, b.size, b.stride, b.dtype) for b in program.buffers if b.values is not None}


def only_constant(program: Program) -> np.ndarray:
    (values,) = constants(program).values()
    return values


def rows(program: Program) -> list[str]:
    return [op.row for op in program.ops]


OUT, X = flat("out", "float32", Role.OUTPUT), flat("x", "float32", Role.INPUT)


def test_a_range_and_what_is_made_of_it_become_one_constant() -> None:
    chain = [
        arange("t"),
        op("mul", at("u"), at("t"), at("t")),
        op("cast", at("v", "float32"), at("u")),
        op("add", at("out", "float32"), at("x", "float32"), at("v", "float32")),
    ]
    result = folded(*chain, buffers=(OUT, X, flat("t"), flat("u"), flat("v", "float32")))
    assert rows(result) == ["add"]
    (values,) = constants(result).values()
    np.testing.assert_array_equal(values, (RANGE * RANGE).astype(np.float32))


def test_a_known_result_is_copied_to_where_the_caller_wants_it() -> None:
    result = folded(arange("t"), op("abs", at("out"), at("t")), buffers=(flat("out", role=Role.OUTPUT), flat("t")))
    assert rows(result) == ["relayout"]
    np.testing.assert_array_equal(only_constant(result), np.abs(RANGE))


def test_a_copy_that_stretches_what_is_known_is_known() -> None:
    """The smallest recipe of a random graph that was no valid program: places of a scatter, the same along two dims."""
    dims = (*ALONG, Dim("j", 4))
    wide = Buffer("wide", "int64", (N, 4), (4, 1), Role.TEMP)
    spread = Op("spread", "relayout", dims, (Access("r", 0, (1, 0), "int64"),), (Access("wide", 0, (4, 1), "int64"),))
    used = Op(
        "used",
        "add",
        dims,
        (Access("wide", 0, (4, 1), "int64"), Access("x", 0, (4, 1), "int64")),
        (Access("y", 0, (4, 1), "int64"),),
    )
    given = [replace(wide, name=name, role=role) for name, role in (("x", Role.INPUT), ("y", Role.OUTPUT))]
    result = folded(arange("r"), spread, used, buffers=(flat("r"), wide, *given))
    assert np.array_equal(only_constant(result), np.repeat(RANGE[:, None], 4, axis=1))


def test_equal_constants_are_one() -> None:
    more = [
        op("add", at("out", "float32"), at("x", "float32"), at("t", "float32")),
        op("mul", at("out", "float32"), at("x", "float32"), at("u", "float32")),
    ]
    result = folded(
        arange("t", "float32"),
        arange("u", "float32"),
        *more,
        buffers=(OUT, X, flat("t", "float32"), flat("u", "float32")),
    )
    assert rows(result) == ["add", "mul"]
    assert len(constants(result)) == 1


def test_a_number_of_the_launch_is_waited_for() -> None:
    later = Scalar("start", "int32")
    ops = [arange("t", start=later), op("abs", at("out"), at("t"))]
    result = folded(*ops, buffers=(flat("out", role=Role.OUTPUT), flat("t")), scalars=(later, STEP))
    assert rows(result) == ["arange", "abs"]


def test_a_plain_fill_stays() -> None:
    fill = Op("f", "fill", ALONG, (Scalar("v", "float32", 0x3F800000),), (at("t", "float32"),))
    add = op("add", at("out", "float32"), at("x", "float32"), at("t", "float32"))
    scalars = (Scalar("v", "float32", 0x3F800000),)
    assert rows(folded(fill, add, buffers=(OUT, X, flat("t", "float32")), scalars=scalars)) == ["fill", "add"]


def test_what_is_changed_between_two_reads_is_read_as_it_was_each_time() -> None:
    ops = [
        arange("t", "float32"),
        op("add", at("out", "float32"), at("x", "float32"), at("t", "float32")),
        op("neg", at("t", "float32"), at("t", "float32")),
        op("mul", at("out", "float32"), at("out", "float32"), at("t", "float32")),
    ]
    result = folded(*ops, buffers=(OUT, X, flat("t", "float32")))
    assert rows(result) == ["relayout", "add", "neg", "mul"]
    np.testing.assert_array_equal(only_constant(result), RANGE.astype(np.float32))


def test_what_an_unknown_op_has_written_is_not_known() -> None:
    ops = [
        arange("t", "float32"),
        op("add", at("t", "float32"), at("x", "float32"), at("t", "float32")),
        op("abs", at("out", "float32"), at("t", "float32")),
    ]
    result = folded(*ops, buffers=(OUT, X, flat("t", "float32")))
    assert rows(result) == ["relayout", "add", "abs"]


def test_parts_make_a_whole() -> None:
    half = (Dim("i", N // 2),)
    whole = flat("t")
    parts = [
        Op(f"part{k}", "arange", half, (Iota(0, (1,)), START, STEP), (at("t", offset=k * N // 2),)) for k in range(2)
    ]
    cast = op("cast", at("c", "float32"), at("t"))
    add = op("add", at("out", "float32"), at("x", "float32"), at("c", "float32"))
    result = folded(*parts, cast, add, buffers=(OUT, X, whole, flat("c", "float32")))
    assert rows(result) == ["add"]
    np.testing.assert_array_equal(only_constant(result), np.tile(RANGE[: N // 2], 2).astype(np.float32))
    assert rows(folded(parts[0], cast, add, buffers=(OUT, X, replace(whole, unset=True), flat("c", "float32")))) == [
        "relayout",
        "cast",
        "add",
    ]


def test_a_large_one_is_computed_by_the_card() -> None:
    ops = (arange("t", "float32"), op("add", at("out", "float32"), at("x", "float32"), at("t", "float32")))
    program = Program("p", (OUT, X, flat("t", "float32")), ops, (START, STEP))
    assert FoldConstants(most_bytes=4 * N - 1).run(program) == program
    assert FoldConstants(most_bytes=4 * N).run(program) != program


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_what_the_host_cannot_hold_stays_with_the_card(dtype: str) -> None:
    """513 is a number of SEN169, but none of bfloat16's; 1025 is none of SEN169's."""
    start = Scalar("start", "float32", int(np.float32(513).view(np.uint32)))
    step = Scalar("step", "float32", int(np.float32(1).view(np.uint32)))
    x, out = flat("x", dtype, Role.INPUT), flat("out", dtype, Role.OUTPUT)
    made = Op("t", "arange", ALONG, (Iota(0, (1,)), start, step), (at("t", dtype),))
    add = op("add", at("out", dtype), at("x", dtype), at("t", dtype))
    result = folded(made, add, buffers=(out, x, flat("t", dtype)), scalars=(start, step))
    assert rows(result) == (["arange", "add"] if dtype == "bfloat16" else ["add"])


def test_a_function_that_only_the_card_computes_stays() -> None:
    ops = [arange("t", "float32"), op("sin", at("out", "float32"), at("t", "float32"))]
    result = folded(*ops, buffers=(OUT, flat("t", "float32")))
    assert rows(result) == ["sin"]
    np.testing.assert_array_equal(only_constant(result), RANGE.astype(np.float32))


def test_an_integer_of_64_bits_that_wraps_is_left_to_the_card_to_tell() -> None:
    far = Scalar("start", "int32", 0x7FFFFFFF)
    ops = [arange("t", start=far), op("sub", at("out"), at("t"), Iota(-1, (0,)))]
    result = folded(*ops, buffers=(flat("out", role=Role.OUTPUT), flat("t")), scalars=(far, STEP))
    assert rows(result) == ["sub"]


def test_constants_that_a_program_brings_are_computed_with() -> None:
    values = np.arange(-4, 4, dtype=np.int64)
    held = replace(flat("list", role=Role.CONSTANT), values=values.tobytes())
    wrap = op("remainder", at("t", "int32"), at("list"), Iota(100, (0,)))
    cast = op("cast", at("c", "float32"), at("t", "int32"))
    add = op("add", at("out", "float32"), at("x", "float32"), at("c", "float32"))
    result = folded(wrap, cast, add, buffers=(OUT, X, held, flat("t", "int32"), flat("c", "float32")), scalars=())
    assert rows(result) == ["add"]
    np.testing.assert_array_equal(only_constant(result), (values % 100).astype(np.float32))


def test_a_constant_that_is_stretched_on_its_way_fills_its_target() -> None:
    held = Buffer("one", "int64", (1,), (1,), Role.CONSTANT, values=np.array([7], np.int64).tobytes())
    move = Op("move", "relayout", ALONG, (Access("one", 0, (0,), "int64"),), (at("t"),))
    result = folded(
        move,
        op("add", at("out"), at("x"), at("t")),
        buffers=(flat("out", role=Role.OUTPUT), flat("x", role=Role.INPUT), held, flat("t")),
        scalars=(),
    )
    assert rows(result) == ["add"]
    np.testing.assert_array_equal(only_constant(result), np.full(RANGE.shape, 7))


@pytest.mark.parametrize(
    ("dtype", "scale", "stays"), [("float32", 1000, False), ("float16", 1, False), ("float16", 997, True)]
)
def test_known_integers_that_meet_floats_are_floats(dtype: str, scale: int, stays: bool) -> None:
    """x + range: the sum would make floats of them itself. What 16 bits do not hold stays whole until it has been added."""
    chain = [arange("t"), op("mul", at("u"), at("t"), Constant(scale, "int32"))]
    chain.append(op("add", at("out", dtype), at("x", dtype), at("u")))
    result = folded(*chain, buffers=(replace(OUT, dtype=dtype), replace(X, dtype=dtype), flat("t"), flat("u")))
    assert rows(result) == ["add"]
    read = result.ops[0].inputs[1]
    assert isinstance(read, Access)
    assert read.dtype == ("int64" if stays else dtype)
    np.testing.assert_array_equal(constants(result)[read.buffer], scale * RANGE)
