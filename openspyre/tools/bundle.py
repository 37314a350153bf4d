"""Bundles for the tools: read, checked by every rule, and lowered, so that `verify` and `run` say the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openspyre.artifact.bundle import Bundle, parse_bundle
from openspyre.artifact.bundle_check import check_bundle
from openspyre.artifact.directory import InvalidBundle
from openspyre.artifact.extensions.format_check import holds
from openspyre.artifact.fields import Problem, Problems
from openspyre.artifact.launch_spec import FILE, Argument, parse_launch_spec
from openspyre.program.footprint import footprints
from openspyre.program.model import Program
from openspyre.spec.addressing import row_major
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InvalidArgument, SpyreError
from openspyre.spec.formats import formats_of

ANY_BYTES = 1 << 40  # bytes an argument is taken to have as long as nobody has said


def depends_on_size(end: int) -> bool:
    """Whether a program reaches as far as it does only because nobody said how large an argument is: it is indexed."""
    return end > ANY_BYTES // 2


def compiled_for(bundle: Bundle, sizes: list[int]) -> Program:
    """The program for arguments of these sizes. A pool that nobody sized is as large as what is written into it."""
    from openspyre.backend.superdsc import compile_bundle

    program = compile_bundle(bundle, sizes)
    if not bundle.has_pool or sizes[0] != ANY_BYTES:
        return program
    pool = footprints(program).get(0)
    if pool is None or not depends_on_size(pool.end):
        return program
    return compile_bundle(bundle, [max((end for _, end in pool.writes), default=0), *sizes[1:]])


def examine(directory: Path) -> tuple[Bundle | None, list[Problem]]:
    """The bundle, if its files state one, and everything that is wrong with it."""
    problems: list[Problem] = []
    bundle = parse_bundle(directory, problems)
    if bundle is None or problems:
        return None, problems
    problems += check_bundle(bundle, Settings.read().machine)
    if not problems:
        problems += _lowering_problems(bundle)
    if not problems:
        problems += _launch_problems(bundle, directory)
    return bundle, problems


def read(directory: Path) -> Bundle:
    """A bundle without problems; InvalidBundle lists them."""
    bundle, problems = examine(directory)
    if bundle is None or problems:
        raise InvalidBundle(str(directory), problems)
    return bundle


def _lowering_problems(bundle: Bundle) -> list[Problem]:
    """What only shows when an op becomes steps. Every file once: other executions differ in their addresses alone."""
    from openspyre.backend.superdsc import lowering_problems

    return [
        Problem(file, "", found, "an op that the card can walk") for file, found in lowering_problems(bundle, ANY_BYTES)
    ]


def _launch_problems(bundle: Bundle, directory: Path) -> list[Problem]:
    """What a launch spec says wrong of itself or of the bundle beside it."""
    problems = Problems(FILE)
    spec = parse_launch_spec(directory, problems)
    if spec is None or problems.found:
        return problems.found
    if len(spec) != bundle.arguments:
        problems.say("arguments", f"{len(spec)} arguments", f"{bundle.arguments}, as many as the bundle takes")
        return problems.found
    for number, argument in enumerate(spec):
        _check_argument(argument, f"arguments[{number}]", problems)
        _check_values(argument, directory, f"arguments[{number}]", problems)
    if not problems.found:
        _check_reach(bundle, spec, problems)
    return problems.found


def _check_argument(argument: Argument, field: str, problems: Problems) -> None:
    if argument.layout is None or argument.role == "number" or argument.value is not None:
        return
    form = argument.layout.device_dtype
    if not holds(argument.dtype, form):
        problems.say(f"{field}.dtype", f"{argument.dtype} in {form.name}", "a dtype that the layout's format holds")
    try:
        stride = row_major(argument.size) if argument.stride is None else argument.stride
        argument.layout.addressing(argument.size, stride)
    except SpyreError as error:
        problems.say(f"{field}.layout", str(error), "a layout with a place for every element")


def _check_values(argument: Argument, directory: Path, field: str, problems: Problems) -> None:
    """Its file is there, beside the spec, and holds what the spec says of it."""
    file = argument.file
    if file is None:
        return
    if not file or "/" in file or "\0" in file or file.startswith(".") or (directory / file).is_symlink():
        problems.add(f"{field}.file", file, "a file beside it")
        return
    try:
        held = np.load(directory / file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        problems.say(f"{field}.file", f"{file}, which cannot be read ({error})", "an .npy file")
        return
    found = (getattr(held, "shape", None), getattr(held, "dtype", None))
    if found != (argument.size, np.dtype(formats_of(argument.dtype).numpy)):
        expected = f"{list(argument.size)} of {formats_of(argument.dtype).numpy}"
        problems.say(f"{field}.file", f"{file} with {list(found[0] or ())} of {found[1]}", expected)


def _check_reach(bundle: Bundle, spec: tuple[Argument, ...], problems: Problems) -> None:
    """Arguments as long as the bundle needs them; what is only read is not written."""
    try:
        touched = footprints(compiled_for(bundle, [argument.bytes for argument in spec]))
    except InvalidArgument as error:
        problems.say("arguments", str(error), "arguments of the bundle's sizes")
        return
    for number, argument in enumerate(spec):
        found = touched.get(number)
        if found is not None and found.end > argument.bytes:
            told = f"{argument.bytes} bytes of {argument.name}"
            problems.say(f"arguments[{number}]", told, f"at least {found.end}, as far as the bundle reaches")
        if found is not None and found.written and argument.role in ("input", "number", "constant"):
            problems.say(f"arguments[{number}].role", f"{argument.role}, though it is written", "output or update")
