"""The one op that differs as launches of their own: the memory right before it, and its steps, which `openspyre run` runs again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from openspyre.artifact.bundle import Bundle, bundle_texts
from openspyre.artifact.bundle_function import Function
from openspyre.program.model import Program
from openspyre.spec.environment import Settings
from openspyre.spec.errors import SpyreError
from openspyre.tools.bisecting.by_ops import executions_of
from openspyre.tools.bisecting.by_steps import parts_of, start
from openspyre.tools.bisecting.machine import StepMachine, one_step
from openspyre.tools.bisecting.sides import Launch, Runnable, unwritten
from openspyre.tools.saving.images import digest
from openspyre.tools.saving.replaying import saved_error
from openspyre.tools.saving.saved_launch import CardSwitches, SavedArgument, SavedBuffer, SavedLaunch
from openspyre.tools.saving.writing import fill_saved_launch


def write_steps(
    place: Path, launch: Launch, what: tuple[Program, Runnable], name: str, others: Collection[str]
) -> Path:
    """A part of a program, with those right before it that the other side has in none of its own (`others`): they are fused there."""
    program, runnable = what
    parts = parts_of(program)
    last = next(number for number, part in enumerate(parts) if part.name == name)
    first = last
    while first > 0 and parts[first - 1].name not in others:
        first -= 1
    machine = start(runnable)
    for part in parts[:first]:
        machine.run(part.program)
    steps = tuple(step for part in parts[first : last + 1] for step in part.steps)
    return _write(place, launch, machine, one_step(program, steps), name, {})


def write_op(place: Path, launch: Launch, what: tuple[Bundle, Runnable], name: str) -> Path:
    """One op of a bundle, with its file beside."""
    bundle, runnable = what
    machine = start(runnable)
    for execution in executions_of(bundle, runnable):
        if execution.name == name:
            function = Function(bundle.function.parameters, (execution.execute,))
            files = bundle_texts(Bundle(bundle.name, function, {execution.execute.file: execution.op}))
            return _write(place, launch, machine, execution.program, name, files)
        machine.run(execution.program)
    raise KeyError(name)


def _write(
    place: Path, launch: Launch, machine: StepMachine, program: Program, name: str, files: dict[str, str]
) -> Path:
    images, pads = machine.images()
    error = None
    try:
        machine.run(program)
    except SpyreError as failure:
        error = saved_error(failure)
    after, _ = machine.images()
    sizes = [len(image.held) for image in images]
    buffers = [SavedBuffer(n, after="" if error else digest(image.held)) for n, image in zip(sizes, after, strict=True)]
    arguments = machine.arguments
    if len(program.symbols) + (program.pool_bytes > 0) > len(arguments):  # memory that the op keeps for itself
        images.append(unwritten(program.pool_bytes))
        buffers.append(SavedBuffer(program.pool_bytes))
        arguments = (*arguments, SavedArgument("pool", len(images) - 1))
    saved = SavedLaunch(
        f"{launch.name} {name}",
        launch.sources.get(name.split("#")[0], launch.site),
        "bisect",
        arguments,
        tuple(buffers),
        machine.scalars[: len(program.scalars)],
        CardSwitches(sanitize=True, core_span_mib=Settings.read().core_span_mib),
        error=error,
    )
    place.mkdir(parents=True, mode=0o700)
    for file, text in files.items():
        (place / file).write_text(text, encoding="utf-8")
    fill_saved_launch(place, saved, program, images, pads)
    return place
