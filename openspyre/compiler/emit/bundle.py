"""A whole program as a bundle: equal ops share one description; addresses and scalars stand in the executions."""

from __future__ import annotations

from collections.abc import Hashable

from openspyre.artifact.model import Buffer, Bundle, Description, Execution, Place, Role, Scalar
from openspyre.compiler import ir
from openspyre.compiler.emit.description import describe
from openspyre.compiler.structure import structure_of
from openspyre.spec.errors import InternalError
from openspyre.spec.sharing import shares_work


def emit(program: ir.Program) -> Bundle:
    """The bundle of a program whose layouts, splits and places are chosen."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    known = _Descriptions(buffers)
    executions = []
    for op in program.ops:
        if any(dim.size == 0 and not dim.reduced for dim in op.dims):
            continue  # nothing to compute
        number, begins = known.of(op)
        places = tuple([Place(access.buffer, byte) for access, byte in zip(op.accesses, begins, strict=True)])
        scalars = tuple([operand.name for operand in op.inputs if isinstance(operand, ir.Scalar)])
        executions.append(Execution(op.name, number, places, scalars, op.origin))
    constants = [buffer for buffer in program.buffers if buffer.role is ir.Role.CONSTANT]
    temps = [buffer for buffer in program.buffers if buffer.role is ir.Role.TEMP]
    arguments = [b for b in program.buffers if b.role not in (ir.Role.CONSTANT, ir.Role.TEMP)]
    return Bundle(
        name=program.name,
        buffers=tuple(_buffer(buffer) for buffer in (*arguments, *constants, *temps)),
        descriptions=tuple(description for description, _ in known.numbers),
        executions=tuple(executions),
        scalars=tuple(Scalar(scalar.name, scalar.dtype) for scalar in program.scalars),
        pool_bytes=program.pool_bytes,
    )


class _Descriptions:
    """The descriptions of a program's ops, numbered. Ops of a structure are described once."""

    def __init__(self, buffers: dict[str, ir.Buffer]) -> None:
        # Equal attributes may still differ in kind (1, 1.0, True): their text tells.
        self.numbers: dict[tuple[Description, str], int] = {}
        self._buffers = buffers
        self._seen: dict[Hashable, tuple[int, tuple[int, ...]]] = {}

    def of(self, op: ir.Op) -> tuple[int, tuple[int, ...]]:
        """The number of an op's description, and the byte of its buffer at which each access begins."""
        key = (structure_of(op, self._buffers), repr(op.attributes))
        if key not in self._seen or not shares_work():
            description, places = describe(op, self._buffers)
            number = self.numbers.setdefault((description, repr(description.attributes)), len(self.numbers))
            self._seen[key] = number, tuple(place.byte for place in places)
        return self._seen[key]


def _buffer(buffer: ir.Buffer) -> Buffer:
    if buffer.layout is None or (buffer.role is ir.Role.TEMP and buffer.place is None):
        missing = "layout" if buffer.layout is None else "place in the pool"
        raise InternalError(f"buffer {buffer.name!r} reached the emitter without a {missing}")
    role = Role(buffer.role.value)
    return Buffer(
        buffer.name, buffer.dtype, buffer.size, buffer.stride, role, buffer.layout, buffer.place, buffer.values
    )
