"""The pass as a whole: programs whose values share bytes of the pool, scratchpads, arguments that may be one another's memory."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion import FuseSteps
from openspyre.program.model import Dim, LaneBlock, Map, Operand, OperandKind, Program, Space, Step, Use
from openspyre.program.verify import problems
from openspyre.spec.ops.expression import Lane, Value, call, trace

X, Y, OUT, OUT2, POOL = range(5)
USES = (Use.READ, Use.READ, Use.FRESH, Use.FRESH)
SLOT = 8 * 64  # elements


def at(symbol: int, slot: float = 0) -> Operand:
    return Operand(OperandKind.VECTOR, symbol, int(slot * SLOT), (64,))


def mapped(name: str, opcode: str, *operands: Operand) -> Map:
    """The last operand is written."""

    def body(*values: Value) -> Value:
        return call(opcode, *values)

    code = trace(body, (Lane.FLOAT,) * (len(operands) - 1))
    return Map(name, (Dim(8, 4),), LaneBlock(64, 64, -1), operands[:-1], operands[-1:], code)


def fused(*steps: Step, uses: tuple[Use, ...] = USES) -> tuple[Step, ...]:
    program = Program("p", ("x", "y", "out", "out2"), (), steps, 4 * SLOT * 2, uses=uses)
    assert problems(program) == []
    found = FuseSteps().fused(program)
    assert found.problems == () and problems(found.program) == []
    assert found.program.pool_bytes <= program.pool_bytes
    assert replace(found.program, body=(), pool_bytes=0) == replace(program, body=(), pool_bytes=0)
    if len(found.program.steps) == len(steps):
        assert found.program is program, "what cannot be improved stays as it is"
    return found.program.steps


def test_a_value_in_the_bytes_of_its_own_operand_is_fused() -> None:
    steps = fused(
        mapped("a", "exp", at(X), at(POOL)),
        mapped("b", "add", at(POOL), at(Y), at(POOL)),
        mapped("c", "sqrt", at(POOL), at(OUT)),
    )
    assert [step.name for step in steps] == ["c"]
    assert {operand.symbol for operand in (*steps[0].inputs, *steps[0].outputs)} == {X, Y, OUT}


def test_a_value_whose_operand_is_gone_by_then_is_stored() -> None:
    """What "b" reads is overwritten by "c", in part: "d" can have neither of them computed later."""
    steps = (
        mapped("a", "exp", at(X), at(POOL, 0)),
        mapped("keep", "neg", at(POOL, 0), at(OUT2)),
        mapped("b", "exp", at(POOL, 0), at(POOL, 2)),
        mapped("c", "exp", at(Y), at(POOL, 0.5)),
        mapped("c again", "neg", at(POOL, 0.5), at(OUT2, 1)),
        mapped("d", "add", at(POOL, 2), at(POOL, 0.5), at(OUT)),
    )
    found = {step.name: step for step in fused(*steps)}
    assert at(POOL, 0) not in found["d"].inputs


def test_a_program_of_which_nothing_is_known_keeps_its_order() -> None:
    """Without uses, out may be the memory of x, shifted: nothing may be read later than it was."""
    steps = (mapped("a", "exp", at(X), at(POOL)), mapped("b", "sqrt", at(POOL), at(OUT)))
    assert len(fused(*steps, uses=())) == 2
    assert len(fused(*steps)) == 1


def test_what_goes_through_a_scratchpad_stays() -> None:
    pad = replace(at(0), space=Space.SCRATCHPAD)
    steps = (
        mapped("there", "exp", at(X), pad),
        mapped("back", "neg", pad, at(OUT)),
        mapped("a", "exp", at(Y), at(POOL)),
        mapped("unread", "exp", at(Y), replace(pad, offset=SLOT)),
        mapped("b", "sqrt", at(POOL), at(OUT2)),
    )
    found = fused(*steps)
    assert [step.name for step in found] == ["there", "back", "unread", "b"]
    assert [step for step in found if step.name != "b"] == [steps[0], steps[1], steps[3]]


def test_steps_that_are_not_joined_are_the_ones_they_were() -> None:
    apart = replace(mapped("alone", "exp", at(X), at(OUT)), cores=(3, 1, 0, 2))
    found = fused(apart, mapped("a", "exp", at(Y), at(POOL)), mapped("b", "sqrt", at(POOL), at(OUT2)))
    assert found[0] is apart


def test_a_map_of_one_value_to_a_stick_computes_that_alone() -> None:
    def lane_0(slot: int) -> Operand:
        return Operand(OperandKind.SPLAT, POOL, slot * SLOT, (64,))

    whole = mapped("scale", "exp", at(POOL, 0), at(POOL, 1))
    first = mapped("a", "exp", at(X), at(POOL, 0))
    last = mapped("b", "mul", at(Y), lane_0(1), at(OUT))
    scale, _ = fused(first, whole, last)
    assert [(o.kind, o.symbol) for o in (*scale.inputs, *scale.outputs)] == [
        (OperandKind.SPLAT, X),
        (OperandKind.SPLAT, POOL),
    ]
    assert isinstance(scale, Map) and scale.lane == LaneBlock(64, 1, -1)
    lane_1 = replace(last, inputs=(at(Y), replace(lane_0(1), offset=SLOT + 1)))
    assert all(isinstance(s, Map) and s.lane == first.lane for s in fused(first, whole, lane_1)), (
        "somebody reads another lane"
    )
