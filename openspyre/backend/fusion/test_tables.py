"""Gathers that read through a copy of their table."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.fuse_steps import FuseSteps
from openspyre.program.model import Dim, Gather, LaneBlock, Map, Operand, OperandKind, Program, Use
from openspyre.program.verify import problems
from openspyre.spec.ops.expression import Lane, trace


def half(symbol: int, *strides: int) -> Operand:
    return Operand(OperandKind.VECTOR, symbol, 0, strides, dtype="float16", data_format="SEN169_FP16")


COPY = trace(lambda x: x, (Lane.FLOAT,))
# x [10, 128] as [2, 10, 64] is copied to [10, 2, 64] in the pool, of which rows go to y [4, 128].
X, Y, POOL = 0, 2, 3
TABLE = half(POOL, 64, 0)
INDEX = Operand(OperandKind.SPLAT, 1, 0, (0, 1), dtype="int32", data_format="IEEE_INT32")
OUT = half(Y, 256, 64)
LOAD = Map(
    "load", (Dim(2), Dim(10, 2)), LaneBlock(64, 128, 0),
    (half(X, 640, 64),), (half(POOL, 64, 128),), COPY,
)  # fmt: skip
ROWS = Gather("rows", (Dim(2), Dim(4)), LaneBlock(64, 128, 0), (TABLE, INDEX), (OUT,), COPY, 128, 10)


def fused(*steps: Map | Gather) -> Program:
    uses = (Use.READ, Use.READ, Use.FRESH)
    program = Program("p", ("x", "i", "y"), (), steps, 10 * 256, uses=uses)
    assert problems(program) == []
    made = FuseSteps().run(program)
    assert problems(made) == []
    return made


def test_rows_are_read_where_a_copy_had_them_from() -> None:
    made = fused(LOAD, ROWS)
    (step,) = made.steps
    assert isinstance(step, Gather)
    assert (step.inputs[0].symbol, step.inputs[0].strides, step.index_stride, step.index_bound) == (X, (640, 0), 64, 10)
    assert made.pool_bytes == 0


def test_a_copy_of_a_part_or_read_otherwise_stays() -> None:
    part = replace(LOAD, dims=(Dim(2), Dim(9)))  # the last row is whatever lay there
    for steps in ((part, ROWS), (LOAD, replace(ROWS, index_stride=64, index_bound=19))):
        assert len(fused(*steps).steps) == 2
