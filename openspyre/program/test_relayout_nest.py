"""Relayouts as nests, against the addresses of the elements that they move, one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from openspyre.program.model import Map, Operand, OperandKind, Relayout, View
from openspyre.program.reach import pieces
from openspyre.program.relayout_nest import nest_of
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout


def view(size: tuple[int, ...], order: tuple[int, ...], dims: tuple[int, ...], strides: tuple[int, ...]) -> View:
    layout = SpyreTensorLayout(size, row_major(size), "float16", order)
    return View("float16", layout, "float16", size, row_major(size), 0, dims, strides)


def moved(step: Relayout) -> list[tuple[int, int]]:
    """Places of every element on the device, before and after."""
    sides = []
    for side in (step.source, step.target):
        addressing = side.layout.addressing(side.buffer_size, side.buffer_stride)
        indices = product(*map(range, side.size))
        offsets = [side.offset + sum(i * s for i, s in zip(at, side.stride, strict=True)) for at in indices]
        sides.append([addressing.device_offset(offset) for offset in offsets])
    return sorted(zip(*sides, strict=True))


def walked(step: Map) -> list[tuple[int, int]]:
    found = []
    for *at, lane in product(*[range(dim.extent) for dim in step.dims], range(step.lane.extent)):
        (here,), (there,) = step.inputs, step.outputs
        steps = [o.offset + sum(i * s for i, s in zip(at, o.strides, strict=True)) for o in (here, there)]
        across = here.tile_stride if here.kind is OperandKind.STRIDED else 1
        found.append((steps[0] + lane * across, steps[1] + lane))
    return sorted(found)


def heads(batch: int, rows: int, count: int, width: int, order: tuple[int, ...]) -> Relayout:
    """Heads of a linear layer's results, each for itself in sticks of its own."""
    dims = (batch, count, rows, width)
    side = count * width
    source = view((batch * rows, side), (0, 1), dims, (rows * side, width, side, 1))
    target = view(dims, order, dims, row_major(dims))
    place = Operand(OperandKind.SPLAT, 0, 0, ())
    return Relayout("heads", (place,), (place,), source, target)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 70),
    st.integers(1, 6),
    st.sampled_from((8, 16, 24, 32, 48, 64, 96, 128)),
    st.sampled_from(((0, 1, 2, 3), (1, 2, 0, 3), (0, 1, 3, 2), (3, 1, 0, 2))),
)
def test_a_nest_moves_the_same_elements(batch: int, rows: int, count: int, width: int, order: tuple[int, ...]) -> None:
    step = heads(batch, rows, count, width, order)
    nest = nest_of(step)
    if nest is not None:
        assert walked(nest) == moved(step)
    for output in (False, True):
        touched = {
            piece.first + sum(i * s for i, (_, s) in zip(at, piece.grid, strict=True)) + lane
            for piece in pieces(step, 0, output=output)
            for at in product(*[range(n) for n, _ in piece.grid])
            for lane in range(piece.run)
        }
        assert {pair[output] for pair in moved(step)} <= touched


def test_heads_of_half_sticks_are_a_nest() -> None:
    step = heads(5, 9, 6, 32, (0, 1, 2, 3))
    nest = nest_of(step)
    assert nest is not None and nest.lane.extent == 32 and nest.inputs[0].kind is OperandKind.VECTOR
    assert prod(dim.extent for dim in nest.dims) == 5 * 6 * 9
    turned = nest_of(heads(5, 9, 6, 32, (0, 1, 3, 2)))
    assert turned is not None and turned.inputs[0].kind is OperandKind.STRIDED and turned.lane.extent == 9


def test_heads_that_run_over_the_end_of_a_stick_are_none() -> None:
    assert nest_of(heads(2, 3, 4, 48, (0, 1, 2, 3))) is None


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 90), st.integers(1, 90), st.integers(1, 90), st.integers(1, 4), st.integers(0, 40))
def test_rows_that_run_across_those_of_memory(columns: int, step: int, width: int, rows: int, offset: int) -> None:
    """A row of memory ends before its last stick does: places behind it are the next row's, not padding."""
    size = (-(-(offset + rows * step + width) // columns) + 1, columns)
    source = replace(view(size, (0, 1), (rows, width), (step, 1)), offset=offset)
    target = view((rows, width), (0, 1), (rows, width), (width, 1))
    place = Operand(OperandKind.SPLAT, 0, 0, ())
    relayout = Relayout("across", (place,), (place,), source, target)
    nest = nest_of(relayout)
    assert nest is None or walked(nest) == moved(relayout)
