"""Numbers from arguments become scalars where they are read as one value, and stay memory where they are not."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.bind_numbers import BindNumbers
from openspyre.program.model import LaneBlock, Loop, Map, Operand, OperandKind, Program, Use
from openspyre.program.verify import problems
from openspyre.spec.ops.expression import Lane, Value, call, trace

EPS, X, OUT, POOL = range(4)


def rows(symbol: int) -> Operand:
    return Operand(OperandKind.VECTOR, symbol, 0, (64,))


def added(first: Operand, second: Operand, target: Operand) -> Map:
    def body(a: Value, b: Value) -> Value:
        return call("add", a, b)

    code = trace(body, (Lane.FLOAT, Lane.FLOAT))
    return Map("add", (Loop(8),), LaneBlock(64, 64, -1), (first, second), (target,), code)


ONE = Operand(OperandKind.SPLAT, EPS, 0, (0,))
PROGRAM = Program(
    "p",
    ("eps", "x", "out"),
    ("given",),
    (added(rows(X), ONE, rows(POOL)), added(rows(POOL), ONE, rows(OUT))),
    1024,
    uses=(Use.READ, Use.READ, Use.FRESH),
)


def test_a_number_is_a_scalar_of_the_launch() -> None:
    bound = BindNumbers(("eps",)).run(PROGRAM)
    assert (bound.symbols, bound.scalars, bound.uses) == (("x", "out"), ("given", "eps"), (Use.READ, Use.FRESH))
    first, second = bound.steps
    assert first.inputs == (rows(0), replace(ONE, kind=OperandKind.SCALAR, symbol=1))
    assert (first.outputs, second.inputs[0], second.outputs) == ((rows(2),), rows(2), (rows(1),)), "the pool comes last"
    assert problems(bound) == []


def test_what_is_read_as_more_than_one_value_stays_memory() -> None:
    for other in (rows(EPS), replace(ONE, strides=(64,)), replace(ONE, offset=1)):
        program = replace(PROGRAM, body=(*PROGRAM.steps, added(rows(X), other, rows(OUT))))
        assert BindNumbers(("eps",)).run(program) is program
    assert BindNumbers(()).run(PROGRAM) is PROGRAM
    assert BindNumbers(("nobody",)).run(PROGRAM) is PROGRAM
