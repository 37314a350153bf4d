"""Runs mutants: the verifier's word, then the back end, the card's load check and a launch, which must all agree with it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from math import prod
from pathlib import Path

from openspyre.artifact.bundle import Bundle, bundle_texts, read_bundle
from openspyre.artifact.launch_spec import Argument, read_launch_spec
from openspyre.backend import FuseSteps
from openspyre.backend.superdsc import compile_bundle
from openspyre.card import cards, programs
from openspyre.program.footprint import footprints
from openspyre.program.model import Program, Relayout, Step
from openspyre.program.tree import steps_of
from openspyre.spec.errors import IndexOutOfRange, SanitizerFinding, SpyreError, ValueOutOfRange
from openspyre.tools.bundle import ANY_BYTES, compiled_for, examine
from openspyre.tools.launch_images import number_image
from openspyre.tools.launches import Launch, execute, prepare

MOST_LANES = 1 << 21  # of a program that is launched: others would only take long
MOST_BYTES = 64 << 20
BLOCK = 1 << 20  # bytes of an argument that nobody sized


class Disagreement(Exception):
    """A bundle that the verifier accepts cannot be run, or is another one on disk."""


def judge_directory(directory: Path) -> str:
    """What became of a mutant: refused, executed, or only loaded because a launch would take long."""
    bundle, problems = examine(directory)
    json.dumps([str(problem) for problem in problems])
    if problems or bundle is None:
        if bundle is not None:
            _run_in_spite(bundle)
        return "refused"
    _check_files(bundle)
    spec = read_launch_spec(directory)
    sizes = [argument.bytes for argument in spec] if spec is not None else _sizes(bundle)
    if sum(sizes) > MOST_BYTES:
        return "too large"
    return _run(prepare(bundle, _given(spec, sizes), spec, directory))


def _check_files(bundle: Bundle) -> None:
    """What was read is the same once it is written and read again."""
    with tempfile.TemporaryDirectory() as place:
        for name, text in bundle_texts(bundle).items():
            (Path(place) / name).write_text(text, encoding="utf-8")
        again = read_bundle(Path(place))
    if again.ops != bundle.ops:
        raise Disagreement(f"it is another bundle once it was written: {again.ops} and not {bundle.ops}")


def _sizes(bundle: Bundle) -> list[int]:
    """As long as the program reaches: of a table, some rows."""
    touched = footprints(compiled_for(bundle, [BLOCK] * bundle.arguments))
    return [min(ANY_BYTES, max(128, touched[n].end if n in touched else 128)) for n in range(bundle.arguments)]


def _given(spec: tuple[Argument, ...] | None, sizes: list[int]) -> dict[int, bytes]:
    """Zeros, so that indices are in range; what a launch spec brings is its own."""
    if spec is None:
        return {number: bytes(size) for number, size in enumerate(sizes)}
    tensors = {n: bytes(a.bytes) for n, a in enumerate(spec) if a.role in ("input", "update") and a.file is None}
    numbers = {n: a.layout for n, a in enumerate(spec) if a.role == "number" and a.value is None}
    return tensors | {number: number_image(1, layout) for number, layout in numbers.items() if layout is not None}


def _run(launch: Launch) -> str:
    for program in (launch.program, FuseSteps().run(launch.program)):
        if not _is_small(program, [len(image) for image in launch.images]):
            programs.load(program).unload()
            return "loaded"
        try:
            execute(replace(launch, program=program))
        except (ValueOutOfRange, IndexOutOfRange, SanitizerFinding):
            return "refused by the card"  # what a value or the sanitizer refuses is no disagreement
    return "executed"


def _run_in_spite(bundle: Bundle) -> None:
    """What the verifier refuses may reach the card all the same: whatever the card loads must be safe to run."""
    try:
        program = compile_bundle(bundle, [BLOCK] * bundle.arguments)
    except Exception:
        return  # the back end takes valid bundles only
    judge_program(program, dict.fromkeys(program.symbols, BLOCK))


def judge_program(program: Program, sizes: dict[str, int]) -> str:
    """A program straight to the card, with a block of memory per symbol: refused with words, or executed."""
    try:
        loaded = programs.load(program)
    except (SpyreError, TypeError, ValueError, OverflowError):
        return "refused"
    try:
        if not _is_small(program, list(sizes.values())):
            return "loaded"
        card = cards.get()
        blocks = {name: card.allocate(sizes.get(name) or 1 << 16) for name in program.symbols}
        for block in blocks.values():
            block.write_memory(
                bytes(block.size_bytes)
            )  # else the sanitizer refuses the first read, and nothing is tried
        loaded.run(blocks, dict.fromkeys(program.scalars, 1.0), card.index)
    except SpyreError:
        return "refused by the launch"
    finally:
        loaded.unload()
    return "executed"


def _is_small(program: Program, sizes: list[int]) -> bool:
    lanes = sum(_lanes(step) * prod(counts) for step, counts in steps_of(program.body))
    return sum(sizes) + program.pool_bytes <= MOST_BYTES and lanes <= MOST_LANES


def _lanes(step: Step) -> int:
    if isinstance(step, Relayout):
        return prod(step.source.size) + prod(step.target.size)
    return prod(dim.extent for dim in step.dims) * step.lane.lanes
