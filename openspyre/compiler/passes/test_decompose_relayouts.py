"""Relayouts as moves of the hardware: which there are, and that they leave the same elements, computed by numpy on host offsets."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre.compiler.emit.shared import has_hardware_op
from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.decompose_relayouts import DecomposeRelayouts
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.passes.limit_spans import LimitSpans
from openspyre.compiler.passes.place_buffers import PlaceBuffers
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import host_elements, row_major
from openspyre.spec.layout import SpyreTensorLayout

Memory = dict[str, NDArray[np.int64]]


def buffer(
    name: str, size: tuple[int, ...], role: Role, order: list[int] | None = None, dtype: str = "float16"
) -> Buffer:
    layout = SpyreTensorLayout(list(size), list(row_major(size)), dtype, order or list(range(len(size))))
    return Buffer(name, dtype, size, row_major(size), role, layout)


def relayout(
    name: str,
    sizes: tuple[int, ...],
    source: tuple[str, int, tuple[int, ...]],
    target: tuple[str, int, tuple[int, ...]],
) -> Op:
    dims = tuple(Dim(f"d{d}", size) for d, size in enumerate(sizes))
    (read, written) = (Access(*side, "float16") for side in (source, target))
    return Op(name, "relayout", dims, (read,), (written,))


def decomposed(program: Program) -> Program:
    program = PlaceBuffers().run(DivideWork().run(DecomposeRelayouts().run(program)))
    assert Verifier(lowered=True).problems(program) == []
    return program


def offsets(access: Access, dims: tuple[Dim, ...]) -> list[int]:
    index = product(*(range(dim.size) for dim in dims))
    return [access.offset + sum(i * step for i, step in zip(at, access.strides, strict=True)) for at in index]


def moved(program: Program, memory: Memory) -> Memory:
    """What ops leave behind; temps begin with numbers that would show."""
    found: dict[str, NDArray[Any]] = {b.name: np.full(host_elements(b.size, b.stride), -1) for b in program.buffers}
    found |= {name: array.copy() for name, array in memory.items()}
    for op in program.ops:
        read, written = (offsets(access, op.dims) for access in op.accesses)
        found[op.outputs[0].buffer][written] = found[op.accesses[0].buffer][read]
    return {name: found[name] for name in memory}


def holding(program: Program) -> Memory:
    kept = [b for b in program.buffers if b.role is not Role.TEMP]
    return {b.name: np.arange(prod(b.size)) + 10_000 * (1 + n) for n, b in enumerate(kept)}


INPUT, UPDATE, OUTPUT = Role.INPUT, Role.UPDATE, Role.OUTPUT
X, Y = "x", "y"
CASES = {
    "a start within a stick": (
        [buffer(X, (9, 70), INPUT), buffer(Y, (5, 37), OUTPUT)],
        [relayout("r", (5, 37), (X, 143, (70, 1)), (Y, 0, (37, 1)))],
    ),
    "a stride along the stick": (
        [buffer(X, (4, 6, 16), INPUT), buffer(Y, (4, 6, 8), OUTPUT)],
        [relayout("r", (4, 6, 8), (X, 1, (96, 16, 2)), (Y, 0, (48, 8, 1)))],
    ),
    "one value a stick": (
        [buffer(X, (70,), INPUT), buffer(Y, (70,), OUTPUT, [0, -1])],
        [relayout("r", (70,), (X, 0, (1,)), (Y, 0, (1,)))],
    ),
    "from one value a stick": (
        [buffer(X, (5, 33), INPUT, [0, 1, -1]), buffer(Y, (5, 33), OUTPUT)],
        [relayout("r", (5, 33), (X, 0, (33, 1)), (Y, 0, (33, 1)))],
    ),
    "dims that run into each other": (
        [buffer(X, (6, 10), INPUT), buffer(Y, (4, 15), OUTPUT)],
        [relayout("r", (60,), (X, 0, (1,)), (Y, 0, (1,)))],
    ),
    "a part of a stick": (
        [buffer(X, (4, 4), INPUT), buffer(Y, (4, 33), UPDATE)],
        [relayout("r", (4, 4), (X, 0, (4, 1)), (Y, 5, (33, 1)))],
    ),
    "pieces": (
        [buffer(X, (4, 33), INPUT), buffer(Y, (4, 33), OUTPUT)],
        [
            relayout("a", (4, 13), (X, 20, (33, 1)), (Y, 0, (33, 1))),
            relayout("b", (4, 20), (X, 0, (33, 1)), (Y, 13, (33, 1))),
        ],
    ),
    "windows": (
        [buffer(X, (2, 4, 23), INPUT), buffer(Y, (2, 4, 4, 20), OUTPUT)],
        [relayout("r", (2, 4, 4, 20), (X, 0, (92, 23, 1, 1)), (Y, 0, (320, 80, 20, 1)))],
    ),
    "a column": (
        [buffer(X, (8, 16), INPUT), buffer(Y, (8,), OUTPUT)],
        [relayout("r", (8,), (X, 3, (16,)), (Y, 0, (1,)))],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_hardware_has_all_moves(case: tuple[list[Buffer], list[Op]]) -> None:
    program = Program("p", tuple(case[0]), tuple(case[1]))
    found = decomposed(program)
    assert {op.row for op in found.ops} <= {"identity", "restickify"}
    buffers = {buffer.name: buffer for buffer in found.buffers}
    assert all(has_hardware_op(op, buffers) for op in found.ops)
    memory = holding(program)
    for name, expected in moved(program, memory).items():
        np.testing.assert_array_equal(moved(found, memory)[name], expected)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_moves_that_reach_too_far_are_cut(case: tuple[list[Buffer], list[Op]]) -> None:
    program = Program("p", tuple(case[0]), tuple(case[1]))
    cut = LimitSpans(limit=1024).run(DecomposeRelayouts().run(program))
    found = PlaceBuffers().run(DivideWork(limit=1024).run(cut))
    assert Verifier(lowered=True).problems(found) == []
    memory = holding(program)
    np.testing.assert_array_equal(moved(found, memory)[Y], moved(program, memory)[Y])


def test_pieces_are_put_together_once() -> None:
    buffers, ops = CASES["pieces"]
    found = decomposed(Program("p", tuple(buffers), tuple(ops)))
    assert [op.name for op in found.ops if op.outputs[0].buffer == Y] == ["y.whole"]


def test_pieces_lie_where_little_is_padding() -> None:
    """Two halves of a stick, as rotary positions have them: along 2 batches, 62 of 64 lanes of the temp would be padding."""
    size, step = (2, 128, 64), row_major((2, 128, 64))
    halves = [relayout(n, (2, 128, 32), (X, 32 - at, step), (Y, at, step)) for n, at in (("a", 0), ("b", 32))]
    found = decomposed(Program("p", (buffer(X, size, INPUT), buffer(Y, size, OUTPUT)), tuple(halves)))
    (temp,) = [each.layout for each in found.buffers if each.name == "y.pieces"]
    assert temp is not None and temp.device_bytes == 2 * 2 * 128 * 64


def test_what_would_be_spread_too_far_stays() -> None:
    """Neither side has a dim that could run along the sticks of a temp: only one value a stick would do."""
    size = (1 << 20,)
    buffers = (buffer(X, (7 + size[0],), INPUT), buffer(Y, size, OUTPUT))
    program = Program("p", buffers, (relayout("r", size, (X, 7, (1,)), (Y, 0, (1,))),))
    assert decomposed(program).ops == program.ops


def test_a_restickify_is_divided_where_its_sticks_are_whole() -> None:
    buffers = (buffer(X, (5, 128, 70), INPUT), buffer(Y, (5, 128, 70), OUTPUT, [0, 2, 1]))
    step = row_major((5, 128, 70))
    program = Program("p", buffers, (relayout("r", (5, 128, 70), (X, 0, step), (Y, 0, step)),))
    (op,) = decomposed(program).ops
    assert (op.row, [dim.split for dim in op.dims]) == ("restickify", [5, 2, 1])


@st.composite
def sides(draw: st.DrawFn, name: str, sizes: tuple[int, ...], role: Role) -> tuple[Buffer, Access]:
    """A buffer with any dim along its sticks, or none, and a view of it: dims in any order, from anywhere, with steps."""
    order = draw(st.permutations(range(len(sizes))))
    starts = [draw(st.sampled_from([0, 0, 1, 5])) for _ in sizes]
    steps = [draw(st.sampled_from([1, 1, 2])) for _ in sizes]
    rest = [draw(st.integers(0, 2)) for _ in sizes]
    held = tuple(starts[d] + (sizes[d] - 1) * steps[d] + 1 + rest[d] for d in order)
    lies: list[int] = draw(st.permutations(range(len(sizes))))
    found = buffer(name, held, role, [*lies, -1] if draw(st.integers(0, 3)) == 0 else lies)
    by_dim = dict(zip(order, found.stride, strict=True))
    offset = sum(starts[d] * by_dim[d] for d in range(len(sizes)))
    return found, Access(name, offset, tuple(steps[d] * by_dim[d] for d in range(len(sizes))), "float16")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_relayouts_keep_their_meaning(data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.lists(st.sampled_from([2, 3, 5, 33, 64, 66]), min_size=1, max_size=3)))
    if prod(sizes) > 5000:
        sizes = sizes[:1]
    here, read = data.draw(sides(X, sizes, INPUT))
    there, written = data.draw(sides(Y, sizes, data.draw(st.sampled_from([UPDATE, OUTPUT]))))
    dims = tuple(Dim(f"d{d}", size) for d, size in enumerate(sizes))
    program = Program("p", (here, there), (Op("r", "relayout", dims, (read,), (written,)),))
    found = decomposed(program)
    memory = holding(program)
    chosen = slice(None) if there.role is UPDATE else offsets(written, dims)  # what nobody wrote is nobody's
    np.testing.assert_array_equal(moved(found, memory)[Y][chosen], moved(program, memory)[Y][chosen])
