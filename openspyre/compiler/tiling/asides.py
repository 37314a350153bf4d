"""Tensors whose tiles would begin within a stick: laid out anew as a whole, outside the loops, with another dim along the sticks.

Inside the loops tiles are then whole sticks of the one that lies aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Role
from openspyre.compiler.loops import ends, moved
from openspyre.compiler.passes.choose_layouts import default_layout
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.origin import Origin


def aside_of(buffer: Buffer, access: Access, dims: Sequence[Dim], counts: Sequence[int]) -> Buffer | None:
    """A stand-in for a tensor that an access cuts within its sticks, in some iteration; None if there is no need, or none helps."""
    if _fits(replace(buffer, layout=buffer.layout or default_layout(buffer)), access, dims, counts):
        return None
    tiled = {_dim_of(buffer, step) for step in access.advance if step}
    others = [d for d, n in enumerate(buffer.size) if n > 1 and d not in tiled]
    last = max(others, key=lambda d: buffer.size[d], default=-1)
    order = [*(d for d in range(len(buffer.size)) if d != last), last]
    try:
        layout = SpyreTensorLayout(list(buffer.size), list(buffer.stride), buffer.dtype, order)
        layout.addressing(buffer.size, buffer.stride)
    except InvalidLayout:
        return None
    found = Buffer(f"{buffer.name}.aside", buffer.dtype, buffer.size, buffer.stride, Role.TEMP, layout)
    return found if _fits(found, access, dims, counts) else None


def _fits(buffer: Buffer, access: Access, dims: Sequence[Dim], counts: Sequence[int]) -> bool:
    iterations = ends(tuple(counts[: len(access.advance)]))
    return all(isinstance(stick_access(moved(access, where), dims, buffer), StickAccess) for where in iterations)


def _dim_of(buffer: Buffer, step: int) -> int:
    """The dim of a tensor that a loop moves along: the outermost whose steps are no longer than the loop's."""
    able = [d for d, (n, s) in enumerate(zip(buffer.size, buffer.stride, strict=True)) if n > 1 and 0 < s <= abs(step)]
    return max(able, key=lambda d: buffer.stride[d])


def whole_copy(name: str, source: Buffer, target: Buffer, origin: Origin) -> Op:
    """All of a tensor to another of the same size and strides."""
    kept = [d for d, size in enumerate(source.size) if size > 1]
    dims = tuple(Dim(f"d{d}", source.size[d]) for d in kept)
    strides = tuple(source.stride[d] for d in kept)
    sides = [Access(one.name, 0, strides, one.dtype) for one in (source, target)]
    origin = origin.changed("clone", "TileOps", "tiles of it would cut its sticks")
    return Op(name, "relayout", dims, (sides[0],), (sides[1],), origin=origin)
