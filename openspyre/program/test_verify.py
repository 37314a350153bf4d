"""The verifier of programs: a sound step has no problem, and each way to spoil it is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.program.model import (
    Dim,
    Gather,
    LaneBlock,
    Map,
    Operand,
    OperandKind,
    Program,
    Reduce,
    Rows,
    RowStage,
    Space,
    Step,
    Use,
)
from openspyre.program.verify import problems
from openspyre.spec.ops.expression import Code, Instruction, Lane
from openspyre.spec.ops.row import Fold

F, WORD = Lane.FLOAT, Lane.INT
DOUBLED = Code((F,), (), (Instruction("add", 1, (0, 0)),), (1,), (F,))
KEPT = Code((F,), (), (), (0,), (F,))
COPIED = Code((F,), (), (Instruction("copy", 1, (0,)),), (1,), (F,))
LANE = LaneBlock(64, 128, 1, reduced=True)


def half(symbol: int, *strides: int, kind: OperandKind = OperandKind.VECTOR) -> Operand:
    return Operand(kind, symbol, 0, strides)


MAP = Map("double", (Dim(8),), LaneBlock(64, 64, -1), (half(0, 64),), (half(1, 64),), DOUBLED)
ROWS = Rows(
    "norm",
    (Dim(8), Dim(2, reduced=True)),
    LANE,
    (half(0, 64, 512),),
    (half(1, 64, 512), half(2, 64, 512)),
    (
        RowStage((0,), KEPT, 0, Fold.SUM),
        RowStage((0, 128), Code((F, F), (), (Instruction("sub", 2, (0, 1)),), (2,), (F,)), 1),
        RowStage((1,), COPIED, 2),
    ),
    (1, 2),
)
TOTAL = Operand(OperandKind.SPLAT, 1, 0, (64, 0), dtype="int64", data_format="IEEE_INT32")
COUNT = Reduce(
    "norm",
    ROWS.dims,
    LANE,
    inputs=(half(0, 64, 512), Operand(OperandKind.SCALAR, 0, 0, (0, 0), 0, "int64", "IEEE_INT32")),
    outputs=(TOTAL,),
    code=Code((F, WORD), (), (), (1,), (WORD,)),
    combine=Fold.SUM,
    finish=Code((WORD, WORD, WORD), (), (), (0,), (WORD,)),
)


def found(*steps: Step) -> list[str]:
    return problems(Program("p", ("x", "y", "z"), ("n",), steps))


def test_sound_steps_have_no_problems() -> None:
    assert found(MAP, ROWS, COUNT) == []


def spoilt_stage(place: int, **changes: object) -> Step:
    stages = list(ROWS.stages)
    stages[place] = replace(stages[place], **changes)  # type: ignore[arg-type]
    return replace(ROWS, stages=tuple(stages))


ACROSS = replace(MAP.inputs[0], kind=OperandKind.STRIDED, tile_stride=64)
SPOILT: dict[str, Step] = {
    "maps, reductions and rows read such operands": Gather(
        *replace(MAP, inputs=(ACROSS, COUNT.inputs[1])).head, DOUBLED, 0, 1
    ),
    "blocks of 64 must be whole; only a map has a shorter last one": replace(
        MAP, lane=LaneBlock(64, 500, 0, store_padding=True), inputs=(ACROSS,)
    ),
    "output 0 is not in memory; outputs are Vector or Splat": replace(
        MAP, outputs=(replace(MAP.outputs[0], kind=OperandKind.STRIDED),)
    ),
    "input 0 lies in the scratchpad, but dim 1 splits the reduction over cores": replace(
        COUNT,
        dims=(Dim(8), Dim(2, 2, True)),
        inputs=(replace(COUNT.inputs[0], space=Space.SCRATCHPAD), COUNT.inputs[1]),
    ),
    "more points together than a card could ever walk": replace(
        MAP, dims=(Dim(1 << 22), Dim(1 << 22)), inputs=(half(0, 64, 0),), outputs=(half(1, 64, 64),)
    ),
    "output 0: 4194304 points are stored in 64 elements": replace(MAP, dims=(Dim(1 << 22),), outputs=(half(1, 0),)),
    "block_dim -2 is not a dim": replace(MAP, lane=LaneBlock(64, 64, -2)),
    "stage 2: no instruction writes its row": spoilt_stage(2, code=KEPT),
    "output 1 is not the target of a stage": replace(ROWS, stages=ROWS.stages[:2]),
    "output 1 repeats the row result of another": replace(ROWS, results=(1, 1)),
    "1 row results for 2 outputs": replace(ROWS, results=(1,)),
    "stage 1: reads 129, which nothing has set": spoilt_stage(1, rows=(0, 129)),
    "stage 2: the target 24 is beyond the last": spoilt_stage(2, target=24),
    "stage 1: writes row register 0, an input": spoilt_stage(1, target=0),
    "stage 2: takes 1 inputs, there are 2": spoilt_stage(2, rows=(1, 0)),
    "stage 2: result 0 is said to be int32, found fp32": spoilt_stage(2, code=replace(COPIED, result_lanes=(WORD,))),
    "dim 1 runs along the rows, of which only the outermost dim can be split": replace(
        ROWS, dims=(Dim(8, 1, True), Dim(2, 2, True))
    ),
    "must both be reduced, or neither": replace(ROWS, lane=replace(LANE, reduced=False)),
    "instruction 0 (add) reads r5, which nothing has set": replace(
        MAP, code=replace(DOUBLED, instructions=(Instruction("add", 1, (0, 5)),))
    ),
    "instruction 0 (add_i) needs int32 in r0, found fp32": replace(
        MAP, code=replace(DOUBLED, instructions=(Instruction("add_i", 1, (0, 0)),), result_lanes=(WORD,))
    ),
    "2 results for 1 outputs": replace(MAP, code=replace(DOUBLED, results=(1, 1), result_lanes=(F, F))),
    "output 0: fp32 has no way into int64": replace(
        MAP, outputs=(replace(MAP.outputs[0], dtype="int64", data_format="IEEE_INT32"),)
    ),
    "float32 in IEEE_INT32 cannot be loaded": replace(
        MAP, inputs=(replace(MAP.inputs[0], dtype="float32", data_format="IEEE_INT32"),)
    ),
    "the splits ask for 64 cores": replace(MAP, dims=(Dim(32, 32), Dim(8, 2)), inputs=(), outputs=(half(1, 1, 1),)),
    "the split does not divide the extent": replace(MAP, dims=(Dim(8, 3),)),
    "input 0 has 2 strides for 1 dims": replace(MAP, inputs=(half(0, 64, 1),)),
    "input 0: symbol 9 of 3": replace(MAP, inputs=(half(9, 64),)),
    "a lane extent of 65 does not end in the last of 1 blocks": replace(MAP, lane=LaneBlock(64, 65, -1)),
    "0 lanes, a block has a multiple of 32": replace(
        MAP, lane=LaneBlock(0, 64, -1), inputs=(half(0, 64, kind=OperandKind.STRIDED),)
    ),
    "blocks of 32 lanes are not whole sticks of 64": replace(MAP, lane=LaneBlock(32, 32, -1)),
    "output 0 moves with the reduced dim 1": replace(COUNT, outputs=(replace(TOTAL, strides=(64, 1)),)),
    "finish: result 0 is said to be fp32, found int32": replace(
        COUNT, finish=Code((WORD, WORD, WORD), (), (), (0,), (F,)), outputs=(half(1, 64, 0, kind=OperandKind.SPLAT),)
    ),
}


@pytest.mark.parametrize("problem", SPOILT)
def test_each_way_to_spoil_a_step_is_named(problem: str) -> None:
    assert any(problem in line for line in found(SPOILT[problem])), found(SPOILT[problem])


def test_all_problems_are_told_with_their_steps() -> None:
    told = found(SPOILT["input 0: symbol 9 of 3"], MAP, SPOILT["2 results for 1 outputs"])
    assert [line.split(":")[0] for line in told] == ["step 0 'double'", "step 2 'double'"]


def test_what_is_said_of_symbols_is_true() -> None:
    program = Program("p", ("x", "out"), (), (MAP,))
    assert problems(program) == []
    assert problems(replace(program, uses=(Use.READ, Use.FRESH))) == []
    assert problems(replace(program, uses=(Use.READ,))) == ["1 uses for 2 symbols"]
    assert problems(replace(program, uses=(Use.FRESH, Use.READ))) == [
        "step 0 'double': it writes 'out', which is said to be only read"
    ]
