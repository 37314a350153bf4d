"""Truth values beside fp32: the hardware's ops have one format, so they are held in fp32 for the op, and cast before or behind it."""

from __future__ import annotations

from dataclasses import replace

from openspyre.compiler import ir
from openspyre.compiler.emit.staging import Takes
from openspyre.compiler.sticks import Misfit, stick_access
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Kind

_WIDE = DataFormats.IEEE_FP32


def with_wide_truths(program: ir.Program, takes: Takes) -> ir.Program:
    """The program with truth values in fp32, behind its pool, where an op that the hardware takes so meets them and fp32."""
    work = _Work(program, takes)
    for op in program.ops:
        work.add(op)
    return replace(program, ops=tuple(work.ops), buffers=tuple(work.buffers.values()), pool_bytes=work.pool)


class _Work:
    def __init__(self, program: ir.Program, takes: Takes) -> None:
        self.takes, self.pool = takes, program.pool_bytes
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.ops: list[ir.Op] = []

    def add(self, op: ir.Op) -> None:
        narrow = [access for access in op.accesses if access.dtype == "bool" and self._format(access) is not _WIDE]
        meets = any(self._format(access) is _WIDE for access in op.accesses) or any(
            isinstance(operand, (ir.Scalar, ir.Constant)) and operand.dtype == "float32" for operand in op.inputs
        )
        if TABLE[op.row].kind is not Kind.POINTWISE or op.row == "cast" or not narrow or not meets:
            self.ops.append(op)
            return
        made = [self._temp(op, access, number) for number, access in enumerate(dict.fromkeys(narrow))]
        temps = dict(zip(dict.fromkeys(narrow), made, strict=True))
        if any(temp is None for temp in made):
            self.ops.append(op)
            return
        wide = {access: temp[1] for access, temp in temps.items() if temp is not None}
        inputs = tuple(wide.get(o, o) if isinstance(o, ir.Access) else o for o in op.inputs)
        replaced = replace(op, inputs=inputs, outputs=tuple(wide.get(o, o) for o in op.outputs))
        buffers = {temp[0].name: temp[0] for temp in made if temp is not None}
        if not self.takes(replaced, self.buffers | buffers):
            self.ops.append(op)
            return
        for name, buffer in buffers.items():
            self.buffers[name] = replace(buffer, place=self.pool)
            assert buffer.layout is not None
            self.pool += -(-buffer.layout.device_bytes // STICK_BYTES) * STICK_BYTES
        read = [access for access in wide if access in op.inputs]
        self.ops += [_cast(op, access, wide[access]) for access in read]
        self.ops.append(replaced)
        self.ops += [_cast(op, wide[access], access) for access in op.outputs if access in wide]

    def _format(self, access: ir.Access) -> DataFormats | None:
        layout = self.buffers[access.buffer].layout
        return None if layout is None else layout.device_dtype

    def _temp(self, op: ir.Op, like: ir.Access, number: int) -> tuple[ir.Buffer, ir.Access] | None:
        """As the access has it: along the same dim, or one value a stick."""
        found = stick_access(like, op.dims, self.buffers[like.buffer])
        if isinstance(found, Misfit):
            return None
        kept = [d for d, dim in enumerate(op.dims) if like.strides[d] and dim.size > 1]
        size = tuple(op.dims[d].size for d in kept)
        stride = row_major(size)
        order = [place for place, d in enumerate(kept) if d != found.lane_dim]
        order += [-1] if found.lane_dim is None else [kept.index(found.lane_dim)]
        if len(order) > 6:
            return None
        layout = SpyreTensorLayout(list(size), list(stride), "float32", order)
        name = f"{op.name}.truths{number}"
        strides = dict(zip(kept, stride, strict=True))
        access = ir.Access(name, 0, tuple(strides.get(d, 0) for d in range(len(op.dims))), "bool")
        return ir.Buffer(name, "bool", size, stride, ir.Role.TEMP, layout), access


def _cast(op: ir.Op, source: ir.Access, target: ir.Access) -> ir.Op:
    """Along the dims that move; the op itself broadcasts."""
    kept = [d for d, dim in enumerate(op.dims) if dim.size > 1 and (source.strides[d] or target.strides[d])]
    dims = tuple(op.dims[d] for d in kept)

    def along(access: ir.Access) -> ir.Access:
        return replace(access, strides=tuple(access.strides[d] for d in kept))

    name = f"{op.name}.cast_{source.buffer}"
    return ir.Op(name, "cast", dims, (along(source),), (along(target),), origin=op.origin)
