"""Index tensors of a call: which dims they replace, and how they become one index the card can follow."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import torch

from openspyre.compiler.ir import Access, Dim, Iota, Op, Operand
from openspyre.spec.addressing import row_major
from openspyre.spec.ops.indexed import MOST_FLAT
from torch_spyre.ops.calls import ProgramBuilder, on_card

INDEX_DTYPES = (torch.int64, torch.int32)
MAX_INDEX_RANK = 5  # one index per stick needs a dim of the layout for itself


@dataclass(frozen=True, slots=True)
class IndexedSpace:
    """A tensor's dims with some of them replaced by the dims of index tensors that are broadcast together.

    `size` is the space walked. `own[d]` is where dim d of the tensor stands in it, None if indices replace it; the dims of the
    broadcast indices stand from `first` on.
    """

    size: tuple[int, ...]
    own: tuple[int | None, ...]
    first: int
    broadcast: tuple[int, ...]

    def tensor_strides(self, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of the tensor along the space: none where the index goes."""
        found = [0] * len(self.size)
        for stride, place in zip(strides, self.own, strict=True):
            if place is not None:
                found[place] = stride
        return tuple(found)

    def index_strides(self, strides: tuple[int, ...]) -> tuple[int, ...]:
        found = [0] * len(self.size)
        found[self.first : self.first + len(strides)] = strides
        return tuple(found)

    @property
    def rows(self) -> bool:
        """Whether an index names more than a single element."""
        return any(place is not None and self.size[place] > 1 for place in self.own)


def usable(index: Any) -> bool:
    return on_card(index) and index.dtype in INDEX_DTYPES and index.dim() <= MAX_INDEX_RANK


def indexed_space(shape: tuple[int, ...], dims: tuple[int, ...], broadcast: tuple[int, ...]) -> IndexedSpace:
    """torch's rule: indices side by side stay where they are, others come first."""
    together = dims == tuple(range(dims[0], dims[0] + len(dims)))
    first = dims[0] if together else 0
    rest = [d for d in range(len(shape)) if d not in dims]
    places = {d: n if n < first else n + len(broadcast) for n, d in enumerate(rest)}
    size = [0] * (len(rest) + len(broadcast))
    size[first : first + len(broadcast)] = broadcast
    for d, place in places.items():
        size[place] = shape[d]
    return IndexedSpace(tuple(size), tuple(places.get(d) for d in range(len(shape))), first, broadcast)


def flat(builder: ProgramBuilder, indices: list[torch.Tensor], sizes: tuple[int, ...]) -> Access | None:
    """One index over the broadcast shape: one for a single dim as it is, those of several dims added up. None if it gets too long."""
    if len(indices) == 1:
        return builder.read(indices[0], indices[0].stride())
    if prod(sizes) > MOST_FLAT:
        return None
    shape = tuple(torch.broadcast_shapes(*(index.shape for index in indices)))
    dims = tuple(Dim(f"i{d}", extent) for d, extent in enumerate(shape))
    none = (0,) * len(shape)
    rest: Operand = Iota(0, none)
    for number, (index, size, stride) in enumerate(zip(indices, sizes, row_major(sizes), strict=True)):
        target = Access(builder.temp(f"index{number}", "int32", shape, row_major(shape)), 0, row_major(shape), "int32")
        read = builder.read(index, index.expand(shape).stride())
        operands = (read, Iota(size, none), Iota(stride, none), rest)
        builder.add(Op(f"flat{number}", "flat_index", dims, operands, (target,)))
        rest = target
    assert isinstance(rest, Access)
    return rest


def counts_through(strides: tuple[int, ...], shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether one stride counts through all these dims."""
    return all(strides[a] == strides[b] * shape[b] for a, b in pairwise(dims))


def counting_through(
    builder: ProgramBuilder, name: str, shape: tuple[int, ...], dtype: str, dims: tuple[int, ...]
) -> Access:
    """A temp for a tensor in which these dims lie one behind the other, so that one stride counts through them all."""
    order = [*dims, *(d for d in range(len(shape)) if d not in dims)]
    dense = row_major([shape[d] for d in order])
    merged = (prod(shape[d] for d in dims), *(shape[d] for d in order[len(dims) :]))
    temp = builder.temp(name, dtype, merged, row_major(merged))
    return Access(temp, 0, tuple(dense[order.index(d)] for d in range(len(shape))), dtype)
