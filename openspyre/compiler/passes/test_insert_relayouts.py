"""Relayouts: every access legal afterwards, results unchanged (an interpreter of its own is the judge), moves only where needed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.insert_relayouts import InsertRelayouts
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.compiler.test_random_views import View, views
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE

Array = NDArray[np.int64]


def interpret(program: Program, inputs: dict[str, Array]) -> dict[str, Array]:
    """Host memory as flat arrays; the rows these tests use, element by element."""
    memory = {b.name: inputs.get(b.name, np.full(int(np.prod(b.size)), -1)) for b in program.buffers}
    memory = {name: array.copy() for name, array in memory.items()}
    for op in program.ops:
        for index in product(*(range(dim.size) for dim in op.dims)):
            values = [memory[a.buffer][place(a, index)] for a in op.inputs if isinstance(a, Access)]
            (output,) = op.outputs
            memory[output.buffer][place(output, index)] = sum(values)
    return memory


def place(access: Access, index: tuple[int, ...]) -> int:
    return access.offset + sum(i * stride for i, stride in zip(index, access.strides, strict=True))


def sum_of(first: View, second: View, order: list[int]) -> Program:
    """first + second where their dims agree in size, broadcast elsewhere, into an output whose dims lie in any order."""
    sizes = [max(a.size, b.size) for a, b in zip(first.dims, second.dims, strict=True)]
    dims = tuple(Dim(f"d{i}", size) for i, size in enumerate(sizes))
    operands = [
        replace(v.access, strides=tuple(s if d.size > 1 else 0 for s, d in zip(v.access.strides, v.dims, strict=True)))
        for v in (first, second)
    ]
    size = tuple(sizes[d] for d in order)
    strides = dict(zip(order, row_major(size), strict=True))
    layout = SpyreTensorLayout(list(size), "float16")
    out = Buffer("out", "float16", size, row_major(size), Role.OUTPUT, layout)
    result = Access("out", 0, tuple(strides[d] for d in range(len(dims))), "float16")
    return Program("sum", (first.buffer, second.buffer, out), (Op("sum", "add", dims, tuple(operands), (result,)),))


@st.composite
def sums(draw: st.DrawFn) -> Program:
    first = draw(views("a", "float16").filter(lambda v: 1 <= len(v.dims) <= 4))
    sizes = [dim.size if draw(st.booleans()) else 1 for dim in first.dims]
    order = draw(st.permutations(range(len(sizes))))
    layout = SpyreTensorLayout(sizes, list(row_major(sizes)), "float16", order)
    other = Buffer("b", "float16", tuple(sizes), row_major(sizes), Role.INPUT, layout)
    second = View(other, Access("b", 0, other.stride, "float16"), tuple(Dim(f"d{i}", n) for i, n in enumerate(sizes)))
    return sum_of(first, second, draw(st.permutations(range(len(sizes)))))


@settings(max_examples=60)
@given(sums())
def test_afterwards_every_access_is_legal_and_nothing_else_has_changed(program: Program) -> None:
    legal = InsertRelayouts().run(program)
    assert Verifier().problems(legal) == []
    for op in legal.ops:
        if TABLE[op.row].by_view:
            continue
        found = [stick_access(access, op.dims, legal.buffer(access.buffer)) for access in op.accesses]
        assert all(isinstance(answer, StickAccess) for answer in found)
        assert len({answer.lane_dim for answer in found if isinstance(answer, StickAccess)} - {None}) <= 1
    generator = np.random.default_rng(0)
    inputs = {
        b.name: generator.integers(0, 1000, int(np.prod(b.size))) for b in program.buffers if b.role is Role.INPUT
    }
    assert np.array_equal(interpret(legal, inputs)["out"], interpret(program, inputs)["out"])


def matrix(name: str, role: Role, order: tuple[int, int] = (0, 1), shape: tuple[int, int] = (33, 70)) -> Buffer:
    layout = SpyreTensorLayout(list(shape), list(row_major(shape)), "float16", order)
    return Buffer(name, "float16", shape, row_major(shape), role, layout)


DIMS = (Dim("m", 33), Dim("n", 70))


def moves(program: Program) -> list[tuple[str, str]]:
    """What is moved where."""
    return [(op.inputs[0].buffer, op.outputs[0].buffer) for op in program.ops if op.row == "relayout"]  # type: ignore[union-attr]


def run(buffers: tuple[Buffer, ...], *ops: Op) -> Program:
    return InsertRelayouts().run(Program("p", buffers, ops))


def access(name: str, strides: tuple[int, int] = (70, 1), offset: int = 0) -> Access:
    return Access(name, offset, strides, "float16")


def test_what_fits_stays() -> None:
    buffers = (matrix("a", Role.INPUT), matrix("out", Role.OUTPUT))
    assert moves(run(buffers, Op("op", "neg", DIMS, (access("a"),), (access("out"),)))) == []


def test_a_row_is_a_vector_and_a_column_is_spread_over_sticks() -> None:
    buffers = (matrix("a", Role.INPUT), matrix("out", Role.OUTPUT))
    row = run(buffers, Op("op", "add", DIMS, (access("a"), access("a", (0, 1))), (access("out"),)))
    assert moves(row) == []
    column = run(buffers, Op("op", "add", DIMS, (access("a"), access("a", (70, 0), 3)), (access("out"),)))
    ((source, target),) = moves(column)
    layout = column.buffer(target).layout
    assert source == "a" and layout is not None
    assert column.buffer(target).size == (33,) and layout.stride_map[-1] == -1  # one value a stick


def test_the_minority_is_moved() -> None:
    buffers = (matrix("a", Role.INPUT, (1, 0)), matrix("b", Role.INPUT), matrix("out", Role.OUTPUT))
    program = run(buffers, Op("op", "add", DIMS, (access("a"), access("b")), (access("out"),)))
    assert [source for source, _ in moves(program)] == ["a"]


def test_an_output_that_does_not_fit_is_stored_afterwards() -> None:
    wide = Buffer("out", "float16", (33, 80), (80, 1), Role.UPDATE, SpyreTensorLayout([33, 80], "float16"))
    program = run((matrix("a", Role.INPUT), wide), Op("op", "neg", DIMS, (access("a"),), (access("out", (80, 1), 5),)))
    assert [op.row for op in program.ops] == ["neg", "relayout"]
    assert program.ops[0].outputs[0].buffer == program.ops[1].inputs[0].buffer  # type: ignore[union-attr]
    assert program.ops[1].outputs[0] == access("out", (80, 1), 5)


def test_a_move_is_shared_until_its_source_is_written() -> None:
    turned = matrix("a", Role.UPDATE, (1, 0))
    buffers = (turned, matrix("b", Role.OUTPUT), matrix("c", Role.OUTPUT))
    first = Op("first", "neg", DIMS, (access("a"),), (access("b"),))
    second = Op("second", "exp", DIMS, (access("a"),), (access("c"),))
    assert len(moves(run(buffers, first, second))) == 1
    write = Op("write", "neg", DIMS, (access("b"),), (access("a"),))
    assert [source for source, _ in moves(run(buffers, first, write, second))].count("a") == 2


MOVED_FACTORS = {"as they lie": ((0, 1), (0, 1), []), "the second turned": ((0, 1), (1, 0), []),
                 "the first turned": ((1, 0), (0, 1), ["a"]), "both turned": ((1, 0), (1, 0), ["a"])}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "moved"), MOVED_FACTORS.values(), ids=MOVED_FACTORS)
def test_a_contraction_reads_along_k_and_its_second_operand_along_n_or_k(
    first: tuple[int, int], second: tuple[int, int], moved: list[str]
) -> None:
    a, b = matrix("a", Role.INPUT, first), matrix("b", Role.INPUT, second, (70, 21))
    out = matrix("out", Role.OUTPUT, (0, 1), (33, 21))
    dims = (Dim("m", 33), Dim("n", 21), Dim("k", 70, reduced=True))
    reads = (Access("a", 0, (70, 0, 1), "float16"), Access("b", 0, (0, 1, 21), "float16"))
    program = run((a, b, out), Op("mm", "batchmatmul", dims, reads, (Access("out", 0, (21, 1, 0), "float16"),)))
    assert [source for source, _ in moves(program)] == moved
    lanes = [stick_access(x, dims, program.buffer(x.buffer)) for x in program.ops[-1].accesses]
    assert [found.lane_dim for found in lanes if isinstance(found, StickAccess)] == [2, 2 if second[0] else 1, 1]


def test_a_second_operand_along_neither_is_moved() -> None:
    """A batch of matrices whose sticks run along the batch."""
    a = Buffer("a", "float16", (65, 33, 70), (2310, 70, 1), Role.INPUT, SpyreTensorLayout([65, 33, 70], "float16"))
    turned = SpyreTensorLayout([65, 70, 21], [1470, 21, 1], "float16", [1, 2, 0])
    b = Buffer("b", "float16", (65, 70, 21), (1470, 21, 1), Role.INPUT, turned)
    out = Buffer("out", "float16", (65, 33, 21), (693, 21, 1), Role.OUTPUT, SpyreTensorLayout([65, 33, 21], "float16"))
    dims = (Dim("b", 65), Dim("m", 33), Dim("n", 21), Dim("k", 70, reduced=True))
    reads = (Access("a", 0, (2310, 70, 0, 1), "float16"), Access("b", 0, (1470, 0, 1, 21), "float16"))
    written = (Access("out", 0, (693, 21, 1, 0), "float16"),)
    program = run((a, b, out), Op("mm", "batchmatmul", dims, reads, written))
    assert [source for source, _ in moves(program)] == ["b"]
