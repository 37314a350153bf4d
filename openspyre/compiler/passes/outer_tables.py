"""Lays the dim that an index chooses along outermost in the table of a gather, as the hardware has it.

A temp gets such a layout, if all that touch it can do with it; any other table is copied into a temp first. So is one whose length
nothing else would tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from openspyre.compiler import ir
from openspyre.compiler.emit.shared import has_hardware_op, table_place, untold_tables
from openspyre.compiler.legality import misfit_places
from openspyre.compiler.loops import expanded, listed
from openspyre.compiler.passes.pack_indices import with_packed_index
from openspyre.compiler.sticks import Misfit, StickAccess, stick_access
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Indexing


@dataclass(frozen=True, slots=True)
class OuterTables:
    """Tables larger than `most_bytes` are read as they lie."""

    most_bytes: int = 1 << 30

    def run(self, program: ir.Program) -> ir.Program:
        ops = [op for op, _ in listed(program.body)]
        if not any(TABLE[op.row].indexing is Indexing.READ for op in ops):
            return program
        work = _Work(ops, {buffer.name: buffer for buffer in program.buffers}, self.most_bytes)
        body = expanded(program.body, work.outermost)
        return replace(program, buffers=tuple(work.buffers.values()), body=body)


class _Work:
    def __init__(self, ops: Sequence[ir.Op], buffers: dict[str, ir.Buffer], most_bytes: int) -> None:
        self.ops, self.buffers, self.most_bytes = ops, buffers, most_bytes
        self.untold = untold_tables(ops, buffers, lambda op: _fills(op, buffers))
        self.copied: dict[
            tuple[object, ...], ir.Access
        ] = {}  # copies already made, of tables that still are as they were

    def outermost(self, op: ir.Op) -> list[ir.Op]:
        found = self._gather(op) if TABLE[op.row].indexing is Indexing.READ else [op]
        written = {access.buffer for access in op.outputs}
        self.copied = {key: access for key, access in self.copied.items() if key[0] not in written}
        return found

    def _gather(self, op: ir.Op) -> list[ir.Op]:
        table = op.accesses[0]
        sticks = stick_access(table, op.dims, self.buffers[table.buffer])
        last = len(op.dims) - 1
        if table_place(op) is None or isinstance(sticks, Misfit) or sticks.lane_dim in (None, last) or table.advance:
            return [op]
        told = table.buffer not in self.untold and self._is_hardware(op, self.buffers)
        if told and (self._is_outermost(op, sticks) or self._laid_anew(op, sticks)):
            return [op]
        return self._copied(op, sticks) or [op]

    def _is_hardware(self, op: ir.Op, buffers: dict[str, ir.Buffer]) -> bool:
        """Whether an op is one of the hardware, or will be once its index lies side by side in the sticks."""
        if has_hardware_op(op, buffers):
            return True
        packed = with_packed_index(op, "packed index")
        return packed is not None and has_hardware_op(packed[0], {**buffers, packed[1].name: packed[1]})

    def _is_outermost(self, op: ir.Op, sticks: StickAccess) -> bool:
        lanes = self._lanes(op)
        moves = [
            stride
            for d, (dim, stride) in enumerate(zip(op.dims[:-1], sticks.strides[:-1], strict=True))
            if dim.size > (lanes if d == sticks.lane_dim else 1)
        ]
        return op.dims[-1].size == 1 or sticks.strides[-1] > max(moves, default=0)

    def _lanes(self, op: ir.Op) -> int:
        layout = self.buffers[op.accesses[0].buffer].layout
        assert layout is not None
        return layout.elems_per_stick()

    def _laid_anew(self, op: ir.Op, sticks: StickAccess) -> bool:
        """Whether the table is a temp that now has the dim outermost, and nobody minds."""
        buffer = self.buffers[op.accesses[0].buffer]
        if buffer.role is not ir.Role.TEMP or buffer.layout is None:
            return False
        size, steps = list(buffer.layout.device_size), list(buffer.layout.stride_map)
        place = next((d for d, s in enumerate(row_major(size)) if s == sticks.strides[-1] and size[d] > 1), None)
        if place is None or size[place] != op.dims[-1].size:
            return False
        order = [place, *(d for d in range(len(size)) if d != place)]
        layout = SpyreTensorLayout([size[d] for d in order], [steps[d] for d in order], buffer.layout.device_dtype)
        changed = {**self.buffers, buffer.name: replace(buffer, layout=layout)}
        for user in self.ops:
            if all(access.buffer != buffer.name for access in user.accesses):
                continue
            fits = len(misfit_places(user, changed)) <= len(misfit_places(user, self.buffers))
            if not fits or (self._is_hardware(user, self.buffers) and not self._is_hardware(user, changed)):
                return False
        self.buffers[buffer.name] = changed[buffer.name]
        return True

    def _copied(self, op: ir.Op, sticks: StickAccess) -> list[ir.Op] | None:
        """The gather of a copy, and the copy itself unless there is one; None if it would not be the hardware's."""
        table, source = op.accesses[0], self.buffers[op.accesses[0].buffer]
        walked = [d for d, dim in enumerate(op.dims) if table.strides[d] and dim.size > 1]
        walked.sort(key=lambda d: -table.strides[d])
        key = (table.buffer, table.offset, table.dtype, *((op.dims[d].size, table.strides[d]) for d in walked))
        known = self.copied.get(key)
        temp = self.buffers[known.buffer] if known else self._temp(op, sticks, walked, f"{op.name}.table", source)
        layout = temp.layout
        if layout is None or layout.device_bytes > self.most_bytes or any(table.strides[d] < 0 for d in walked):
            return None
        strides = dict(zip(walked, temp.stride, strict=True))
        moved = ir.Access(temp.name, 0, tuple(strides.get(d, 0) for d in range(len(op.dims))), table.dtype)
        gather = replace(op, inputs=(moved, *op.inputs[1:]))
        dims = tuple(ir.Dim(op.dims[d].name, op.dims[d].size) for d in walked)
        here = replace(table, strides=tuple(table.strides[d] for d in walked))
        origin = op.origin.changed("clone", "OuterTables", "the dim that is chosen along is the table's outermost")
        load = ir.Op(
            f"{op.name}.load", "identity", dims, (here,), (replace(moved, strides=temp.stride),), origin=origin
        )
        buffers = {**self.buffers, temp.name: temp}
        if not has_hardware_op(load, buffers) or not self._is_hardware(gather, buffers):
            return None
        self.buffers[temp.name] = temp
        self.copied[key] = moved
        return [gather] if known else [load, gather]

    def _temp(self, op: ir.Op, sticks: StickAccess, walked: Sequence[int], name: str, source: ir.Buffer) -> ir.Buffer:
        assert source.layout is not None
        lanes, last = self._lanes(op), len(op.dims) - 1
        size = tuple(op.dims[d].size for d in walked)
        steps = dict(zip(walked, row_major(size), strict=True))
        outside = sorted((d for d in walked if d != last), key=lambda d: -sticks.strides[d])
        device, stride_map = [], []
        for d in [last, *outside]:
            along = d == sticks.lane_dim
            device.append(-(-op.dims[d].size // lanes) if along else op.dims[d].size)
            stride_map.append(steps.get(d, -1) * (lanes if along else 1))
        assert sticks.lane_dim is not None
        layout = SpyreTensorLayout([*device, lanes], [*stride_map, steps[sticks.lane_dim]], source.layout.device_dtype)
        return ir.Buffer(name, source.dtype, size, row_major(size), ir.Role.TEMP, layout)


def _fills(op: ir.Op, buffers: dict[str, ir.Buffer]) -> bool:
    """Whether an op is a relayout of a whole buffer: it may yet become a single op of the hardware."""
    target = op.outputs[0]
    covers = prod(dim.size for dim in op.dims) == prod(buffers[target.buffer].size)
    return TABLE[op.row].by_view and target.offset == 0 and covers
