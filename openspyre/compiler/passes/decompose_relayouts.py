"""Turns relayouts into moves that the hardware has: copies of whole sticks, and restickifies, through temps.

A start or a stride within a stick, dims that run into each other, a part of a stick to be written: all of that is done outside the
sticks, once another dim (or none) runs along them. A relayout for which no such way is short enough stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.moves import Chain, Moves, named, refined
from openspyre.compiler.pieces import put_together
from openspyre.compiler.retiling import Box, box_of, retiled
from openspyre.compiler.structure import structure_of
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.ops import TABLE, Kind
from openspyre.spec.sharing import Memo


@dataclass(frozen=True, slots=True)
class DecomposeRelayouts:
    """`largest`: bytes a temp may have, however small the tensor is that is spread out; `spread`: how often its own bytes, if more."""

    largest: int = 4 << 20
    spread: int = 4

    def run(self, program: Program) -> Program:
        known: Memo[Chain | None] = Memo()

        def cost(op: Op, buffers: Mapping[str, Buffer], keeps: bool) -> int | None:
            chain = self._chain(op, buffers, keeps=keeps, known=known)
            return None if chain is None else chain.cost

        return self._decomposed(put_together(program, _moves, cost), known)

    def _decomposed(self, program: Program, known: Memo[Chain | None]) -> Program:
        buffers = {buffer.name: buffer for buffer in program.buffers}
        held = {buffer.name for buffer in program.buffers if buffer.role in (Role.INPUT, Role.UPDATE) or buffer.unset}
        ops: list[Op] = []
        for op in program.ops:
            keeps = any(access.buffer in held for access in op.outputs)
            found = self._chain(op, buffers, keeps=keeps, known=known)
            held.update([access.buffer for access in op.outputs])
            if found is None:
                ops.append(op)
                continue
            source, target = op.accesses
            chain = named(found, op.name, op.origin, {"source": source.buffer, "target": target.buffer})
            ops += chain.ops
            buffers |= {temp.name: temp for temp in chain.temps}
        return replace(program, buffers=tuple(buffers.values()), body=tuple(ops))

    def _chain(self, op: Op, buffers: Mapping[str, Buffer], *, keeps: bool, known: Memo[Chain | None]) -> Chain | None:
        """Between "source" and "target", as ops of a structure have it in common."""
        if not _moves(op) or any(dim.size == 0 for dim in op.dims):
            return None
        source, target = op.accesses
        sides = [buffers[access.buffer] for access in op.accesses]
        roles = tuple((side.role is Role.TEMP, side.spare_rows) for side in sides)
        key = (structure_of(op, buffers), roles, keeps)
        return known.get(key, lambda: self._found(op, buffers[source.buffer], buffers[target.buffer], keeps=keeps))

    def _found(self, op: Op, source: Buffer, target: Buffer, *, keeps: bool) -> Chain | None:
        here, there = replace(source, name="source"), replace(target, name="target")
        assert here.layout is not None and there.layout is not None
        own = prod(dim.size for dim in op.dims) * STICK_BYTES // here.layout.elems_per_stick()
        moves = Moves((here, there), max(self.largest, self.spread * own))
        read, written = (access.on(name) for access, name in zip(op.accesses, ("source", "target"), strict=True))
        if (direct := moves.direct(op.dims, read, written)) is not None:
            return direct if TABLE[op.row].undecided else None
        return _Search(moves, op.dims, read, written, keeps).best()


def _moves(op: Op) -> bool:
    """Whether an op moves elements of a tensor as they are."""
    row = TABLE[op.row]
    copies = row.kind is Kind.MOVEMENT or (row.kind is Kind.POINTWISE and row.as_given)
    if not copies or not isinstance(op.inputs[0], Access):
        return False
    source, target = op.accesses
    return source.dtype == target.dtype and source.buffer != target.buffer


class _Search:
    """Ways from one access to another: each side as it lies, or tiled anew."""

    def __init__(self, moves: Moves, dims: tuple[Dim, ...], read: Access, written: Access, keeps: bool) -> None:
        self.moves, self.keeps = moves, keeps
        sides = [(access, moves.buffers[access.buffer]) for access in (read, written)]
        self.dims, (self.read, self.written) = refined(dims, sides)

    def best(self) -> Chain | None:
        found = [chain for chain in self._chains() if chain is not None]
        return min(found, key=lambda chain: chain.cost, default=None)

    def _chains(self) -> Iterator[Chain | None]:
        yield self.moves.between(self.dims, self.read, self.written)
        sources = [(Chain(), self.read), *self._sources()]
        targets = [(Chain(), self.written, Chain()), *self._targets()]
        for before, read in sources:
            for kept, written, after in targets:
                middle = self.moves.between(self.dims, read, written)
                yield None if middle is None else before + kept + middle + after

    def _sources(self) -> Iterator[tuple[Chain, Access]]:
        buffer = self.moves.buffers["source"]
        box = box_of(self.read, self.dims, buffer, written=False)
        for temp in () if box is None else retiled(box, buffer, self.moves):
            assert box is not None
            whole, there = _both(box, temp, self.read)
            before = self.moves.between(box.dims, whole, there)
            if before is not None:
                yield before + Chain((), (temp,)), Access(temp.name, box.offset, box.strides, self.read.dtype)

    def _targets(self) -> Iterator[tuple[Chain, Access, Chain]]:
        """What the op does not write of the sticks it touches is read first, if there is something in them."""
        buffer = self.moves.buffers["target"]
        box = box_of(self.written, self.dims, buffer, written=True)
        for temp in () if box is None else retiled(box, buffer, self.moves):
            assert box is not None
            whole, there = _both(box, temp, self.written)
            after = self.moves.between(box.dims, there, whole)
            covers = prod(box.sizes) == prod(dim.size for dim in self.dims)
            kept = self.moves.between(box.dims, whole, there) if self.keeps and not covers else Chain()
            if after is not None and kept is not None:
                temps = Chain((), (temp,))
                yield temps + kept, Access(temp.name, box.offset, box.strides, self.written.dtype), after


def _both(box: Box, temp: Buffer, like: Access) -> tuple[Access, Access]:
    return box.of(like.buffer, like.dtype), Access(temp.name, 0, temp.stride, like.dtype)
