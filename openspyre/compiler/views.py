"""Accesses seen through a copy: the same elements, named by their places on the copy's other side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openspyre.compiler.ir import Access, Dim, Op
from openspyre.spec.addressing import along


def rebased(access: Access, dims: Sequence[Dim], copy: Op, here: Access, there: Access) -> Access | None:
    """`access`, made on the buffer of `here`, as an access on that of `there`; the two are one copy's sides.

    None where it touches what the copy does not move, or where an index would carry from one of the copy's dims into another.
    """
    walked = [d for d, dim in enumerate(copy.dims) if dim.size > 1]
    if any(here.strides[d] <= 0 for d in walked):
        return None
    order = sorted(walked, key=lambda d: -here.strides[d])
    box = [(here.strides[d], copy.dims[d].size) for d in order]
    found, whole = along(access.offset - here.offset, access.strides, [dim.size for dim in dims], box)
    if not whole:
        return None
    offset, strides = there.offset, [0] * len(dims)
    for d, (start, steps) in zip(order, found, strict=True):
        offset += start * there.strides[d]
        strides = [stride + step * there.strides[d] for stride, step in zip(strides, steps, strict=True)]
    return replace(access, buffer=there.buffer, offset=offset, strides=tuple(strides))
