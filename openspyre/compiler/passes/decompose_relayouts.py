"""Turns relayouts into moves that the hardware has: copies of whole sticks, and restickifies, through temps.

A start or a stride within a stick, dims that run into each other, a part of a stick to be written: all of that is done outside the
sticks, once another dim (or none) runs along them. A relayout for which no such way is short enough stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from openspyre.compiler.ir import AT_ONCE, Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.loops import ends, expanded_in_loops, in_iteration, moving
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

        def parts(op: Op, counts: tuple[int, ...]) -> tuple[Op, ...]:
            # Where a loop moves what is written, iterations before may have left something in its sticks: what the first one
            # finds there nobody has written, so that it must not be read.
            keeps = any(access.buffer in held for access in op.outputs)
            moves = any(any(access.advance) for access in op.outputs)
            chain = self._in_loops(op, counts, buffers, keeps=keeps or moves, known=known)
            if moves and not keeps and chain is not None and _reads(chain, "target"):
                chain = None
            held.update(access.buffer for access in op.outputs)
            if chain is None:
                return (op,)
            source, target = op.accesses
            origin = op.origin
            if len(chain.ops) > 1:
                origin = origin.changed("decomposition", "DecomposeRelayouts", "no single op of the card moves it so")
            chain = named(chain, op.name, origin, {"source": source.buffer, "target": target.buffer})
            buffers.update({temp.name: temp for temp in chain.temps})
            return chain.ops

        body = expanded_in_loops(program.body, parts)
        return replace(program, buffers=tuple(buffers.values()), body=body)

    def _in_loops(
        self,
        op: Op,
        counts: tuple[int, ...],
        buffers: Mapping[str, Buffer],
        *,
        keeps: bool,
        known: Memo[Chain | None],
    ) -> Chain | None:
        """The chain of an op that loops move: the same in all iterations, but for where it reads and writes."""
        if not any(any(access.advance) for access in op.accesses):
            return self._chain(op, buffers, keeps=keeps, known=known)
        found = {}
        for where in ends(counts):
            chain = self._chain(in_iteration(op, where), buffers, keeps=keeps, known=known)
            if chain is None:
                return None
            found[where] = chain
        first = found[(0,) * len(counts)]
        if any(other.temps != first.temps or len(other.ops) != len(first.ops) for other in found.values()):
            return None
        steps = [moving({where: chain.ops[n] for where, chain in found.items()}, counts) for n in range(len(first.ops))]
        ops = tuple(step for step in steps if step is not None)
        return Chain(ops, first.temps) if len(ops) == len(steps) else None

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


def _reads(chain: Chain, name: str) -> bool:
    return any(access.buffer == name for op in chain.ops for access in op.accesses[:-1])


def _moves(op: Op) -> bool:
    """Whether an op moves elements of a tensor as they are."""
    row = TABLE[op.row]
    copies = row.kind is Kind.MOVEMENT or (row.kind is Kind.POINTWISE and row.as_given)
    if not copies or not isinstance(op.inputs[0], Access) or AT_ONCE in dict(op.attributes):
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
