"""Which ops can run tile by tile in one loop: from an op and a dim of its result on, neighbours that walk through the same tiles.

No sum is split: a loop moves along dims that no op of it reduces. So tiles compute the bits of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from math import gcd

from openspyre.compiler.ir import Access, Buffer, Iota, Op, Role
from openspyre.compiler.tiling.nest import works_in_tiles
from openspyre.spec.ops import TABLE, Kind

_REACH = 64  # ops before and behind the one to begin with

Dims = Mapping[int, int]  # of ops, by their number: the dim that the loop moves along


@dataclass(frozen=True)
class Flow:
    """The ops of a program in order, and who writes and reads what."""

    ops: tuple[Op, ...]
    buffers: Mapping[str, Buffer]

    @cached_property
    def writers(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {name: [] for name in self.buffers}
        for number, op in enumerate(self.ops):
            for name in {access.buffer for access in op.outputs}:
                found[name].append(number)
        return found

    @cached_property
    def readers(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {name: [] for name in self.buffers}
        for number, names in enumerate(self.reads):
            for name in names:
                found[name].append(number)
        return found

    @cached_property
    def reads(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(a.buffer for a in op.inputs if isinstance(a, Access)) for op in self.ops)

    @cached_property
    def writes(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(access.buffer for access in op.outputs) for op in self.ops)

    @cached_property
    def fences(self) -> tuple[int, ...]:
        """Ops that others must not be moved across: what they write may be somebody's input under another name."""
        return tuple(
            n for n, names in enumerate(self.writes) if any(self.buffers[name].role is Role.UPDATE for name in names)
        )

    def can_join(self, number: int) -> bool:
        """Whether an op works on tiles at all, and what it writes is the program's own.

        A gather does not: where its table or its packed index begins decides whether it is an op of the hardware.
        """
        op = self.ops[number]
        results = [self.buffers[name] for name in self.writes[number]]
        return (
            works_in_tiles(op)
            and not op.hints
            and TABLE[op.row].kind not in (Kind.RANDOM, Kind.INDEXED)  # whose indices are packed for the op as it is
            and all(b.role in (Role.TEMP, Role.OUTPUT) and not b.unset for b in results)
        )


def tiled_size(flow: Flow, dims: Dims) -> int:
    """What a count of tiles must divide."""
    return reduce(gcd, (flow.ops[number].dims[dim].size for number, dim in dims.items()))


def grown(
    flow: Flow, seed: int, dim: int, joins: Callable[[str], bool], without: Collection[int] = ()
) -> dict[int, int]:
    """The ops that can share a loop with one of them along one of its dims, through tensors that `joins`; in the program's order."""
    return _Growth(flow, seed, dim, joins, without).members()


class _Growth:
    def __init__(self, flow: Flow, seed: int, dim: int, joins: Callable[[str], bool], without: Collection[int]) -> None:
        self.flow, self.joins, self.without = flow, joins, without
        self.first = max([seed - _REACH, 0, *(n + 1 for n in flow.fences if n < seed)])
        self.end = min([seed + _REACH + 1, len(flow.ops), *(n for n in flow.fences if n > seed)])
        self.dims: dict[int, int] = {seed: dim}
        self.extents: dict[str, int] = {}  # host offsets that all tiles of a tensor span
        self.written: set[str] = set(flow.writes[seed])
        self._note(seed)

    def members(self) -> dict[int, int]:
        waiting = list(self.extents)
        while waiting:
            name = waiting.pop(0)
            for number in self._neighbours(name):
                dim = self._dim_of(number)
                if dim is not None and self._is_legal(number):
                    known = set(self.extents)
                    self.dims[number] = dim
                    self.written |= self.flow.writes[number]
                    self._note(number)
                    waiting += [name, *(n for n in self.extents if n not in known)]
        return dict(sorted(self.dims.items()))

    def _neighbours(self, name: str) -> Iterator[int]:
        if not self.joins(name):
            return
        for number in [*self.flow.writers[name], *self.flow.readers[name]]:
            near = self.first <= number < self.end and number not in self.without
            if near and number not in self.dims and self.flow.can_join(number):
                yield number

    def _note(self, number: int) -> None:
        op, dim = self.flow.ops[number], self.dims[number]
        for access in op.accesses:
            if access.strides[dim]:
                self.extents.setdefault(access.buffer, access.strides[dim] * op.dims[dim].size)

    def _dim_of(self, number: int) -> int | None:
        """The dim of an op along which it walks through the tiles of all tensors that it shares."""
        op = self.flow.ops[number]
        able = [d for d, dim in enumerate(op.dims) if dim.size > 1 and not dim.reduced and not _counts(op, d)]
        for access in op.accesses:
            extent = self.extents.get(access.buffer)
            if extent is None:
                if access.buffer in self.written:
                    return None  # the same in all iterations, and made in each
                continue
            along = [d for d in able if access.strides[d] * op.dims[d].size == extent]
            made_here = access.buffer in self.written or access in op.outputs
            able = along if along or made_here else able
        return able[0] if able and self._shares(op, able[0]) else None

    def _shares(self, op: Op, dim: int) -> bool:
        return any(a.strides[dim] and a.buffer in self.extents for a in op.accesses)

    def _is_legal(self, number: int) -> bool:
        """No op outside the loop may need what it makes and make what it needs."""
        own = {*self.dims, number}
        behind: set[str] = set()  # what is made of the loop's results, outside
        written = self.written | self.flow.writes[number]
        for place in range(min(own), max(own) + 1):
            reads = self.flow.reads[place]
            if place in own:
                if reads & behind:
                    return False
            elif reads & behind or reads & written:
                behind |= self.flow.writes[place]
        return True


def _counts(op: Op, dim: int) -> bool:
    """Whether an op counts its places along a dim: such is made as a whole."""
    return any(isinstance(operand, Iota) and operand.strides[dim] for operand in op.inputs)
