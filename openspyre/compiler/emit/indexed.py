"""Gathers and scatters of whole rows: `identity` with an index tensor that chooses along one dim of its source or its target."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from openspyre.artifact.superdsc import Indirection
from openspyre.compiler import ir
from openspyre.compiler.emit.hardware_form import NoSuchOp
from openspyre.compiler.emit.operation import MOST_DIMS, Extent, Operand, Operation
from openspyre.compiler.emit.walk import Walk, fills_sticks, walk_of
from openspyre.compiler.sticks import StickAccess
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.ops import TABLE, Indexing

if TYPE_CHECKING:
    from openspyre.compiler.emit.lowering import Lowering


def indexed_operation(lowering: Lowering, op: ir.Op) -> Operation:
    """On one core, as the documents have it. The dim that is chosen along goes by the name of the last dim that is the index's alone."""
    row = TABLE[op.row]
    source, index, target = op.inputs[0], op.inputs[1], op.outputs[0]
    if row.by_element or row.indexing is Indexing.ADD or len(op.inputs) != 2:
        raise NoSuchOp("it goes element by element, or adds")
    if not isinstance(source, ir.Access) or not isinstance(index, ir.Access):
        raise NoSuchOp("its source or its index is no tensor")
    if lowering.format(source) is not lowering.format(target) or lowering.format(index) is not DataFormats.IEEE_INT32:
        raise NoSuchOp("it changes the format on its way")
    return _Rows(lowering, op, source, index, target).operation()


class _Rows:
    def __init__(self, lowering: Lowering, op: ir.Op, source: ir.Access, index: ir.Access, target: ir.Access) -> None:
        self.lowering, self.op, self.index = lowering, op, index
        last = len(op.dims) - 1
        self.table = source if TABLE[op.row].indexing is Indexing.READ else target
        self.source, self.target = source, target
        self.kept = [d for d in range(last) if op.dims[d].size != 1]
        moved = [place for place, d in enumerate(self.kept) if index.strides[d]]
        self.once = not moved
        if self.once:  # a dim of size 1 counts the index
            single = next((d for d in range(last) if op.dims[d].size == 1), None)
            if single is None:
                raise NoSuchOp("its index chooses once, and it has no dim to count that")
            self.kept = sorted([*self.kept, single])
            moved = [self.kept.index(single)]
        if len(self.kept) > MOST_DIMS - 1:
            raise NoSuchOp("it has too many dims")
        found = lowering.sticks(op, self.table)
        if found.lane_dim is None or found.lane_dim == last or index.strides[found.lane_dim]:
            raise NoSuchOp("its index chooses elements of sticks, not rows")
        self.lane = self.kept.index(found.lane_dim)
        alone = [place for place in moved if not found.strides[self.kept[place]]]
        if not alone:
            raise NoSuchOp("its table moves along all dims of the index as well")
        self.chosen = alone[-1]

    def operation(self) -> Operation:
        lanes = self.lowering.format(self.target).elems_per_stick()
        dims = tuple(
            Extent(size := self.op.dims[d].size, -(-size // lanes) * lanes if place == self.lane else size)
            for place, d in enumerate(self.kept)
        )
        operands = [self._operand(access, dims) for access in (self.source, self.target)]
        index = self._access(self.index)
        if self.once:
            index = replace(index, lane_dim=self.chosen)
        if index.lane_dim is None:
            raise NoSuchOp("its index lies one to a stick")
        walk = self._walk(index, [extent.size for extent in dims], self.index)
        form = DataFormats.SENUINT32
        chooses = Operand(form, self.lowering.place(self.index.buffer), walk, Indirection.INDEX)
        return Operation("identity", dims, self.lane, (operands[0],), (operands[1],), index=chooses)

    def _operand(self, access: ir.Access, dims: tuple[Extent, ...]) -> Operand:
        found, buffer = self._access(access), self.lowering.buffers[access.buffer]
        sizes = [extent.size for extent in dims]
        if found.lane_dim not in (None, self.lane) or (found.lane_dim is None and found.strides[self.lane]):
            raise NoSuchOp("a tensor of it runs along another dim than the rows")
        if access is self.target and not fills_sticks(access, buffer, dims[self.lane].valid):
            raise NoSuchOp("it writes a part of a stick whose other elements are somebody's")
        base, form = self.lowering.place(access.buffer), self.lowering.format(access)
        if access is not self.table:
            return Operand(form, base, self._walk(found, sizes, access))
        sizes[self.chosen] = self.op.dims[-1].size
        walk = self._walk(found, sizes, access)
        order = walk.order
        if order[-1] == self.lane and dims[self.lane].size == form.elems_per_stick():
            order = (self.lane, *order[:-1])
        if order[-1] != self.chosen and self.chosen in dict(walk.gaps):
            raise NoSuchOp("rows are left out between those it chooses among, and no field says how many")
        temp = buffer.role is ir.Role.TEMP
        told = not (temp and (walk.offset or access.buffer in self.lowering.untold))
        told = told and self._rows(order, walk, sizes, buffer) == self.op.dims[-1].size
        if walk.skipped > 1 or not (told or (order[-1] == self.chosen and self._stays_inside())):
            raise NoSuchOp(
                "no field says how many rows its table has, and neither its argument's length nor the op that fills it tells"
            )
        return Operand(form, base, replace(walk, order=order), Indirection.VALUE, self.chosen)

    def _stays_inside(self) -> bool:
        """Whether the index is a constant that names rows of the table alone: how many there are, nobody has to know then."""
        buffer = self.lowering.buffers[self.index.buffer]
        if buffer.values is None:
            return False
        chosen = np.frombuffer(buffer.values, buffer.dtype)
        return bool(chosen.min() >= 0 and chosen.max() < self.op.dims[-1].size)

    def _rows(self, order: tuple[int, ...], walk: Walk, sizes: list[int], buffer: ir.Buffer) -> int:
        """Rows of the table as a reader finds them: what is left of the argument, divided by what is not chosen."""
        assert buffer.layout is not None
        stick = buffer.layout.elems_per_stick()
        others = STICK_BYTES
        for d in order:
            size = sizes[d] + dict(walk.gaps).get(d, 0)
            others *= 1 if d == self.chosen else -(-size // stick) if d == walk.lane else size
        return (buffer.layout.device_bytes - walk.offset * (STICK_BYTES // stick)) // others

    def _access(self, access: ir.Access) -> StickAccess:
        """Along the dims that count; a table's rows under the dim that is chosen along."""
        found = self.lowering.sticks(self.op, access)
        strides = [found.strides[d] for d in self.kept]
        if access is self.table:
            strides[self.chosen] = found.strides[-1]
        lane = None if found.lane_dim is None else self.kept.index(found.lane_dim)
        return StickAccess(found.lanes, lane, found.offset, tuple(strides))

    def _walk(self, found: StickAccess, sizes: list[int], access: ir.Access) -> Walk:
        layout = self.lowering.buffers[access.buffer].layout
        assert layout is not None
        walk = walk_of(found, sizes, layout)
        if isinstance(walk, str):
            raise NoSuchOp(walk)
        return walk
