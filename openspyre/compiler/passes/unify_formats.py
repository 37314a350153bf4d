"""Gives every op of the hardware operands of one format: beside float32, 16-bit operands are widened first and results narrowed last.

What is widened is exact, and truth values are 0 and 1 in either format: no bit of a result changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Operand, Program, Role
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats, require_supported
from openspyre.spec.hardware import HARDWARE, Shape
from openspyre.spec.ops import TABLE, Kind

_NARROW, _WIDE = DataFormats.SEN169_FP16, DataFormats.IEEE_FP32


@dataclass(frozen=True, slots=True)
class UnifyFormats:
    """No options."""

    def run(self, program: Program) -> Program:
        program = replace(program, body=tuple(_as_cast(op) for op in program.ops))
        if not any(_is_mixed(op) for op in program.ops):
            return program
        work = _Work()
        for op in program.ops:
            work.add(op)
        return replace(program, buffers=(*program.buffers, *work.buffers), body=tuple(work.ops))


def _format(access: Access) -> DataFormats:
    return require_supported(access.dtype).device


def _as_cast(op: Op) -> Op:
    """A relayout that changes the format on its way is a cast."""
    if TABLE[op.row].kind is not Kind.MOVEMENT or len(op.accesses) != 2:
        return op
    changes = {_format(access) for access in op.accesses} == {_NARROW, _WIDE}
    return replace(op, row="cast") if changes else op


def _is_mixed(op: Op) -> bool:
    row = TABLE[op.row]
    hardware = HARDWARE.get(row.artifact) if row.documented and not row.mixes_formats else None
    if hardware is None or hardware.shape not in (Shape.POINTWISE, Shape.REDUCTION) or len(op.outputs) != 1:
        return False
    return {_format(access) for access in op.accesses} == {_NARROW, _WIDE} and _WIDE in hardware.formats


class _Work:
    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.ops: list[Op] = []

    def add(self, op: Op) -> None:
        if not _is_mixed(op):
            self.ops.append(op)
            return
        inputs = tuple(self._widened(op, operand) for operand in op.inputs)
        (target,) = op.outputs
        if _format(target) is _WIDE:
            self.ops.append(replace(op, inputs=inputs))
            return
        walked = [d for d, dim in enumerate(op.dims) if not dim.reduced and dim.size > 1]
        wide = self._temp(op, walked)
        self.ops.append(replace(op, inputs=inputs, outputs=(wide,)))
        # Truth values leave as the numbers they are: the hardware's cast knows no other.
        narrow = replace(target, dtype="float16") if target.dtype == "bool" else target
        self._cast(op, walked, wide, narrow)

    def _widened(self, op: Op, operand: Operand) -> Operand:
        if not isinstance(operand, Access) or _format(operand) is _WIDE:
            return operand
        walked = [d for d, dim in enumerate(op.dims) if operand.strides[d] and dim.size > 1]
        wide = self._temp(op, walked)
        self._cast(op, walked, operand, wide)
        return wide

    def _temp(self, op: Op, walked: list[int]) -> Access:
        size = tuple(op.dims[d].size for d in walked)
        name = f"{op.name}.wide{len(self.buffers)}"
        self.buffers.append(Buffer(name, "float32", size, row_major(size), Role.TEMP))
        along = dict(zip(walked, row_major(size), strict=True))
        return Access(name, 0, tuple(along.get(d, 0) for d in range(len(op.dims))), "float32")

    def _cast(self, op: Op, walked: list[int], source: Access, target: Access) -> None:
        def picked(access: Access) -> Access:
            return replace(access, strides=tuple(access.strides[d] for d in walked))

        dims = tuple(Dim(op.dims[d].name, op.dims[d].size) for d in walked)
        name = f"{op.name}.cast{len(self.ops)}"
        origin = op.origin.changed("clone", "UnifyFormats", f"{op.row} computes in float32")
        self.ops.append(Op(name, "cast", dims, (picked(source),), (picked(target),), origin=origin, hints=op.hints))
