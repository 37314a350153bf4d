"""Documented bundles of our own compiler, to be mutated: ops of the hardware with gaps, masks, copies and an index, and extension ops."""

from __future__ import annotations

from openspyre.artifact.documented import DocumentedBundle
from openspyre.compiler import ir, pipeline
from openspyre.compiler.emit import emit_documented
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout


def _buffer(name: str, size: tuple[int, ...], role: ir.Role = ir.Role.INPUT, dtype: str = "float16") -> ir.Buffer:
    return ir.Buffer(name, dtype, size, row_major(size), role, SpyreTensorLayout(size, dtype))


def _access(buffer: ir.Buffer, *strides: int, offset: int = 0) -> ir.Access:
    return ir.Access(buffer.name, offset, strides, buffer.dtype)


def _product() -> ir.Program:
    a, b, c = _buffer("a", (5, 70)), _buffer("b", (70, 9)), _buffer("c", (5, 9), ir.Role.OUTPUT)
    dims = (ir.Dim("m", 5), ir.Dim("n", 9), ir.Dim("k", 70, reduced=True))
    op = ir.Op("mm", "batchmatmul", dims, (_access(a, 70, 0, 1), _access(b, 0, 1, 9)), (_access(c, 9, 1, 0),))
    return ir.Program("product", (a, b, c), (op,))


def _functions() -> ir.Program:
    """A slice, a number, a fold with a mask, a function that the hardware has not, a view across sticks."""
    x, y, z = _buffer("x", (8, 200)), _buffer("y", (4, 100), ir.Role.OUTPUT), _buffer("z", (4,), ir.Role.OUTPUT)
    t = ir.Buffer("t", "float16", (4, 100), (100, 1), ir.Role.TEMP)
    dims, number = (ir.Dim("i", 4), ir.Dim("j", 100)), ir.Scalar("s", "float16")
    folded = (ir.Dim("i", 4), ir.Dim("j", 100, reduced=True))
    ops = (
        ir.Op("mul", "mul", dims, (_access(x, 200, 1, offset=203), number), (_access(t, 100, 1),)),
        ir.Op("sin", "sin", dims, (_access(t, 100, 1),), (_access(y, 100, 1),)),
        ir.Op("max", "amax", folded, (_access(t, 100, 1),), (_access(z, 1, 0),)),
    )
    return ir.Program("functions", (x, y, z, t), ops, (number,))


def _rows() -> ir.Program:
    table, index = _buffer("table", (9, 70)), _buffer("index", (5,), dtype="int64")
    y = _buffer("y", (5, 70), ir.Role.OUTPUT)
    dims = (ir.Dim("i", 5), ir.Dim("j", 70), ir.Dim("index", 9, reduced=True))
    op = ir.Op("rows", "gather", dims, (_access(table, 0, 1, 70), _access(index, 1, 0, 0)), (_access(y, 70, 1, 0),))
    return ir.Program("rows", (table, index, y), (op,))


def ours() -> list[DocumentedBundle]:
    return [emit_documented(pipeline.run(program())).bundle for program in (_product, _functions, _rows)]
