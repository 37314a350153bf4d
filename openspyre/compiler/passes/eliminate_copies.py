"""Removes copies that need not be: a buffer and its copy become one, or producer or consumers reach through the copy.

Ways, tried in this order: a copy of what nobody wrote is none; the copy lives on in its source's memory (so that updates happen
in place); the producer writes where the copy would have; the consumers read what was copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from openspyre.compiler.ir import Access, Buffer, Op, Operand, Program, Role
from openspyre.compiler.views import rebased
from openspyre.spec.addressing import host_elements
from openspyre.spec.ops import TABLE, Kind

_NAME = "EliminateCopies"


@dataclass(frozen=True, slots=True)
class EliminateCopies:
    """`documented`: only those that updates in place do not need; what a graph copies otherwise is copied."""

    documented: bool = False

    def run(self, program: Program) -> Program:
        if len(program.ops) == 1:
            return program
        work = _Work(program, self.documented)
        for copy in [op for op in program.ops if TABLE[op.row].kind is Kind.MOVEMENT]:
            work.eliminate(copy)
        return replace(
            program, buffers=tuple(work.buffers.values()), body=tuple(op for op in work.ops if op is not None)
        )


class _Work:
    """The ops by place; a removed one leaves None."""

    def __init__(self, program: Program, documented: bool) -> None:
        self.documented = documented
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.ops: list[Op | None] = list(program.ops)
        self.reads: dict[str, set[int]] = {}
        self.writes: dict[str, set[int]] = {}
        self.place = {op.name: at for at, op in enumerate(program.ops)}
        for at, op in enumerate(program.ops):
            self._index(at, op)

    def _index(self, at: int, op: Op) -> None:
        for access in _read(op):
            self.reads.setdefault(access.buffer, set()).add(at)
        for access in op.outputs:
            self.writes.setdefault(access.buffer, set()).add(at)

    def _set(self, at: int, op: Op | None) -> None:
        gone = self.ops[at]
        for name in () if gone is None else {access.buffer for access in gone.accesses}:
            self.read_at(name).discard(at)
            self.written_at(name).discard(at)
        self.ops[at] = op
        if op is not None:
            self._index(at, op)

    def read_at(self, name: str) -> set[int]:
        return self.reads.get(name, set())

    def written_at(self, name: str) -> set[int]:
        return self.writes.get(name, set())

    def eliminate(self, copy: Op) -> None:
        at = self.place[copy.name]
        now = self.ops[at]
        if now is None:
            return
        source, target = _sides(now)
        if source.buffer == target.buffer or source.dtype != target.dtype:
            return
        if any(self.buffers[side.buffer].dtype != side.dtype for side in (source, target)):
            return  # bits read as another type
        done = self._copies_nothing(at, now) or self._share_memory(at, now)
        if not done and not (self.documented and self.buffers[target.buffer].role is not Role.UPDATE):
            _ = self._write_through(at, now) or self._read_through(at, now)

    # --- nothing to copy ----------------------------------------------------------------------------------------------

    def _copies_nothing(self, at: int, copy: Op) -> bool:
        """Neither side holds anything yet: the target begins as whatever lies there, as its source does."""
        source, target = (self.buffers[side.buffer] for side in _sides(copy))
        empty = source.unset and target.role in (Role.TEMP, Role.OUTPUT)
        if not empty or any(j < at for side in (source, target) for j in self.written_at(side.name)):
            return False
        self.buffers[target.name] = replace(target, unset=True)
        self._set(at, None)
        return True

    # --- one memory for both ------------------------------------------------------------------------------------------

    def _share_memory(self, at: int, copy: Op) -> bool:
        """The target, a temp, takes over its source's memory, in which it is changed further."""
        source, target = _sides(copy)
        x, y = self.buffers[source.buffer], self.buffers[target.buffer]
        changes = self.written_at(y.name) - {at}
        if y.role is not Role.TEMP or not changes or min(changes) < at or not _is_whole(copy, x, y):
            return False
        if any(j < at for j in self.read_at(y.name)):
            return False  # what it was before the copy (torch.empty) is not what x is then
        back = {j for j in self.read_at(y.name) & self.written_at(x.name) if j > at and self._is_copy_back(j, y, x)}
        if x.role not in (Role.TEMP, Role.UPDATE) or (x.role is Role.UPDATE and not back):
            return False
        first = min(changes)
        if any(j > first for j in self.read_at(x.name)) or any(j > at for j in self.written_at(x.name) - back):
            return False
        changing = _renamed(self.ops[first], y.name, x.name)
        if first in self.read_at(x.name) and not _reads_where_it_writes(changing, x.name):
            return False  # it would read what it has changed already
        if back and max(changes) > min(back):
            return False
        copied_back = [op for j in back if (op := self.ops[j]) is not None]
        self._set(at, None)
        for j in back:
            self._set(j, None)
        for j in [*(self.read_at(y.name) | self.written_at(y.name))]:
            self._set(j, _renamed(self.ops[j], y.name, x.name))
        self._take_on(first, [copy, *copied_back])
        return True

    def _take_on(self, at: int, copies: list[Op]) -> None:
        """An op does what copies did, by where it works."""
        op = self.ops[at]
        assert op is not None
        origin = op.origin
        for copy in copies:
            origin = origin.merged_with(copy.origin, _NAME, "it works in the memory of what was copied")
        self.ops[at] = replace(op, origin=origin)

    def _is_copy_back(self, at: int, y: Buffer, x: Buffer) -> bool:
        op = self.ops[at]
        return op is not None and TABLE[op.row].kind is Kind.MOVEMENT and _is_whole(op, y, x)

    # --- the producer writes to the target ----------------------------------------------------------------------------

    def _write_through(self, at: int, copy: Op) -> bool:
        """The source, a temp read by nothing but this copy, is never made: its writers write where it was copied to."""
        source, target = _sides(copy)
        writers = self.written_at(source.buffer)
        if self.buffers[source.buffer].role is not Role.TEMP or self.read_at(source.buffer) != {at} or not writers:
            return False
        touched = {j for j in self.read_at(target.buffer) | self.written_at(target.buffer) if min(writers) <= j < at}
        if max(writers) > at or touched - {min(writers)}:  # a later writer would read what the first has written
            return False
        changed = {}
        for j in writers:
            op = self.ops[j]
            assert op is not None
            moved = self._writing(op, copy, source, target)
            if moved is None or (j in touched and not _reads_where_it_writes(moved, target.buffer)):
                return False
            changed[j] = moved
        for j, op in changed.items():
            self._set(j, op)
        self._set(at, None)
        if self.buffers[source.buffer].unset:
            self.buffers[target.buffer] = replace(self.buffers[target.buffer], unset=True)
        return True

    def _writing(self, op: Op, copy: Op, source: Access, target: Access) -> Op | None:
        if not _may_be_rebased(op):
            return None
        outputs = []
        for output in op.outputs:
            if output.buffer != source.buffer:
                outputs.append(output)
                continue
            there = rebased(output, op.dims, copy, source, target)
            if there is None or _is_stretched(target, copy):
                return None
            outputs.append(there)
        origin = op.origin.merged_with(copy.origin, _NAME, "it writes where its result was copied to")
        return replace(op, outputs=tuple(outputs), origin=origin)

    # --- the consumers read the source --------------------------------------------------------------------------------

    def _read_through(self, at: int, copy: Op) -> bool:
        """The target, a temp written by nothing but this copy, is never made: its readers read what it was copied from."""
        source, target = _sides(copy)
        readers = self.read_at(target.buffer)
        if self.buffers[target.buffer].role is not Role.TEMP or self.written_at(target.buffer) != {at} or not readers:
            return False
        if min(readers) < at or any(at < j <= max(readers) for j in self.written_at(source.buffer)):
            return False
        changed = {}
        for j in readers:
            op = self.ops[j]
            assert op is not None
            inputs = [self._reading(op, operand, copy, source, target) for operand in op.inputs]
            if None in inputs or not _may_be_rebased(op) or (_overlaps(source, copy) and _windows(op, target.buffer)):
                return False
            origin = op.origin.merged_with(copy.origin, _NAME, "it reads what was copied")
            reached = tuple(operand for operand in inputs if operand is not None)
            changed[j] = replace(op, inputs=reached, origin=origin)
        for j, op in changed.items():
            self._set(j, op)
        self._set(at, None)
        return True

    def _reading(self, op: Op, operand: Operand, copy: Op, source: Access, target: Access) -> Operand | None:
        if not isinstance(operand, Access) or operand.buffer != target.buffer:
            return operand
        return rebased(operand, op.dims, copy, target, source)


def _sides(copy: Op) -> tuple[Access, Access]:
    source = copy.inputs[0]
    assert isinstance(source, Access)
    return source, copy.outputs[0]


def _read(op: Op) -> Iterator[Access]:
    return (operand for operand in op.inputs if isinstance(operand, Access))


def _is_whole(copy: Op, x: Buffer, y: Buffer) -> bool:
    """Whether a copy moves every element of x to the same host offset of y."""
    source, target = _sides(copy)
    if (source.buffer, target.buffer) != (x.name, y.name) or (x.size, x.stride) != (y.size, y.stride):
        return False
    walked = {
        (dim.size, a, b) for dim, a, b in zip(copy.dims, source.strides, target.strides, strict=True) if dim.size > 1
    }
    own = {(n, s, s) for n, s in zip(x.size, x.stride, strict=True) if n > 1}
    return walked == own and source.offset == target.offset == 0 and host_elements(x.size, x.stride) > 0


def _is_stretched(side: Access, copy: Op) -> bool:
    """Whether several of a copy's elements lie at one place of a side."""
    return any(dim.size > 1 and stride == 0 for dim, stride in zip(copy.dims, side.strides, strict=True))


def _overlaps(side: Access, op: Op) -> bool:
    """Whether it is walked in windows that share elements."""
    walked = [(dim.size, abs(stride)) for dim, stride in zip(op.dims, side.strides, strict=True) if stride]
    return prod(size for size, _ in walked) > 1 + sum((size - 1) * stride for size, stride in walked)


def _windows(op: Op, buffer: str) -> bool:
    """Whether an op copies windows of a buffer. Windows of windows are for sticks: the first ones, which are fewer, may begin
    within them, so that the others need not."""
    return TABLE[op.row].kind is Kind.MOVEMENT and any(_overlaps(x, op) for x in _read(op) if x.buffer == buffer)


def _may_be_rebased(op: Op) -> bool:
    """Ops that count through their table with one stride, or go by whole rows, keep the operands they were built for."""
    return TABLE[op.row].kind in (
        Kind.POINTWISE,
        Kind.REDUCTION,
        Kind.CONTRACTION,
        Kind.MOVEMENT,
        Kind.CREATION,
        Kind.RANDOM,
        Kind.ROWS,
    )


def _reads_where_it_writes(op: Op, buffer: str) -> bool:
    """Whether a pointwise op reads a buffer only at the elements it writes there."""
    written = [output for output in op.outputs if output.buffer == buffer]
    if TABLE[op.row].kind is not Kind.POINTWISE or len(written) != 1:
        return False
    return all(access == written[0] for access in _read(op) if access.buffer == buffer)


def _renamed(op: Op | None, old: str, new: str) -> Op:
    assert op is not None

    def other(operand: Operand) -> Operand:
        return replace(operand, buffer=new) if isinstance(operand, Access) and operand.buffer == old else operand

    outputs = tuple(replace(output, buffer=new) if output.buffer == old else output for output in op.outputs)
    return replace(op, inputs=tuple(map(other, op.inputs)), outputs=outputs)
