"""Runs mutants: the verifier's word, then the back end, the card's load check and a launch, which must all agree with it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from openspyre.artifact import Bundle, read, verify, write
from openspyre.artifact.model import Buffer, Role
from openspyre.backend import FuseSteps, compile_bundle
from openspyre.card import _card, cards, programs
from openspyre.program.model import Program, Step, StepKind
from openspyre.program.tree import steps_of
from openspyre.spec.errors import IndexOutOfRange, SanitizerFinding, SpyreError, ValueOutOfRange
from openspyre.spec.formats import formats_of

MOST_LANES = 1 << 21  # of a program that is launched: others would only take long
MOST_BYTES = 64 << 20


class Disagreement(Exception):
    """A bundle that the verifier accepts cannot be run, or is another one on disk."""


def judge_bundle(bundle: Bundle) -> str:
    """What became of a mutant: refused, executed, or only loaded because a launch would take long."""
    problems = verify(bundle)
    if problems:
        _run_in_spite(bundle)
        return "refused"
    _check_files(bundle)
    outcome = "executed"
    plain = compile_bundle(bundle)
    for program in (plain, FuseSteps().run(plain)):
        loaded = programs.load(program)
        try:
            if _is_small(program, [buffer.layout.device_bytes for buffer in bundle.arguments]):
                _launch(loaded, bundle)
            else:
                outcome = "loaded"
        finally:
            loaded.unload()
    return outcome


def _check_files(bundle: Bundle) -> None:
    """The same bundle on disk is valid too, and the same."""
    with tempfile.TemporaryDirectory() as place:
        write(bundle, Path(place) / "bundle")
        again = read(Path(place) / "bundle")
    ordered = replace(bundle, buffers=(*bundle.arguments, *bundle.temps))
    if repr(again) != repr(ordered):
        raise Disagreement(f"it is another bundle once it was written: {again} and not {ordered}")


def _run_in_spite(bundle: Bundle) -> None:
    """What the verifier refuses may reach the card all the same: whatever the card loads must be safe to run."""
    try:
        program = compile_bundle(bundle)
    except Exception:
        return  # the back end takes valid bundles only
    judge_program(program, {buffer.name: min(abs(buffer.layout.device_bytes), 1 << 20) for buffer in bundle.arguments})


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
        loaded.run(blocks, dict.fromkeys(program.scalars, 1.0), card.index)
    except SpyreError:
        return "refused by the launch"
    finally:
        loaded.unload()
    return "executed"


def _launch(loaded: programs.LoadedProgram, bundle: Bundle) -> None:
    """Every element 1 or 0, so that indices are in range; what a value or the sanitizer refuses is no disagreement."""
    card = cards.get()
    try:
        memory = {buffer.name: _placed(card, buffer) for buffer in bundle.arguments}
        loaded.run(memory, {s.name: 1.0 if "float" in s.dtype else 1 for s in bundle.scalars}, card.index)
    except (ValueOutOfRange, IndexOutOfRange, SanitizerFinding):
        pass


def _placed(card: Any, buffer: Buffer) -> Any:
    layout = buffer.layout
    shape = _card.intern(
        buffer.size, buffer.stride, buffer.dtype, layout.device_size, layout.stride_map,
        int(layout.device_dtype), int(layout.element_arrangement),
    )  # fmt: skip
    memory = card.allocate(shape.device_bytes)
    if buffer.role is not Role.OUTPUT and prod(buffer.size):
        _card.copy_in(np.zeros(buffer.size, dtype=formats_of(buffer.dtype).numpy), buffer.dtype, memory, shape)
    return memory


def _is_small(program: Program, sizes: list[int]) -> bool:
    lanes = sum(_lanes(step) * prod(counts) for step, counts in steps_of(program.body))
    return sum(sizes) + program.pool_bytes <= MOST_BYTES and lanes <= MOST_LANES


def _lanes(step: Step) -> int:
    if step.kind is StepKind.RELAYOUT:
        return sum(prod(view.size) for view in step.views)
    return prod(loop.extent for loop in step.loops) * (step.lane.lanes if step.lane is not None else 64)
