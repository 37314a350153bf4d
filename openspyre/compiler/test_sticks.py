"""`stick_access` against brute force: every element of a view, found through the layout's own addressing."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings

from openspyre.compiler.ir import Access, Buffer, Dim, Role
from openspyre.compiler.sticks import Lanes, Misfit, StickAccess, stick_access
from openspyre.compiler.test_random_views import View, views
from openspyre.spec.layout import SpyreTensorLayout


def device_offsets(view: View) -> list[int]:
    layout = view.buffer.layout
    assert layout is not None
    addressing = layout.addressing(view.buffer.size, view.buffer.stride)
    return [addressing.device_offset(offset) for offset in view.host_offsets()]


def told_offsets(found: StickAccess, view: View, lanes: int) -> list[int]:
    """Where the answer says the elements are: per stick and lane along the lane dim, per step along the others."""
    offsets = []
    for index in product(*(range(dim.size) for dim in view.dims)):
        offset = found.offset
        for d, i in enumerate(index):
            offset += i // lanes * found.strides[d] + i % lanes if d == found.lane_dim else i * found.strides[d]
        offsets.append(offset)
    return offsets


def best_guess(view: View, offsets: list[int], lane_dim: int | None, lanes: int) -> StickAccess:
    """The only access along this dim there can be: strides as the first step of each dim shows them."""
    inner, strides = 1, [0] * len(view.dims)
    for d in reversed(range(len(view.dims))):
        step = lanes if d == lane_dim else 1
        if view.dims[d].size > step:
            strides[d] = offsets[step * inner] - offsets[0]
        inner *= view.dims[d].size
    kind = Lanes.SPLAT if lane_dim is None else Lanes.VECTOR
    return StickAccess(kind, lane_dim, offsets[0], tuple(strides))


def is_legal(view: View, offsets: list[int], lane_dim: int | None, lanes: int) -> bool:
    """Whether whole sticks, from their first lane on, give the elements."""
    guess = best_guess(view, offsets, lane_dim, lanes)
    aligned = guess.offset % lanes == 0 and all(stride % lanes == 0 for stride in guess.strides)
    return aligned and told_offsets(guess, view, lanes) == offsets


@settings(max_examples=400)
@given(views())
def test_an_access_is_what_the_addressing_says_and_a_misfit_is_one(view: View) -> None:
    layout = view.buffer.layout
    assert layout is not None
    lanes = layout.elems_per_stick()
    found = stick_access(view.access, view.dims, view.buffer)
    offsets = device_offsets(view)
    if isinstance(found, StickAccess):
        assert told_offsets(found, view, lanes) == offsets
        assert found.offset % lanes == 0
        assert (found.lanes is Lanes.VECTOR) == (found.lane_dim is not None)
    else:
        assert found.reason
        moving = [None, *(d for d, dim in enumerate(view.dims) if dim.size > 1)]
        assert not any(is_legal(view, offsets, lane_dim, lanes) for lane_dim in moving), found.reason


def row_of(size: int) -> Buffer:
    return Buffer("x", "float16", (4, size), (size, 1), Role.INPUT, SpyreTensorLayout([4, size], "float16"))


def test_the_reasons_tell_what_is_wrong() -> None:
    dims = (Dim("m", 4), Dim("n", 60))
    begins = stick_access(Access("x", 3, (70, 1), "float16"), dims, row_of(70))
    assert isinstance(begins, Misfit) and "lane 3" in begins.reason
    strided = stick_access(Access("x", 0, (70, 2), "float16"), (Dim("m", 4), Dim("n", 30)), row_of(70))
    assert isinstance(strided, Misfit) and "side by side" in strided.reason
    across = stick_access(Access("x", 0, (1,), "float16"), (Dim("all", 280),), row_of(70))
    assert isinstance(across, Misfit) and "across" in across.reason


def test_a_buffer_needs_a_layout_first() -> None:
    bare = Buffer("x", "float16", (4,), (1,), Role.INPUT)
    try:
        stick_access(Access("x", 0, (1,), "float16"), (Dim("n", 4),), bare)
    except ValueError as error:
        assert "'x' has no layout" in str(error)
    else:
        raise AssertionError("no layout was needed")


def test_a_view_may_run_on_from_one_dim_into_the_next_where_sticks_are_full() -> None:
    """Heads and their elements as one row: what a reshape after attention reads."""
    by_token = Buffer(
        "x",
        "float16",
        (2, 5, 64),
        (64, 128, 1),
        Role.TEMP,
        SpyreTensorLayout([2, 5, 64], [64, 128, 1], "float16", [0, 1, 2]),
    )
    view = View(by_token, Access("x", 0, (128, 1), "float16"), (Dim("s", 5), Dim("k", 128)))
    found = stick_access(view.access, view.dims, view.buffer)
    assert isinstance(found, StickAccess) and found.lane_dim == 1
    assert told_offsets(found, view, 64) == device_offsets(view)
    narrow = Buffer(
        "x",
        "float16",
        (2, 5, 32),
        (32, 64, 1),
        Role.TEMP,
        SpyreTensorLayout([2, 5, 32], [32, 64, 1], "float16", [0, 1, 2]),
    )
    padded = stick_access(Access("x", 0, (64, 1), "float16"), (Dim("s", 5), Dim("k", 64)), narrow)
    assert isinstance(padded, Misfit) and "across" in padded.reason


def test_a_diagonal_does_not_run_along_sticks() -> None:
    diagonal = stick_access(Access("x", 0, (71,), "float16"), (Dim("d", 4),), row_of(70))
    assert isinstance(diagonal, Misfit) and "another dimension" in diagonal.reason
