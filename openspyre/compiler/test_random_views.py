"""Random buffers, and views of them as torch makes them: what the property tests of this room draw."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from openspyre.compiler.ir import Access, Buffer, Dim, Role
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout

SIZES = st.sampled_from([1, 1, 2, 3, 5, 32, 33, 64, 65, 70, 128])
DTYPES = st.sampled_from(["float16", "float32", "int8"])


@dataclass(frozen=True, slots=True)
class View:
    buffer: Buffer
    access: Access
    dims: tuple[Dim, ...]

    def host_offsets(self) -> list[int]:
        """Of all elements, the last dim fastest."""
        offsets = [self.access.offset]
        for dim, stride in zip(self.dims, self.access.strides, strict=True):
            offsets = [offset + stride * index for offset in offsets for index in range(dim.size)]
        return offsets


@st.composite
def buffers(draw: st.DrawFn, name: str = "x", dtype: str | None = None) -> Buffer:
    size = tuple(draw(st.lists(SIZES, max_size=4).filter(lambda s: prod(s) <= 4000)))
    kind = draw(DTYPES) if dtype is None else dtype
    order: list[int] = draw(st.permutations(range(len(size))))
    if len(size) < 4 and draw(st.integers(0, 5)) == 0:
        order = [*order, -1]  # sparse: one value a stick
    layout = SpyreTensorLayout(list(size), list(row_major(size)), kind, order)
    return Buffer(name, kind, size, row_major(size), Role.INPUT, layout)


@st.composite
def views(draw: st.DrawFn, name: str = "x", dtype: str | None = None) -> View:
    """A buffer, sliced with steps, its dims in any order, some expanded."""
    buffer = draw(buffers(name, dtype))
    offset, walked = 0, []
    for extent, stride in zip(buffer.size, buffer.stride, strict=True):
        start = draw(st.sampled_from([0, 0, 0, extent // 2, extent - 1]))
        step = draw(st.sampled_from([1, 1, 1, 2]))
        count = (
            draw(st.integers(1, -(-(extent - start) // step))) if draw(st.booleans()) else -(-(extent - start) // step)
        )
        offset += start * stride
        walked.append((count, stride * step))
    if draw(st.integers(0, 3)) == 0:
        walked.append((draw(st.sampled_from([2, 64, 70])), 0))  # expanded
    walked = draw(st.permutations(walked))
    dims = tuple(Dim(f"d{i}", count) for i, (count, _) in enumerate(walked))
    return View(buffer, Access(name, offset, tuple(stride for _, stride in walked), buffer.dtype), dims)


@given(views())
def test_a_view_stays_within_its_buffer(view: View) -> None:
    offsets = view.host_offsets()
    assert min(offsets) >= 0 and max(offsets) < prod(view.buffer.size)
