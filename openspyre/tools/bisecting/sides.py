"""The launches of one side of a comparison: saved ones, or bundles with the memory of their arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from openspyre.artifact.bundle import Bundle, parse_bundle
from openspyre.artifact.directory import EXECUTION_LIST, is_directory
from openspyre.artifact.fields import Problem
from openspyre.artifact.launch_spec import Argument, read_launch_spec
from openspyre.backend import FuseSteps
from openspyre.program.model import Program
from openspyre.program.text import parse_program
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import formats_of
from openspyre.tools.bisecting.machine import sanitized_card
from openspyre.tools.bundle import read
from openspyre.tools.launch_images import number_image, tiled
from openspyre.tools.launches import image_of, prepare
from openspyre.tools.saving.images import Image, Pads, load_images, states_to_assume
from openspyre.tools.saving.saved_launch import UNFUSED, SavedArgument, is_saved_launch, read_saved_launch

_UNWRITTEN, _TAINTED, _WRITTEN = 2, 3, 4  # of ByteState


@dataclass(frozen=True, slots=True)
class Runnable:
    """Something that runs step by step: a program, or a bundle, on the memory of its arguments. `site`: the line that launched it."""

    arguments: tuple[SavedArgument, ...]
    images: list[Image]
    scalars: tuple[int, ...]
    pads: Pads | None
    pool: int | None  # number of the argument that is one


@dataclass(frozen=True, slots=True)
class Launch:
    """One directory: what ran (`fused`), the same before fusion, and the bundle it came from, as far as they are known."""

    directory: Path
    name: str
    site: str
    fused: tuple[Program, Runnable] | None
    unfused: tuple[Program, Runnable] | None
    bundle: tuple[Bundle, Runnable] | None
    spec: tuple[Argument, ...] | None = None

    @property
    def sources(self) -> dict[str, str]:
        """The user's line of each op by its name."""
        if self.bundle is None:
            return {}
        ops = self.bundle[0].ops.values()
        found = {op.name: op.provenance.source for op in ops if op.provenance is not None}
        return {name: f"{at.file}:{at.line}" for name, at in found.items() if at is not None}


def launches_of(path: Path, given: dict[int, bytes]) -> list[Launch]:
    """Of a launch's directory, or of one that holds such, in order of their names. `given`: images of a bundle's arguments by segment."""
    if not is_directory(path):
        raise InvalidArgument(f"{path} is no directory; a bundle, a saved launch or a directory of such is wanted")
    sanitized_card()  # before anything lies on it
    if is_saved_launch(path):
        return [_saved(path)]
    if (path / EXECUTION_LIST).exists():
        return [_bundle(path, given)]
    inner = sorted(child for child in path.iterdir() if is_directory(child) and not child.name.startswith("."))
    found = [_saved(child) if is_saved_launch(child) else _bundle(child, {}) for child in inner]
    if not found:
        raise InvalidArgument(
            f"{path} holds no launch: neither {EXECUTION_LIST} nor directories that torch.spyre.save_launches wrote"
        )
    processes = {read_saved_launch(child)[0].process for child in inner if is_saved_launch(child)}
    if len(processes) > 1:
        raise InvalidArgument(f"{path} holds launches of {len(processes)} processes; give a directory of one")
    return found


def _saved(directory: Path) -> Launch:
    launch, program = read_saved_launch(directory)
    images, pads = load_images(directory, launch)
    spec = read_launch_spec(directory)
    laid = {said.name: said for said in spec or ()}
    images = [
        image
        if image.states is not None
        else _assumed(image, _WRITTEN if launch.card.sanitize else states_to_assume(launch, program, number))
        for number, image in enumerate(images)
    ]
    for argument in launch.arguments:
        if not launch.card.sanitize and argument.offset == 0 and argument.name in laid:
            images[argument.buffer] = _without_padding(images[argument.buffer], laid[argument.name])
    pool = len(launch.arguments) - 1 if program.pool_bytes else None
    fused = Runnable(launch.arguments, images, launch.scalars, pads, pool)
    unfused = _unfused(directory, fused)
    bundle = None if spec is None else _bundle_of_saved(directory, spec, fused)
    return Launch(directory, launch.name, launch.site, (program, fused), unfused, bundle, spec)


def _unfused(directory: Path, fused: Runnable) -> tuple[Program, Runnable] | None:
    """The same launch before fusion: its pool is another one."""
    if not (directory / UNFUSED).exists():
        return None
    program = parse_program((directory / UNFUSED).read_text(encoding="utf-8"))
    arguments = fused.arguments if fused.pool is None else fused.arguments[:-1]
    if not program.pool_bytes:
        return program, replace(fused, arguments=arguments, pool=None)
    images = [*fused.images, unwritten(program.pool_bytes)]
    arguments = (*arguments, SavedArgument("pool", len(images) - 1))
    return program, replace(fused, arguments=arguments, images=images, pool=len(arguments) - 1)


def _bundle_of_saved(directory: Path, spec: tuple[Argument, ...], fused: Runnable) -> tuple[Bundle, Runnable] | None:
    """Arguments of the bundle by their names: what has memory in the launch, and numbers, which the launch spec has."""
    problems: list[Problem] = []
    bundle = parse_bundle(directory, problems)
    if bundle is None or problems:
        return None
    known = {argument.name: argument for argument in fused.arguments if argument.name != "pool"}
    images, arguments, pool = list(fused.images), [], None
    for number, said in enumerate(spec):
        if said.role != "pool" and said.name in known:
            arguments.append(known[said.name])
            continue
        image = unwritten(max(128, said.bytes))
        if said.role == "pool":
            pool = number
        elif said.value is not None and said.layout is not None:
            image = Image(number_image(said.value, said.layout))
        images.append(image)
        arguments.append(SavedArgument(said.name, len(images) - 1))
    return bundle, Runnable(tuple(arguments), images, (), fused.pads, pool)


def _bundle(directory: Path, given: dict[int, bytes]) -> Launch:
    bundle, spec = read(directory), read_launch_spec(directory)
    ready = prepare(bundle, given, spec, directory)
    images = []
    for number, held in enumerate(ready.images):
        said = spec[number] if spec is not None else None
        brought = number in given or (
            said is not None and said.role not in ("output", "pool") and image_of(said, directory) is not None
        )
        image = _assumed(Image(held), _WRITTEN if brought else _UNWRITTEN)
        images.append(_without_padding(image, said) if said is not None and brought else image)
    arguments = tuple(SavedArgument(name, number) for number, name in enumerate(bundle.argument_names))
    runnable = Runnable(arguments, images, (), None, 0 if bundle.has_pool else None)
    fused = FuseSteps().fused(ready.program)
    together = None if fused.problems else (fused.program, runnable)
    return Launch(directory, bundle.name, "", together, (ready.program, runnable), (bundle, runnable), spec)


def _assumed(image: Image, state: int) -> Image:
    return Image(image.held, bytes([state]) * len(image.held))


def unwritten(count: int) -> Image:
    """Memory that nobody has written."""
    return _assumed(Image(bytes(count)), _UNWRITTEN)


def _without_padding(image: Image, said: Argument) -> Image:
    """What lies between the elements of a tensor means nothing."""
    if said.layout is None or said.role not in ("input", "update", "constant") or said.value is not None:
        return image
    ones = np.ones(said.size, formats_of(said.dtype).numpy)
    if said.dtype not in ("bfloat16",) and "float8" not in said.dtype:
        marked = np.frombuffer(tiled(ones, said.layout, said.dtype, said.stride), np.uint8)
        each = 128 // said.layout.elems_per_stick()
        real = np.repeat(marked.reshape(-1, each).any(axis=1), each)
        states = np.frombuffer(image.states or b"", np.uint8).copy()
        padded = min(real.size, states.size)
        states[:padded][~real[:padded]] = _TAINTED
        return Image(image.held, states.tobytes())
    return image
