"""Spans: after cutting and dividing, no core reaches further into a tensor than it may, and every element is still computed once."""

from __future__ import annotations

from itertools import product
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from openspyre.compiler.ir import Access, Buffer, Dim, Iota, Op, Program, Role
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.passes.limit_spans import LimitSpans
from openspyre.compiler.spans import widest
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout

SIZES = (
    st.lists(st.sampled_from([1, 2, 3, 8, 64, 100, 130]), min_size=1, max_size=3)
    .filter(lambda n: prod(n) <= 9000)
    .map(tuple)
)


def negation(size: tuple[int, ...], order: list[int]) -> Program:
    stride = row_major(size)
    layout = SpyreTensorLayout(list(size), list(stride), "float16", order)
    buffers = (
        Buffer("x", "float16", size, stride, Role.INPUT, layout),
        Buffer("y", "float16", size, stride, Role.OUTPUT, layout),
    )
    dims = tuple(Dim(f"d{i}", n) for i, n in enumerate(size))
    access = [Access(name, 0, stride, "float16") for name in ("x", "y")]
    return Program("p", buffers, (Op("op", "neg", dims, (access[0],), (access[1],)),))


def elements(op: Op) -> list[tuple[int, int]]:
    """(read, written) host offsets."""
    source, target = op.inputs[0], op.outputs[0]
    assert isinstance(source, Access)
    return [
        (
            source.offset + sum(i * s for i, s in zip(at, source.strides, strict=True)),
            target.offset + sum(i * s for i, s in zip(at, target.strides, strict=True)),
        )
        for at in product(*(range(dim.size) for dim in op.dims))
    ]


@settings(max_examples=60, deadline=None)
@given(SIZES, st.randoms(use_true_random=False), st.sampled_from([1, 4, 32]), st.sampled_from([256, 1024, 8192]))
def test_no_core_reaches_too_far_and_nothing_is_lost(size: tuple[int, ...], random, cores: int, limit: int) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(size)))
    random.shuffle(order)
    program = negation(size, order)
    cut = DivideWork(cores, limit=limit).run(LimitSpans(cores, limit).run(program))
    buffers = {buffer.name: buffer for buffer in cut.buffers}
    for op in cut.ops:
        assert widest(op, buffers, [dim.split for dim in op.dims])[0] <= limit
    found = sorted(pair for op in cut.ops for pair in elements(op))
    assert found == [(n, n) for n in range(len(found))] and len(found) == len(elements(program.ops[0]))


def test_counted_operands_count_on_in_the_later_parts() -> None:
    size = (64, 256)
    program = negation(size, [0, 1])
    op = program.ops[0]
    iota = Op("iota", "iota", op.dims, (Iota(5, (256, 1)),), op.outputs)
    parts = LimitSpans(1, 4096).run(Program("p", program.buffers, (iota,))).ops
    assert len(parts) > 1
    for part in parts:
        counted = part.inputs[0]
        assert isinstance(counted, Iota) and counted.offset == 5 + part.outputs[0].offset


def turned_copy(target: str) -> Program:
    """A (64, 512) buffer copied to another, or to the same, in the other order of dims."""
    size, other = (64, 512), (512, 64)
    buffers = tuple(
        Buffer(
            name, "float16", n, row_major(n), role, SpyreTensorLayout(list(n), list(row_major(n)), "float16", [0, 1])
        )
        for name, n, role in (("x", size, Role.UPDATE), ("y", other, Role.OUTPUT))
    )
    dims = (Dim("a", 64), Dim("b", 512))
    out = Access(target, 0, (1, 64), "float16")
    return Program("p", buffers, (Op("copy", "relayout", dims, (Access("x", 0, (512, 1), "float16"),), (out,)),))


def test_a_copy_is_cut_inside_sticks_where_it_must_be() -> None:
    program = turned_copy("y")
    parts = LimitSpans(32, 4096).run(program).ops
    buffers = {buffer.name: buffer for buffer in program.buffers}
    assert all(widest(op, buffers, [1, 1])[0] <= 4096 for op in parts)
    assert any(dim.size < 64 for op in parts for dim in op.dims)
    found = sorted(pair for op in parts for pair in elements(op))
    assert found == sorted(elements(program.ops[0]))


def test_a_copy_that_could_meet_itself_is_not_cut() -> None:
    program = turned_copy("x")
    assert LimitSpans(32, 4096).run(program).ops == program.ops


def test_what_no_cut_can_help_is_not_cut() -> None:
    """The reduced dim alone is further than a core reaches."""
    program = negation((64, 512), [0, 1])
    op = program.ops[0]
    dims = (Dim("a", 64), Dim("b", 512, reduced=True))
    total = Op("sum", "sum", dims, op.inputs, (Access("y", 0, (512, 0), "float16"),))
    program = Program("p", program.buffers, (total,))
    assert LimitSpans(1, 4096).run(program).ops == (total,)


def test_small_programs_are_left_alone() -> None:
    program = negation((64, 64), [0, 1])
    assert LimitSpans().run(program) is program
