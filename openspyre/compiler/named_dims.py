"""Which named dims of a buffer an access walks through. Names stay with host offsets, so that every view keeps them.

A dim of `size` steps of `step` elements covers the offsets from `step` up to `step * size`, as digits of a number cover powers: what
two dims have in common is where these ranges overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from openspyre.compiler.ir import Access, Buffer, Dim, NamedDim

Parts = dict[
    int, tuple[NamedDim, ...]
]  # dim of an op -> the parts of named dims that it walks through, outermost first


@dataclass(frozen=True, slots=True)
class Walked:
    """`parts` of named dims that are walked through wholly, and the names of those that are not."""

    parts: Parts
    partial: tuple[NamedDim, ...]


def walked(access: Access, dims: Sequence[Dim], named: Sequence[NamedDim]) -> Walked:
    parts: dict[int, list[tuple[NamedDim, NamedDim]]] = {}
    for d, (dim, stride) in enumerate(zip(dims, access.strides, strict=True)):
        if stride and dim.size > 1:
            found = [(whole, part) for whole in named for part in _overlap(abs(stride), dim.size, whole)]
            parts[d] = sorted(found, key=lambda pair: -pair[1].stride)
    touched = [pair for found in parts.values() for pair in found]
    partial = tuple(n for n in named if prod(part.size for whole, part in touched if whole is n) not in (1, n.size))
    kept = {d: tuple(part for whole, part in found if whole not in partial) for d, found in parts.items()}
    return Walked({d: found for d, found in kept.items() if found}, partial)


def _overlap(step: int, size: int, named: NamedDim) -> Iterator[NamedDim]:
    low, high = max(step, named.stride), min(step * size, named.stride * named.size)
    ends = step * size, named.stride * named.size
    if low < high and low % min(step, named.stride) == 0 and high % low == 0 and max(ends) % high == 0:
        yield NamedDim(named.name, high // low, low)


def written(
    access: Access, dims: Sequence[Dim], parts: Sequence[tuple[Access, Parts]], buffer: Buffer
) -> Iterator[NamedDim]:
    """The named dims of what an op writes, from those of what it reads: `parts` per access that has some."""
    own = [NamedDim(str(d), n, s) for d, (n, s) in enumerate(zip(buffer.size, buffer.stride, strict=True))]
    whole = walked(access, dims, own).parts
    found = [
        NamedDim(part.name, part.size, abs(access.strides[d]) * (part.stride // abs(read.strides[d])))
        for read, by_dim in parts
        for d, known in by_dim.items()
        if d in whole
        for part in known
    ]
    yield from _joined(dict.fromkeys(found))


def _joined(found: Mapping[NamedDim, None]) -> Iterator[NamedDim]:
    """Parts of one name that follow each other are one dim again."""
    inner_first = sorted(found, key=lambda part: (part.name, part.stride))
    joined: list[NamedDim] = []
    for part in inner_first:
        last = joined[-1] if joined else None
        if last is not None and last.name == part.name and last.stride * last.size == part.stride:
            joined[-1] = NamedDim(part.name, last.size * part.size, last.stride)
        else:
            joined.append(part)
    yield from sorted(joined, key=lambda part: -part.stride)
