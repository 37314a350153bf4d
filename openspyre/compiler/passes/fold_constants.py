"""Computes what is known now, once and on the host: results of counts, numbers and other constants become constant tensors.

The hardware cannot count, and has no arithmetic of integers: what follows from places alone (ranges, masks, index arithmetic) is for
whoever writes the program. A plain fill stays, and so does everything that waits for a number of the launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from openspyre.compiler.constant_values import DTYPES, KnownValues, computed, host_bytes, places
from openspyre.compiler.ir import Access, Buffer, Iota, Op, Operand, Program, Role, Scalar
from openspyre.compiler.primitives import Lanes
from openspyre.compiler.structure import structure_of
from openspyre.spec.addressing import host_elements, row_major
from openspyre.spec.formats import DataFormats, require_supported
from openspyre.spec.ops import TABLE, Kind, OpClass
from openspyre.spec.sharing import Memo

_EXACT = 512  # integers up to here are numbers of 16 bits


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """`most_bytes` of a tensor whose values are kept; a larger one is computed by the card."""

    most_bytes: int = 4 << 20

    def run(self, program: Program) -> Program:
        known = any(buffer.values is not None for buffer in program.buffers)
        alone = len(program.body) == 1
        if not known and not any(_begins(op, alone=alone) for op in program.ops):
            return program
        return _Work(program, self.most_bytes).folded()


def _begins(op: Op, *, alone: bool) -> bool:
    """Whether an op could make a constant of numbers and counts alone. One that is all there is to do keeps no memory for it."""
    numbers = any(isinstance(operand, Scalar) for operand in op.inputs)
    return (numbers or not alone) and not _is_plain(op) and all(_is_given(operand) for operand in op.inputs)


def _is_given(operand: Operand) -> bool:
    return operand.word is not None if isinstance(operand, Scalar) else not isinstance(operand, Access)


def _is_plain(op: Op) -> bool:
    """The same number everywhere, which an op of the hardware writes."""
    counts = any(any(operand.strides) for operand in op.inputs if isinstance(operand, Iota))
    row = TABLE[op.row]
    return row.kind is Kind.CREATION and row.as_given and not counts and op.outputs[0].dtype != "bool"


@dataclass(frozen=True, slots=True)
class _Result:
    """What an op computes, and the same as the host stores it; None if its format does not hold it."""

    lanes: Lanes
    values: bytes | None


def _result_of(op: Op, known: Mapping[str, KnownValues]) -> _Result | None:
    lanes = computed(op, known)
    return None if lanes is None else _Result(lanes, host_bytes(lanes.reshape(-1), op.outputs[0].dtype))


def _constant_of(op: Op, result: _Result) -> Buffer | None:
    """The constant that an op's result is, if the host has one."""
    if result.values is None:
        return None
    size = tuple(dim.size for dim in op.dims)
    return Buffer(f"{op.name}.known", op.outputs[0].dtype, size, row_major(size), Role.CONSTANT, values=result.values)


def _fills(op: Op, buffer: Buffer) -> bool:
    """Whether an op's result is all of a buffer, element by element as the host stores it."""
    target, size = op.outputs[0], tuple(dim.size for dim in op.dims)
    dense = target.offset == 0 and target.strides == row_major(size)
    return dense and target.dtype == buffer.dtype and prod(size) == host_elements(buffer.size, buffer.stride)


class _Work:
    """What ops compute, in order: `made` has the constant of every op whose result is known now, by its place."""

    def __init__(self, program: Program, most_bytes: int) -> None:
        self.program, self.ops = program, program.ops
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.most_bytes = most_bytes
        self.known = {
            b.name: KnownValues(b, b.values) for b in program.buffers if b.values is not None and b.dtype in DTYPES
        }
        self.made: dict[int, Buffer | None] = {}
        self.results: Memo[_Result | None] = Memo()
        self.constants: dict[tuple[object, ...], Buffer] = {}
        for place, op in enumerate(self.ops):
            self._follow(place, op)

    def _follow(self, place: int, op: Op) -> None:
        found = self._computed(op) if self._is_followed(op) else None
        if found is None:
            for access in op.outputs:
                self.known.pop(access.buffer, None)
            return
        target = op.outputs[0]
        self.made[place] = _constant_of(op, found)
        if self.buffers[target.buffer].role is Role.UPDATE:
            return  # another argument may be in the same memory
        memory = self.known.setdefault(target.buffer, KnownValues(self.buffers[target.buffer]))
        where = places(target, op.dims)
        memory.values[where] = found.lanes
        memory.known[where] = True

    def _computed(self, op: Op) -> _Result | None:
        """Once for all ops of a structure that read no memory: layers of a model have the same masks."""
        if any(isinstance(operand, Access) for operand in op.inputs):
            return _result_of(op, self.known)
        words = tuple(operand.word for operand in op.inputs if isinstance(operand, Scalar))
        key = (structure_of(op, self.buffers), words, repr(op.attributes))
        return self.results.get(key, lambda: _result_of(op, self.known))

    def _is_followed(self, op: Op) -> bool:
        buffers = [self.buffers[access.buffer] for access in op.accesses]
        read = [operand.buffer for operand in op.inputs if isinstance(operand, Access)]
        if not all(name in self.known for name in read) or not self._fits(buffers[-1]):
            return False
        # Truth values may be read and written as the numbers they are.
        own = all(_format(access.dtype) is _format(b.dtype) for access, b in zip(op.accesses, buffers, strict=True))
        stretched = any(dim.size > 1 and not stride for dim, stride in zip(op.dims, op.outputs[0].strides, strict=True))
        return own and not stretched and all(b.dtype in DTYPES for b in buffers)

    def _fits(self, buffer: Buffer) -> bool:
        if buffer.dtype not in DTYPES:
            return False
        bits = host_elements(buffer.size, buffer.stride) * _format(buffer.dtype).bits
        return 0 < bits <= 8 * self.most_bytes

    def folded(self) -> Program:
        whole = self._whole_buffers()
        renamed: dict[str, str] = {}
        for name, values in whole.items():
            b = self.buffers[name]
            renamed[name] = self._constant(replace(b, role=Role.CONSTANT, values=values)).name
        ops: list[Op] = []
        for place, op in enumerate(self.ops):
            if op.outputs[0].buffer not in whole:
                ops.append(self._with_floats(_renamed(self._copied(place, op) or op, renamed)))
        kept = tuple(buffer for buffer in self.program.buffers if buffer.name not in whole)
        return replace(self.program, buffers=(*kept, *self.constants.values()), body=tuple(ops))

    # --- temps that become constants --------------------------------------------------------------------------------------

    def _whole_buffers(self) -> dict[str, bytes]:
        """Temps that only known ops write, and nobody reads before the last of them has; with their values."""
        written: dict[str, list[int]] = {}
        for place, op in enumerate(self.ops):
            for access in op.outputs:
                written.setdefault(access.buffer, []).append(place)
        found: dict[str, bytes] = {}
        for name, writers in written.items():
            values = self._values(name, writers)
            if values is not None:
                found[name] = values
        while True:
            early = {
                access.buffer
                for place, op in self._staying(found)
                for access in op.accesses[: len(op.accesses) - len(op.outputs)]
                if access.buffer in found and place < written[access.buffer][-1]
            }
            if not early:
                break
            found = {name: values for name, values in found.items() if name not in early}
        read = {access.buffer for _, op in self._staying(found) for access in op.accesses}
        return {name: values for name, values in found.items() if name in read}

    def _values(self, name: str, writers: list[int]) -> bytes | None:
        buffer, ops = self.buffers[name], [self.ops[place] for place in writers]
        if buffer.role is not Role.TEMP or not all(place in self.made for place in writers):
            return None
        if all(_is_plain(op) for op in ops) or not self.known[name].known.all():
            return None
        last = self.made[writers[-1]]
        if last is not None and _fills(ops[-1], buffer):
            return last.values
        return host_bytes(self.known[name].values, buffer.dtype)

    def _staying(self, whole: dict[str, bytes]) -> Iterator[tuple[int, Op]]:
        """Ops that are executed, and read their operands."""
        for place, op in enumerate(self.ops):
            if op.outputs[0].buffer not in whole and not self._is_copied(place, op):
                yield place, op

    # --- known results that go into memory of others --------------------------------------------------------------------------

    def _is_copied(self, place: int, op: Op) -> bool:
        row = TABLE[op.row]
        if self.made.get(place) is None or _is_plain(op) or row.kind is Kind.MOVEMENT:
            return False
        return row.op_class is not OpClass.HARDWARE or any("int" in access.dtype for access in op.accesses)

    def _copied(self, place: int, op: Op) -> Op | None:
        found = self.made[place] if self._is_copied(place, op) else None
        if found is None:
            return None
        source = Access(self._constant(found).name, 0, found.stride, found.dtype)
        origin = op.origin.changed("rewrite", "FoldConstants", f"what {op.row} computes is known already")
        return Op(op.name, "relayout", op.dims, (source,), op.outputs, origin=origin, hints=op.hints)

    # --- integers that floats meet --------------------------------------------------------------------------------------------

    def _with_floats(self, op: Op) -> Op:
        """An op of the hardware with its known integers as the floats that it would make of them."""
        row = TABLE[op.row]
        kinds = {access.dtype for access in op.accesses if "float" in access.dtype}
        if row.kind is not Kind.POINTWISE or row.op_class is not OpClass.HARDWARE or len(kinds) != 1:
            return op
        (dtype,) = kinds
        inputs = tuple(self._as_float(o, dtype) if isinstance(o, Access) and "int" in o.dtype else o for o in op.inputs)
        return replace(op, inputs=inputs)

    def _as_float(self, access: Access, dtype: str) -> Access:
        known = {buffer.name: buffer for buffer in (*self.program.buffers, *self.constants.values())}
        buffer = known[access.buffer]
        if buffer.values is None or access.dtype != buffer.dtype:
            return access
        whole = KnownValues(buffer, buffer.values).values
        values = host_bytes(whole.astype(np.float32), dtype)
        if values is None or (dtype != "float32" and np.any(np.abs(whole) > _EXACT)):
            return access
        real = replace(
            buffer, name=f"{buffer.name}.{dtype}", dtype=dtype, values=values, role=Role.CONSTANT, layout=None
        )
        return replace(access, buffer=self._constant(real).name, dtype=dtype)

    def _constant(self, buffer: Buffer) -> Buffer:
        """Equal constants are one."""
        what = (buffer.dtype, buffer.size, buffer.stride, buffer.layout, buffer.values)
        return self.constants.setdefault(what, buffer)


def _format(dtype: str) -> DataFormats:
    return require_supported(dtype).device


def _renamed(op: Op, names: dict[str, str]) -> Op:
    if not any(isinstance(operand, Access) and operand.buffer in names for operand in op.inputs):
        return op
    inputs = tuple(
        operand.on(names.get(operand.buffer, operand.buffer)) if isinstance(operand, Access) else operand
        for operand in op.inputs
    )
    return replace(op, inputs=inputs)
