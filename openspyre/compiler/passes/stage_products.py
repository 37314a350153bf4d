"""Copies second operands of products to where the matrix unit can read them: sticks along n, and rows of zeros up to a whole stick of k."""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.compiler import ir
from openspyre.compiler.loops import expanded
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import require_supported
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Kind


@dataclass(frozen=True, slots=True)
class StageProducts:
    """`documented`: an operand that has to be turned and to get rows of zeros is turned first, as it is, and then copied."""

    documented: bool = False

    def run(self, program: ir.Program) -> ir.Program:
        buffers = {buffer.name: buffer for buffer in program.buffers}
        made: list[ir.Buffer] = []

        def legal(op: ir.Op) -> list[ir.Op]:
            second = op.inputs[1] if TABLE[op.row].kind is Kind.CONTRACTION else None
            if not isinstance(second, ir.Access) or _fits(op, second, buffers[second.buffer]):
                return [op]
            copies: list[ir.Op] = []
            if self.documented and not _runs_along_n(op, second, buffers[second.buffer]) and _is_padded(op, second):
                turned, temp, second = _copied(op, second, buffers[second.buffer], padded=False)
                buffers[temp.name] = temp
                made.append(temp)
                copies += turned
            staged, temp, access = _copied(op, second, buffers[second.buffer])
            made.append(temp)
            return [*copies, *staged, replace(op, inputs=(op.inputs[0], access))]

        body = expanded(program.body, legal)
        return replace(program, body=body, buffers=(*program.buffers, *made))


def _fits(op: ir.Op, second: ir.Access, buffer: ir.Buffer) -> bool:
    if require_supported(second.dtype).device.bits != 16 or any(dim.size == 0 for dim in op.dims):
        return True  # not for the matrix unit
    k = len(op.dims) - 1
    if op.dims[k].size == 1:
        return True  # nothing is summed
    rows = second.strides[k] != 0  # the matrix unit reads a row of its own for every k
    return _runs_along_n(op, second, buffer) and rows and op.dims[k].size % _lanes(second) == 0


def _runs_along_n(op: ir.Op, second: ir.Access, buffer: ir.Buffer) -> bool:
    n = len(op.dims) - 2
    found = stick_access(second, op.dims, buffer)
    return isinstance(found, StickAccess) and (found.lane_dim == n or (found.lane_dim is None and op.dims[n].size == 1))


def _lanes(access: ir.Access) -> int:
    return require_supported(access.dtype).device.elems_per_stick()


def _is_padded(op: ir.Op, second: ir.Access) -> bool:
    return op.dims[-1].size % _lanes(second) != 0


def _copied(
    op: ir.Op, second: ir.Access, buffer: ir.Buffer, *, padded: bool = True
) -> tuple[list[ir.Op], ir.Buffer, ir.Access]:
    name = f"{op.name}.second" if padded else f"{op.name}.turned"
    n, k = len(op.dims) - 2, len(op.dims) - 1
    batch = [d for d in range(len(op.dims) - 3) if second.strides[d] and op.dims[d].size > 1]
    order = [*batch, k, n]
    length = op.dims[k].size
    rows = -(-length // _lanes(second)) * _lanes(second) if padded else length
    size = tuple(rows if d == k else op.dims[d].size for d in order)
    stride = row_major(size)
    layout = SpyreTensorLayout(size, second.dtype)
    temp = ir.Buffer(name, second.dtype, size, stride, ir.Role.TEMP, layout, spare_rows=rows > length)
    dims = tuple(ir.Dim(op.dims[d].name, op.dims[d].size) for d in order)
    source = ir.Access(
        second.buffer, second.offset, tuple(second.strides[d] for d in order), second.dtype, second.advance
    )
    target = ir.Access(name, 0, stride, second.dtype)
    origin = op.origin.changed(
        "clone", "StageProducts", "a product's second operand has sticks along n, and whole ones of k"
    )
    ops = [ir.Op(f"{name}.copy", "relayout", dims, (source,), (target,), origin=origin)]
    if rows > length:
        # A copy of whole rows comes after the zeros of the last stick; what turns sticks may write behind its rows, and comes before.
        in_rows = _runs_along_n(op, second, buffer)
        first = rows - _lanes(second) if in_rows else length
        tail = tuple(replace(dim, size=rows - first) if d == k else dim for d, dim in zip(order, dims, strict=True))
        zero = ir.Iota(0, (0,) * len(dims))
        below = ir.Access(name, first * stride[-2], stride, second.dtype)
        ops.insert(0 if in_rows else 1, ir.Op(f"{name}.zeros", "iota", tail, (zero,), (below,), origin=origin))
    by_dim = dict(zip(order, stride, strict=True))
    return ops, temp, ir.Access(name, 0, tuple(by_dim.get(d, 0) for d in range(len(op.dims))), second.dtype)
