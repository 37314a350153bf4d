"""Accesses seen through a copy: the same elements, named by their places on the copy's other side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openspyre.compiler.ir import Access, Dim, Op


def rebased(access: Access, dims: Sequence[Dim], copy: Op, here: Access, there: Access) -> Access | None:
    """`access`, made on the buffer of `here`, as an access on that of `there`; the two are one copy's sides.

    None where it touches what the copy does not move, or where an index would carry from one of the copy's dims into another.
    """
    sizes = [dim.size for dim in dims]
    steps = [0 if size == 1 else step for step, size in zip(access.strides, sizes, strict=True)]
    rest = access.offset - here.offset
    offset, strides = there.offset, [0] * len(steps)
    walked = [d for d, dim in enumerate(copy.dims) if dim.size > 1]
    if rest < 0 or any(here.strides[d] <= 0 for d in walked):
        return None
    for d in sorted(walked, key=lambda d: -here.strides[d]):
        unit = here.strides[d]
        start, rest = divmod(rest, unit)
        own = [step // unit for step in steps]
        steps = [step % unit for step in steps]
        if start + sum(n * (size - 1) for n, size in zip(own, sizes, strict=True)) >= copy.dims[d].size:
            return None
        offset += start * there.strides[d]
        strides = [stride + n * there.strides[d] for stride, n in zip(strides, own, strict=True)]
    if rest or any(steps):
        return None
    return replace(access, buffer=there.buffer, offset=offset, strides=tuple(strides))
