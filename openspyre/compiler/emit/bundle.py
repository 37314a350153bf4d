"""A whole program as a bundle: equal ops share one description; addresses and scalars stand in the executions."""

from __future__ import annotations

from openspyre.artifact.model import Buffer, Bundle, Description, Execution, Role, Scalar
from openspyre.compiler import ir
from openspyre.compiler.emit.description import describe
from openspyre.spec.errors import InternalError


def emit(program: ir.Program) -> Bundle:
    """The bundle of a program whose layouts, splits and places are chosen."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    # Equal attributes may still differ in kind (1, 1.0, True): their text tells.
    numbers: dict[tuple[Description, str], int] = {}
    executions = []
    for op in program.ops:
        if any(dim.size == 0 and not dim.reduced for dim in op.dims):
            continue  # nothing to compute
        description, places = describe(op, buffers)
        number = numbers.setdefault((description, repr(description.attributes)), len(numbers))
        scalars = tuple(operand.name for operand in op.inputs if isinstance(operand, ir.Scalar))
        executions.append(Execution(op.name, number, places, scalars, op.origin))
    arguments = [buffer for buffer in program.buffers if buffer.role is not ir.Role.TEMP]
    temps = [buffer for buffer in program.buffers if buffer.role is ir.Role.TEMP]
    return Bundle(
        name=program.name,
        buffers=tuple(_buffer(buffer) for buffer in (*arguments, *temps)),
        descriptions=tuple(description for description, _ in numbers),
        executions=tuple(executions),
        scalars=tuple(Scalar(scalar.name, scalar.dtype) for scalar in program.scalars),
        pool_bytes=program.pool_bytes,
    )


def _buffer(buffer: ir.Buffer) -> Buffer:
    if buffer.layout is None or (buffer.role is ir.Role.TEMP and buffer.place is None):
        missing = "layout" if buffer.layout is None else "place in the pool"
        raise InternalError(f"buffer {buffer.name!r} reached the emitter without a {missing}")
    role = Role(buffer.role.value)
    return Buffer(buffer.name, buffer.dtype, buffer.size, buffer.stride, role, buffer.layout, buffer.place)
