"""Programs are checked twice, in Python after fusion and by the card when it loads them: both say the same of random mutants."""

import random
from dataclasses import fields, is_dataclass, replace
from enum import Enum

import pytest

from fuzz import samples
from openspyre import backend
from openspyre.card import programs
from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.text import parse_program
from openspyre.program.model import Gather, Map, OperandKind, Program, Reduce, Rows, Scatter, Step
from openspyre.program.verify import problems
from openspyre.spec.errors import SpyreError
from openspyre.spec.ops.expression import Code, Instruction

NUMBERS = (-1, 0, 1, 2, 3, 5, 8, 31, 32, 33, 64, 65, 127, 128, 129)
# What the card's form of a program cannot say wrong.
STRICTER = ("inputs, there are", "a contraction has", "is said to be only read")
KINDS = (Map, Reduce, Rows, Gather, Scatter)

DRAW = """
program "draw" pool 0
number "seed_low" int32
number "seed_high" int32
number "offset_low" int32
number "offset_high" int32
number "{first}" {dtype}
number "{second}" {dtype}
buffer "out" output {dtype} [3, 50] [50, 1]
op "draw" {row}
  dim "rows" 3
  dim "columns" 50
  count 0 [50, 1]
  number "seed_low" int32
  number "seed_high" int32
  number "offset_low" int32
  number "offset_high" int32
  number "{first}" {dtype}
  number "{second}" {dtype}
  write "out" {dtype} 0 [50, 1]
"""
DRAWS = (
    ("uniform", "float32", "from", "to"),
    ("normal", "float32", "mean", "std"),
    ("random_integers", "int32", "from", "to"),
)


def mutated(value, choose: random.Random):
    """The same value with one number, flag, name or member somewhere in it changed."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, Enum):
        return choose.choice([*type(value)])
    if isinstance(value, int):
        return choose.choice((*NUMBERS, value + 1, value - 1, 2 * value))
    if isinstance(value, tuple):
        if value and choose.random() < 0.8:
            place = choose.randrange(len(value))
            return (*value[:place], mutated(value[place], choose), *value[place + 1 :])
        return value[:-1] if choose.random() < 0.5 else value + value[-1:]
    if isinstance(value, Instruction):
        sources = [choose.choice((source, choose.randrange(12))) for source in value.sources]
        return replace(value, target=choose.choice((value.target, value.target + 1)), sources=tuple(sources))
    if is_dataclass(value):
        field = choose.choice(
            ("instructions", "results") if isinstance(value, Code) else [f.name for f in fields(value)]
        )
        return replace(value, **{field: mutated(getattr(value, field), choose)})
    return value


def card_takes(program: Program) -> bool:
    try:
        programs.load(program).unload()
    except (SpyreError, TypeError, ValueError, RuntimeError):
        return False
    return True


def steps() -> list[tuple[Program, Step]]:
    draws = [DRAW.format(row=row, dtype=dtype, first=a, second=b) for row, dtype, a, b in DRAWS]
    drawn = [emit_bundle(pipeline.run(parse_program(text), verify=True)) for text in draws]
    made = [backend.FuseSteps().run(backend.compile_emitted(bundle)) for bundle in (*samples.samples(), *drawn)]
    opcodes = {
        i.opcode for program in made for step in program.steps if isinstance(step, Map) for i in step.code.instructions
    }
    assert opcodes >= {"philox", "normal", "mul_high"}
    return [(program, step) for program in made for step in program.steps if isinstance(step, KINDS)]


@pytest.mark.parametrize("seed", range(4))
def test_the_verifier_and_the_card_say_the_same(seed):
    choose, seen = random.Random(seed), {True: 0, False: 0}
    for program, step in steps():
        for _ in range(60):
            mutant = replace(program, body=(mutated(step, choose),))
            found = problems(mutant)
            took = card_takes(mutant)
            seen[took] += 1
            if took and any(reason in line for line in found for reason in STRICTER):
                continue
            assert took == (not found), f"the card {'takes' if took else 'refuses'} {mutant}, the verifier says {found}"
    assert min(seen.values()) > 20, seen


@pytest.mark.parametrize("bits", [-1, 1 << 32, 1 << 62])
def test_a_constant_that_no_word_holds_is_refused_with_words(bits: int) -> None:
    program = backend.FuseSteps().run(backend.compile_emitted(samples.normalised()))
    step = next(step for step in program.steps if isinstance(step, Rows))
    at = next(i for i, stage in enumerate(step.stages) if stage.code.constants)
    code = replace(step.stages[at].code, constants=(bits, *step.stages[at].code.constants[1:]))
    stages = (*step.stages[:at], replace(step.stages[at], code=code), *step.stages[at + 1 :])
    with pytest.raises(SpyreError, match="'constants' cannot be"):
        programs.load(replace(program, body=(replace(step, stages=stages),)))


def test_a_block_without_lanes_is_refused_with_words_where_lanes_lie_apart() -> None:
    """Whether a block of none divides the extent cannot be asked."""
    programs_ = [backend.FuseSteps().run(backend.compile_emitted(sample)) for sample in samples.samples()]
    (program, step), *_ = (
        (program, step)
        for program in programs_
        for step in program.steps
        if any(operand.kind is OperandKind.STRIDED for operand in step.inputs)
    )
    spoilt = replace(program, body=(replace(step, lane=replace(step.lane, lanes=0)),))
    assert any("0 lanes" in line for line in problems(spoilt))
    with pytest.raises(SpyreError, match="lanes"):
        programs.load(spoilt)
