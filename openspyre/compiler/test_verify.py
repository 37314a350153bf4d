"""One fault each in a valid program: the verifier names it, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Access, Buffer, Dim, InPool, Iota, Op, Program, Role, Scalar
from openspyre.compiler.verify import Verifier
from openspyre.spec.errors import InternalError
from openspyre.spec.layout import SpyreTensorLayout

SCALE = Scalar("scale", "float16")
WHOLE = Access("x", 0, (70, 1), "float16")
VALID = Program(
    "p",
    (
        Buffer("x", "float16", (4, 70), (70, 1), Role.INPUT, SpyreTensorLayout([4, 70], "float16")),
        Buffer("half", "float16", (4, 70), (70, 1), Role.TEMP),
        Buffer("y", "float16", (4,), (1,), Role.OUTPUT),
    ),
    (
        Op("scaled", "mul", (Dim("m", 4), Dim("n", 70)), (WHOLE, SCALE), (Access("half", 0, (70, 1), "float16"),)),
        Op("total", "sum", (Dim("m", 4), Dim("n", 70, reduced=True)), (Access("half", 0, (70, 1), "float16"),),
           (Access("y", 0, (1, 0), "float16"),)),
    ),
    (SCALE,),
)  # fmt: skip


def buffer(name: str, **fields: object) -> Callable[[Program], Program]:
    def changed(program: Program) -> Program:
        return replace(program, buffers=tuple(replace(b, **fields) if b.name == name else b for b in program.buffers))  # type: ignore[arg-type]

    return changed


def op(name: str, **fields: object) -> Callable[[Program], Program]:
    def changed(program: Program) -> Program:
        return replace(program, body=tuple(replace(o, **fields) if o.name == name else o for o in program.ops))  # type: ignore[arg-type]

    return changed


FAULTS: dict[str, tuple[Callable[[Program], Program], str]] = {
    "a buffer twice": (lambda p: replace(p, buffers=(*p.buffers, p.buffers[0])), "two buffers are named 'x'"),
    "a scalar twice": (lambda p: replace(p, scalars=(SCALE, SCALE)), "two scalars are named 'scale'"),
    "no tensor": (buffer("half", stride=(1,)), "describe no tensor"),
    "no format": (buffer("half", dtype="float64"), "float64 has no format on the card"),
    "another format": (
        buffer("x", layout=SpyreTensorLayout([4, 70], "float32")),
        "holds IEEE_FP32, float16 is SEN169_FP16",
    ),
    "a layout too small": (buffer("x", layout=SpyreTensorLayout([4, 7], "float16")), "has no place for every element"),
    "an input in the pool": (buffer("x", place=InPool(0)), "is an input of the program, yet has a place"),
    "a place inside a stick": (buffer("half", place=InPool(64)), "place 64 is not the start of a stick"),
    "an unknown row": (op("total", row="summe"), "no row 'summe'"),
    "too few inputs": (op("scaled", inputs=(WHOLE,)), "mul takes 2 inputs, not 1"),
    "no output": (op("scaled", outputs=()), "it has no output"),
    "a dim twice": (op("scaled", dims=(Dim("m", 4), Dim("m", 70))), "two dims are named 'm'"),
    "a split of too little": (op("total", dims=(Dim("m", 4, split=5), Dim("n", 70, True))), "cannot be split into 5"),
    "too many cores": (op("scaled", dims=(Dim("m", 4, split=4), Dim("n", 70, split=10))), "40 cores of 32"),
    "an unknown scalar": (lambda p: replace(p, scalars=()), "is no scalar of the program"),
    "an unknown buffer": (op("scaled", inputs=(replace(WHOLE, buffer="z"), SCALE)), "there is no buffer 'z'"),
    "too few strides": (op("scaled", inputs=(replace(WHOLE, strides=(1,)), SCALE)), "1 strides for 2 dims"),
    "an iota's strides": (op("scaled", inputs=(WHOLE, Iota(0, (1,)))), "1 strides for 2 dims"),
    "other bits": (
        op("scaled", inputs=(replace(WHOLE, dtype="float32"), SCALE)),
        "takes the bits of 'x', float16, for float32",
    ),
    "beyond the end": (
        op("scaled", inputs=(replace(WHOLE, offset=1), SCALE)),
        "reaches from 1 to 280 in 'x', which has 280",
    ),
    "before the start": (op("scaled", inputs=(replace(WHOLE, strides=(70, -1)), SCALE)), "reaches from -69 to 210"),
    "a written input": (op("scaled", outputs=(WHOLE,)), "writes into 'x', an input"),
    "a reduced dim in the output": (op("total", outputs=(Access("y", 0, (0, 1), "float16"),)), "which is reduced"),
    "read before written": (lambda p: replace(p, body=p.ops[1:]), "reads 'half', which nothing has written yet"),
    "an output left out": (lambda p: replace(p, body=p.ops[:1]), "no op writes this output"),
}


def test_a_valid_program_has_no_problems() -> None:
    assert Verifier().problems(VALID) == []
    assert Verifier(lowered=True).problems(pipeline.run(VALID)) == []


def test_what_begins_as_whatever_lies_there_may_be_read() -> None:
    unwritten = FAULTS["read before written"][0](VALID)
    assert Verifier().problems(buffer("half", unset=True)(unwritten)) == []
    lowered = pipeline.run(buffer("half", unset=True)(unwritten), verify=True)
    assert lowered.buffer("half").layout is not None


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name: str) -> None:
    change, told = FAULTS[name]
    problems = Verifier().problems(change(VALID))
    assert any(told in problem for problem in problems), problems


def test_all_faults_are_told_at_once() -> None:
    program = VALID
    for name in ("a place inside a stick", "no format", "beyond the end"):
        program = FAULTS[name][0](program)
    problems = "\n".join(Verifier().problems(program))
    assert all(FAULTS[name][1] in problems for name in ("a place inside a stick", "no format", "beyond the end"))


def test_what_the_emitter_needs_is_asked_for_in_the_end() -> None:
    problems = Verifier(lowered=True).problems(VALID)
    assert "buffer 'half': it has no layout" in problems
    assert "buffer 'half': a temp without a place" in problems
    strided = op("scaled", inputs=(replace(WHOLE, strides=(70, 2)), SCALE), dims=(Dim("m", 4), Dim("n", 35)))
    assert any("needs a relayout first" in problem for problem in Verifier(lowered=True).problems(strided(VALID)))
    assert Verifier(lowered=True).problems(pipeline.run(strided(VALID))) == []


def test_temps_that_live_together_share_nothing() -> None:
    lowered = pipeline.run(VALID)
    twin = replace(lowered.buffer("half"), name="twin")
    both = replace(lowered.ops[0], name="again", outputs=(replace(lowered.ops[0].outputs[0], buffer="twin"),))
    program = replace(lowered, buffers=(*lowered.buffers, twin), body=(lowered.ops[0], both, *lowered.ops[1:]))
    assert any("'half' and 'twin' live at the same time" in problem for problem in Verifier().problems(program))
    assert any("of a pool of 128" in problem for problem in Verifier().problems(replace(program, pool_bytes=128)))


def test_the_pipeline_checks_when_asked() -> None:
    assert pipeline.run(VALID, verify=True) == pipeline.run(VALID)
    with pytest.raises(
        InternalError, match="what the passes were given is no valid program 'p':\nbuffer 'half': dtype"
    ):
        pipeline.run(FAULTS["no format"][0](VALID), verify=True)
