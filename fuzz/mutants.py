"""Mutants by number: the same seed and number make the same one, so that each can be tried again alone."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from fuzz import documented_mutants, execution, text_mutants
from fuzz.model_mutants import mutant
from fuzz.samples import samples
from openspyre.artifact.model import Bundle
from openspyre.backend import FuseSteps, compile_bundle
from openspyre.program.model import Operand, Program, Repeat, Step
from openspyre.program.tree import mapped

_CHANGES = (1, 1, 1, 2, 3)


def bundle(seed: int, number: int) -> tuple[str, Bundle]:
    """What was done to a sample, and the bundle it leaves."""
    rng = random.Random(f"bundle {seed} {number}")
    original = rng.choice(samples())
    said, changed = mutant(rng, original, rng.choice(_CHANGES))
    return f"{original.name}: {said}", changed


def program(seed: int, number: int) -> tuple[str, Program, dict[str, int]]:
    """What was done to the program of a sample, the program, and the bytes of its symbols' memory."""
    rng = random.Random(f"program {seed} {number}")
    original, made, sizes = rng.choice(_programs())
    said, changed = mutant(rng, made, rng.choice(_CHANGES))
    return f"{original}: {said}", changed, sizes


@cache
def _programs() -> tuple[tuple[str, Program, dict[str, int]], ...]:
    return tuple(
        (each.name, program, {b.name: b.layout.device_bytes for b in each.arguments})
        for each in samples()
        for plain in (compile_bundle(each),)
        for program in (plain, FuseSteps().run(plain), _twice(plain))
    )


def _twice(plain: Program) -> Program:
    """In a repeat, with advances that can be changed."""
    return replace(plain, body=(Repeat(2, mapped(plain.body, _advancing)),))


def _advancing(step: Step) -> Step:
    def moved(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(o, advance=(0,)) if o.kind.in_memory else o for o in operands)

    return replace(step, inputs=moved(step.inputs), outputs=moved(step.outputs))


def judge_bundle(seed: int, number: int) -> str:
    said, changed = bundle(seed, number)
    try:
        return execution.judge_bundle(changed)
    except Exception as error:  # whatever it is, it is a finding, and the next mutant is tried
        return f"fault: {said}: {type(error).__name__}: {error}".replace("\n", " ")


def judge_program(seed: int, number: int) -> str:
    said, changed, sizes = program(seed, number)
    try:
        return execution.judge_program(changed, sizes)
    except Exception as error:
        return f"fault: {said}: {type(error).__name__}: {error}".replace("\n", " ")


def judge_text(seed: int, number: int) -> str:
    """The verifier alone: damaged files must be answered, whatever is in them."""
    said, files = next(text_mutants.mutants(seed * 1_000_003 + number, 1))
    with tempfile.TemporaryDirectory() as place:
        try:
            return "refused" if text_mutants.answer(files, Path(place) / "bundle") else "valid"
        except Exception as error:
            return f"fault: {said}: {type(error).__name__}: {error}".replace("\n", " ")


JUDGES = {
    "texts": judge_text,
    "bundles": judge_bundle,
    "programs": judge_program,
    "documented": documented_mutants.judge,
}
