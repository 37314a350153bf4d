"""Where one step's points lie in another's dims: worked out by hand, and walked through point by point."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from openspyre.backend.fusion.nests import Fit, Reference, fit, refined, widened
from openspyre.program.model import Dim, LaneBlock, LoopNest, Operand, OperandKind

STORED, READ = Reference(True, 0), Reference(False, 0)


def operand(*strides: int, offset: int = 0, symbol: int = 0, tile: int = 0, full: bool = False) -> Operand:
    kind = ("float32", "IEEE_FP32") if full else ("float16", "SEN169_FP16")
    return Operand(OperandKind.VECTOR, symbol, offset, strides, tile, *kind)


def step(extents: tuple[int, ...], source: Operand, target: Operand, lane: LaneBlock | None = None) -> LoopNest:
    lane = lane or LaneBlock(64, 64, -1)
    return LoopNest("s", tuple(Dim(extent) for extent in extents), lane, (source,), (target,))


def addresses(walked: Operand, extents: tuple[int, ...]) -> list[int]:
    return [
        walked.offset + sum(i * s for i, s in zip(index, walked.strides, strict=True))
        for index in product(*(range(extent) for extent in extents))
    ]


def pairs(maker: LoopNest) -> dict[int, int]:
    """What a maker reads for each element it stores."""
    extents = tuple(dim.extent for dim in maker.dims)
    stored, read = addresses(maker.outputs[0], extents), addresses(maker.inputs[0], extents)
    return dict(zip(stored, read, strict=True))


def agrees(found: Fit[LoopNest, LoopNest]) -> bool:
    """At every point of the frame, the carried input is what the maker read for the element read there."""
    extents = tuple(dim.extent for dim in found.frame.dims)
    known = pairs(found.guest)
    read = addresses(found.frame.inputs[0], extents)
    carried = addresses(found.carried(found.guest.inputs[0]), extents)
    return [known[at] for at in read] == carried


def test_dims_in_another_order_correspond_by_their_strides() -> None:
    maker = step((48, 4), operand(256, 64, symbol=1), operand(64, 3072))
    reader = step((4, 48), operand(3072, 64), operand(64, 256, symbol=2))
    found = fit(reader, READ, maker, STORED)
    assert found is not None
    assert found.steps == ((1, 1), (0, 1))
    assert found.exact
    assert found.carried(maker.inputs[0]).strides == (64, 256)


def test_a_dim_over_two_of_the_makers_is_cut() -> None:
    maker = step((6, 4), operand(1000, 64, symbol=1), operand(256, 64))
    reader = step((24,), operand(64), operand(64, symbol=2))
    found = fit(reader, READ, maker, STORED)
    assert found is not None
    assert [dim.extent for dim in found.frame.dims] == [6, 4]
    assert found.exact
    assert agrees(found)


def test_a_slice_begins_in_the_middle_and_is_not_exact() -> None:
    maker = step((6, 4), operand(1000, 64, symbol=1), operand(256, 64))
    reader = step((2, 2), operand(256, 64, offset=3 * 256 + 64), operand(128, 64, symbol=2))
    found = fit(reader, READ, maker, STORED)
    assert found is not None
    assert found.start == (3, 1)
    assert not found.exact
    assert agrees(found)


def test_what_the_maker_never_wrote_has_no_place() -> None:
    maker = step((6, 4), operand(1000, 64, symbol=1), operand(256, 64))
    beyond = step((6, 4), operand(256, 64, offset=256), operand(256, 64, symbol=2))
    between = step((6, 4), operand(256, 64, offset=32), operand(256, 64, symbol=2))
    assert fit(beyond, READ, maker, STORED) is None
    assert fit(between, READ, maker, STORED) is None


def test_a_shared_value_is_found_but_not_exact() -> None:
    maker = step((4,), operand(64, symbol=1), operand(64))
    reader = step((9, 4), operand(0, 64), operand(256, 64, symbol=2))
    found = fit(reader, READ, maker, STORED)
    assert found is not None
    assert found.steps == (None, (0, 1))
    assert not found.exact


def test_full_precision_steps_widen_to_go_with_half_precision_ones() -> None:
    narrow = step((48, 8), operand(256, 32, full=True), operand(256, 32, full=True, symbol=1), LaneBlock(32, 256, 1))
    wide = widened(narrow, 64)
    assert wide is not None
    assert (wide.dims[1].extent, wide.lane) == (4, LaneBlock(64, 256, 1))
    assert (wide.inputs[0].strides, wide.inputs[0].tile_stride) == ((256, 64), 32)


def test_an_odd_stick_is_never_loaded_with_one_that_is_not_there() -> None:
    lane = LaneBlock(32, 200, 1)
    narrow = step((48, 7), operand(224, 32, full=True), operand(224, 32, full=True, symbol=1), lane)
    assert widened(narrow, 64) is None
    wide = widened(narrow, 64, leaving=narrow.inputs[0])
    assert wide is not None
    assert (wide.dims[1].extent, wide.lane) == (4, LaneBlock(64, 200, 1))


def test_lanes_that_end_otherwise_are_not_exact() -> None:
    maker = step((2,), operand(64, symbol=1), operand(64), LaneBlock(64, 100, 0))
    reader = step((2,), operand(64), operand(64, symbol=2), LaneBlock(64, 80, 0))
    found = fit(reader, READ, maker, STORED)
    assert found is not None
    assert not found.exact
    beyond = fit(replace(reader, lane=LaneBlock(64, 128, 0)), READ, maker, STORED)
    assert beyond is None, "lanes 100 to 127 are somebody else's"
    same = fit(replace(reader, lane=maker.lane), READ, maker, STORED)
    assert same is not None
    assert same.exact


@given(st.permutations([(2, 1), (3, 2), (4, 6), (5, 24)]), st.integers(1, 4), st.data())
def test_wherever_a_fit_is_found_it_names_the_makers_element(
    dims: list[tuple[int, int]], cut: int, data: st.DataObject
) -> None:
    """A maker of 120 sticks in any order of dims; readers with dims of their own choice over the same buffer."""
    extents = tuple(extent for extent, _ in dims)
    maker = step(extents, operand(*(7919 * (k + 1) for k in range(4)), symbol=1), operand(*(64 * s for _, s in dims)))
    inner = data.draw(st.sampled_from([1, 2, 3, 4, 6, 12, 24]))
    outer = data.draw(st.integers(1, 120 // inner // cut))
    first = data.draw(st.integers(0, 120 - ((outer - 1) * cut + 1) * inner))
    reader = step((outer, inner), operand(64 * inner * cut, 64, offset=64 * first), operand(64 * inner, 64, symbol=2))
    found = fit(reader, READ, maker, STORED)
    if found is not None:
        assert agrees(found)
        assert not found.exact or outer * inner == 120


def test_cut_dims_keep_all_cores_where_they_can() -> None:
    made = replace(step((24,), operand(64), operand(64, symbol=1)), dims=(Dim(24, 8),))
    cut = refined(made, 0, 4)
    assert cut is not None
    assert cut.dims == (Dim(6, 2), Dim(4, 4))
    assert cut.inputs[0].strides == (256, 64)
