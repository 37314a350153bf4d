"""Relayouts one behind the other against numpy: random views of flat memories, moved step by step and by what the rules make."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre.backend.fusion import FuseSteps
from openspyre.backend.fusion.relayouts import covered, read_through, rolled, steady, written_through
from openspyre.program.model import Operand, OperandKind, Program, Relayout, Use, View
from openspyre.program.verify import problems
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout

X, Y, POOL = range(3)
Cut = tuple[int, tuple[int, ...], tuple[int, ...]]  # offset, sizes, strides


Side = tuple[int, View]


def view(symbol: int, size: tuple[int, ...], cut: Cut) -> Side:
    layout = SpyreTensorLayout(size, "float16")
    offset, sizes, strides = cut
    return symbol, View("float16", layout, "float16", size, row_major(size), offset, sizes, strides)


def step(name: str, source: Side, target: Side) -> Relayout:
    reads, writes = (Operand(OperandKind.SPLAT, symbol, 0, ()) for symbol, _ in (source, target))
    return Relayout(name, (reads,), (writes,), source[1], target[1])


def offsets(of: View) -> list[int]:
    index = product(*map(range, of.size))
    return [of.offset + sum(i * s for i, s in zip(at, of.stride, strict=True)) for at in index]


def run(steps: list[Relayout], sizes: dict[int, int]) -> dict[int, NDArray[np.int64]]:
    memory = {symbol: np.arange(size) + 10_000 * (1 + symbol) for symbol, size in sizes.items()}
    for each in steps:
        (source,), (target,) = each.inputs, each.outputs
        memory[target.symbol][offsets(each.target)] = memory[source.symbol][offsets(each.source)]
    return memory


@st.composite
def cuts(draw: st.DrawFn, size: tuple[int, ...]) -> Cut:
    """A part of a tensor, with steps, its dims in any order; now and then all of it as one dim, or in other ones."""
    if draw(st.integers(0, 4)) == 0:
        whole = prod(size)
        inner = draw(st.sampled_from([n for n in range(1, whole + 1) if whole % n == 0]))
        return 0, (whole // inner, inner), (inner, 1)
    walked, offset = [], 0
    for extent, stride in zip(size, row_major(size), strict=True):
        first = draw(st.integers(0, extent - 1))
        by = draw(st.sampled_from([1, 1, 2]))
        count = draw(st.integers(1, (extent - 1 - first) // by + 1))
        offset += first * stride
        walked.append((count, by * stride))
    walked = draw(st.permutations(walked))
    return offset, tuple(n for n, _ in walked), tuple(s for _, s in walked)


SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)


@settings(max_examples=300)
@given(st.data())
def test_reading_through_is_moving_twice(data: st.DataObject) -> None:
    temp = data.draw(SHAPES)
    here, there = data.draw(cuts(temp)), data.draw(cuts(temp))
    big = (prod(here[1]) + 3,)
    maker = step("a", view(X, big, (2, here[1], row_major(here[1]))), view(POOL, temp, here))
    fit = (prod(there[1]),)
    reader = step("b", view(POOL, temp, there), view(Y, fit, (0, there[1], row_major(there[1]))))
    inside = set(offsets(reader.source)) <= set(offsets(maker.target))
    made = read_through(reader, maker)
    assert made is None or inside
    assume(made is not None)
    assert made is not None and made.inputs[0].symbol == X
    sizes = {X: big[0], Y: fit[0], POOL: prod(temp)}
    np.testing.assert_array_equal(run([made], sizes)[Y], run([maker, reader], sizes)[Y])


def test_reading_through_a_reshape_counts_on_through_its_dims() -> None:
    maker = step("a", view(X, (4, 6), (0, (4, 6), (6, 1))), view(POOL, (24,), (0, (4, 6), (6, 1))))
    reader = step("b", view(POOL, (24,), (3, (3, 5), (5, 1))), view(Y, (3, 5), (0, (3, 5), (5, 1))))
    made = read_through(reader, maker)
    assert made is not None and (made.source.offset, made.source.stride) == (3, (5, 1))


@settings(max_examples=300)
@given(st.data())
def test_writing_through_is_moving_twice(data: st.DataObject) -> None:
    """Two pieces into a temp that is moved as a whole: where they cover it, the same by writing there at once."""
    rows, columns, first = data.draw(st.integers(1, 5)), data.draw(st.integers(2, 6)), data.draw(st.integers(1, 5))
    first = min(first, columns - 1)
    temp = (rows, columns)
    turned = data.draw(st.booleans())
    pieces = []
    for name, start, size in (("a", 0, first), ("b", first, columns - first)):
        source = view(X, (rows * columns,), (start, (rows, size), (columns, 1)))
        pieces.append(step(name, source, view(POOL, temp, (start, (rows, size), (columns, 1)))))
    strides = (1, rows) if turned else (columns, 1)
    reader = step("c", view(POOL, temp, (0, temp, (columns, 1))), view(Y, (rows * columns,), (0, temp, strides)))
    assert covered(reader, pieces) and not covered(reader, pieces[:1]) and not covered(reader, [pieces[0], pieces[0]])
    made = [found for piece in pieces if (found := written_through(piece, reader)) is not None]
    assert len(made) == 2
    sizes = {X: rows * columns, Y: rows * columns, POOL: rows * columns}
    np.testing.assert_array_equal(run(made, sizes)[Y], run([*pieces, reader], sizes)[Y])


def test_copies_that_go_on_by_equal_steps_are_one() -> None:
    windows = [
        step(f"w{k}", view(X, (4, 23), (k, (4, 20), (23, 1))), view(Y, (4, 3, 20), (20 * k, (4, 20), (60, 1))))
        for k in range(3)
    ]
    other = replace(windows[2], source=replace(windows[2].source, offset=3))
    assert steady(windows) == 3 and steady([*windows[:2], other]) == 2 and steady(windows[::-1]) == 1
    sizes = {X: 92, Y: 240}
    np.testing.assert_array_equal(run([rolled(*windows)], sizes)[Y], run(windows, sizes)[Y])


def chain(keeps: bool) -> Program:
    """A part of a stick of y is written: by way of a temp in which that is a whole row of sticks."""
    x, y, temp = (4, 5), (4, 33), (4, 33)
    whole = (0, temp, (33, 1))
    steps = [step("keep", view(Y, y, whole), view(POOL, temp, whole))] if keeps else []
    steps.append(step("put", view(X, x, (0, x, (5, 1))), view(POOL, temp, (7, x, (33, 1)))))
    steps.append(step("whole", view(POOL, temp, whole), view(Y, y, whole)))
    pool = steps[-1].source.layout.device_bytes
    return Program("p", ("x", "y"), (), tuple(steps), pool, uses=(Use.READ, Use.SHARED))


def test_what_was_kept_is_not_moved_there_and_back() -> None:
    fused = FuseSteps().fused(chain(keeps=True))
    assert fused.problems == () and problems(fused.program) == []
    (only,) = fused.program.steps
    assert isinstance(only, Relayout) and only.name == "put" and only.target.offset == 7
    assert [operand.symbol for operand in (*only.inputs, *only.outputs)] == [X, Y]


def test_a_temp_that_is_written_in_part_alone_stays() -> None:
    program = chain(keeps=False)
    assert FuseSteps().run(program).steps == program.steps
