"""A contraction whose second operand was turned for it reads it along k: the same elements, without the copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.backend.fusion import FuseSteps
from openspyre.program.model import (
    Contraction,
    LaneBlock,
    Loop,
    Operand,
    OperandKind,
    Program,
    Step,
    StepKind,
    Use,
)
from openspyre.program.verify import problems
from openspyre.spec.ops.expression import Code, Lane

A, B, OUT, POOL = range(4)
M, N, K = 32, 128, 128  # b lies as [k sticks][n][64]; turned as [n sticks][k][64]
BITS = ("int16", "SENINT16")


def turn(loops: tuple[int, ...] = (N // 64, 64, K // 64, 64)) -> Step:
    """n and k, each by sticks and lanes."""
    source = Operand(OperandKind.SPLAT, B, 0, (64 * 64, 64, N * 64, 1), 0, *BITS)
    target = Operand(OperandKind.SPLAT, POOL, 0, (K * 64, 1, 64 * 64, 64), 0, *BITS)
    code = Code((Lane.INT,), (), (), (0,), (Lane.INT,))
    lane = LaneBlock(64, 1, -1)
    return Step("turn", StepKind.MAP, tuple(map(Loop, loops)), lane, (source,), (target,), code)


def contract() -> Step:
    loops = (Loop(M), Loop(N // 64), Loop(K // 64, reduced=True))
    a = Operand(OperandKind.VECTOR, A, 0, (64, 0, M * 64))
    b = Operand(OperandKind.VECTOR, POOL, 0, (0, K * 64, 64 * 64))
    out = Operand(OperandKind.VECTOR, OUT, 0, (64, M * 64, 0))
    return Step("mm", StepKind.CONTRACT, loops, LaneBlock(64, N, 1), (a, b), (out,), contraction=Contraction(K, 64, 64))


def program(*steps: Step) -> Program:
    return Program("p", ("a", "b", "out"), (), steps, K * N * 2, uses=(Use.READ, Use.READ, Use.FRESH))


def test_what_was_only_turned_for_a_contraction_is_read_as_it_lay() -> None:
    before = program(turn(), contract())
    assert problems(before) == []
    fused = FuseSteps().run(before)
    assert problems(fused) == []
    (only,) = fused.steps
    assert only.inputs[1] == Operand(OperandKind.VECTOR, B, 0, (0, 64 * 64, N * 64))
    assert only.contraction == Contraction(K, 64, 64, b_along_k=True)


@pytest.mark.parametrize(
    "why",
    [
        lambda: (replace(turn(), loops=(Loop(1), *turn().loops[1:])), contract()),
        lambda: (turn(), replace(turn(), name="over", inputs=turn().outputs, outputs=turn().inputs), contract()),
        lambda: (turn(), contract(), replace(turn(), name="again", inputs=turn().outputs, outputs=(_elsewhere(),))),
    ],
    ids=["it was turned in part", "its source is overwritten", "somebody else reads it turned"],
)
def test_a_copy_that_is_needed_stays(why) -> None:  # type: ignore[no-untyped-def]
    steps = why()
    uses = (Use.READ, Use.SHARED, Use.FRESH)
    assert len(FuseSteps().run(replace(program(*steps), uses=uses)).steps) == len(steps)


def _elsewhere() -> Operand:
    return replace(turn().outputs[0], symbol=OUT)
