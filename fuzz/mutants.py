"""Mutants by number: the same seed and number make the same one, so that each can be tried again alone.

Bundles of our own compiler, the example's, and those of other front ends where their vectors are: facts of the model are changed and
written as files, or the files themselves are. Programs are changed and go straight to the card.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from fuzz import execution, text_mutants
from fuzz.model_mutants import mutant
from fuzz.samples import samples
from openspyre.artifact.bundle import Bundle, bundle_texts, read_bundle
from openspyre.artifact.directory import json_text
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.launch_spec import FILE, Argument, launch_spec_json
from openspyre.backend import FuseSteps, compile_emitted
from openspyre.program.model import Operand, Program, Repeat, Step
from openspyre.program.tree import mapped
from openspyre.spec.packing import elements_of

ROOT = Path(__file__).parents[1]
VECTORS = Path(os.environ.get("OPENSPYRE_FOREIGN_BUNDLES", ROOT.parent / "shared" / "foreign_bundles"))
_CHANGES = (1, 1, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Original:
    """A sound bundle of at most ten ops: as a model with what its launch's arguments are, if anybody says, and as files."""

    name: str
    bundle: Bundle
    arguments: tuple[Argument, ...] | None
    files: dict[str, str]


@cache
def originals() -> tuple[Original, ...]:
    found = [_ours(emitted) for emitted in samples()]
    for directory in (ROOT / "examples" / "kernel_directory", *sorted(VECTORS.glob("*/*/launch_0/bundle"))):
        bundle = read_bundle(directory)
        if len(list(bundle.function.executions())) <= 10:
            files = {path.name: path.read_text() for path in directory.iterdir()}
            found.append(Original(str(directory), bundle, None, files))
    return tuple(found)


def _ours(emitted: Emitted) -> Original:
    arguments = tuple(
        argument if argument.values is None else replace(argument, file=f"{argument.name}.npy")
        for argument in emitted.arguments
    )
    return Original(emitted.name, emitted.bundle, arguments, _texts(emitted.bundle, arguments))


def _texts(bundle: Bundle, arguments: tuple[Argument, ...] | None) -> dict[str, str]:
    spec = {} if arguments is None else {FILE: json_text(launch_spec_json(arguments))}
    return bundle_texts(bundle) | spec


def unpack(original: Original, files: dict[str, str], directory: Path) -> Path:
    """Files as a directory, with the values of constants beside them."""
    directory.mkdir()
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    for argument in original.arguments or ():
        if argument.values is not None and argument.file is not None:
            held = elements_of(argument.values, argument.size, argument.stride or (), argument.dtype)
            np.save(directory / argument.file, held)
    return directory


def bundle(rng: random.Random) -> tuple[str, Original, Bundle, tuple[Argument, ...] | None]:
    """What was done to a sample, and the bundle and arguments it leaves."""
    original = rng.choice(originals())
    changed, arguments = original.bundle, original.arguments
    files = sorted(changed.ops)
    match rng.choice(("op", "op", "op", "op", "order", "swap", "arguments")):
        case "order":
            said, function = mutant(rng, changed.function, rng.choice(_CHANGES))
            changed = replace(changed, function=function)
        case "swap" if len(files) > 1:
            one, other = rng.sample(files, 2)
            said = f"{one} and {other} swapped"
            changed = replace(changed, ops=changed.ops | {one: changed.ops[other], other: changed.ops[one]})
        case "arguments" if arguments is not None:
            said, arguments = mutant(rng, arguments, rng.choice(_CHANGES))
        case _:
            file = rng.choice(files)
            said, op = mutant(rng, changed.ops[file], rng.choice(_CHANGES))
            said, changed = f"{file}: {said}", replace(changed, ops=changed.ops | {file: op})
    return f"{original.name}: {said}", original, changed, arguments


def program(seed: int, number: int) -> tuple[str, Program, dict[str, int]]:
    """What was done to the program of a sample, the program, and the bytes of its symbols' memory."""
    rng = random.Random(f"program {seed} {number}")
    original, made, sizes = rng.choice(_programs())
    said, changed = mutant(rng, made, rng.choice(_CHANGES))
    return f"{original}: {said}", changed, sizes


@cache
def _programs() -> tuple[tuple[str, Program, dict[str, int]], ...]:
    return tuple(
        (each.name, program, {argument.name: argument.bytes for argument in each.arguments})
        for each in samples()
        for plain in (compile_emitted(each),)
        for program in (plain, FuseSteps().run(plain), _twice(plain))
    )


def _twice(plain: Program) -> Program:
    """In a repeat, with advances that can be changed."""
    return replace(plain, body=(Repeat(2, mapped(plain.body, _advancing)),))


def _advancing(step: Step) -> Step:
    def moved(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(o, advance=(0,)) if o.kind.in_memory else o for o in operands)

    return replace(step, inputs=moved(step.inputs), outputs=moved(step.outputs))


def _told(said: str, judge: Callable[[], str]) -> str:
    """Whatever goes wrong is a finding, and the next mutant is tried."""
    try:
        return judge()
    except Exception as error:
        return f"fault: {said}: {type(error).__name__}: {error}".replace("\n", " ")


def judge_bundle(seed: int, number: int) -> str:
    said, original, changed, arguments = bundle(random.Random(f"bundle {seed} {number}"))
    try:
        files = _texts(changed, arguments)
    except Exception:
        return "unwritten"  # a model that cannot be written is no mutant
    with tempfile.TemporaryDirectory() as place:
        directory = unpack(original, files, Path(place) / "bundle")
        return _told(said, lambda: execution.judge_directory(directory))


def judge_text(seed: int, number: int) -> str:
    rng = random.Random(f"text {seed} {number}")
    original = rng.choice(originals())
    said, files = text_mutants.mutant(rng, original.files)
    with tempfile.TemporaryDirectory() as place:
        directory = unpack(original, files, Path(place) / "bundle")
        return _told(f"{original.name}: {said}", lambda: execution.judge_directory(directory))


def judge_program(seed: int, number: int) -> str:
    said, changed, sizes = program(seed, number)
    return _told(said, lambda: execution.judge_program(changed, sizes))


JUDGES = {"texts": judge_text, "bundles": judge_bundle, "programs": judge_program}
