"""`openspyre run` on bundles of documented fields alone: launches in order, arguments by segment, scratchpads living on between."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openspyre.artifact.documented import DocumentedBundle
from openspyre.artifact.launch_spec import Argument, read_launch_spec
from openspyre.program.footprint import Footprint, footprints
from openspyre.program.model import Program
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InvalidArgument
from openspyre.tools.documented import ANY_BYTES, compiled_for, depends_on_size, read
from openspyre.tools.launch_images import Key, keyed, load_array, number_image, parse_layout, tiled, untiled


@dataclass(frozen=True, slots=True)
class Launch:
    """A bundle with the memory of its arguments: bytes, or how many zero bytes."""

    bundle: DocumentedBundle
    program: Program
    images: tuple[bytes, ...]


def run(options: argparse.Namespace) -> int:
    if Settings.read().card == "null":
        raise InvalidArgument("OPENSPYRE_CARD=null computes nothing: unset it to run a bundle")
    images, arrays, layouts = (keyed(f"--{name}", getattr(options, name)) for name in ("image", "arg", "layout"))
    bundles = [read(directory) for directory in options.directories]
    for option, keys in (("--image", images), ("--arg", arrays), ("--layout", layouts)):
        _check_keys(option, keys, bundles)
    for key in layouts.keys() - arrays.keys():
        raise InvalidArgument(f"--layout {key}: there is no --arg {key} that it could be the layout of")
    for key in images.keys() & arrays.keys():
        raise InvalidArgument(f"--image {key} and --arg {key}: an argument is given once")
    from openspyre.card import cards

    card = cards.get()
    card.clear_scratchpads()
    written: dict[str, str] = {}
    for number, (bundle, directory) in enumerate(zip(bundles, options.directories, strict=True)):
        images_of = {key.segment: path for key, path in images.items() if key.launch == number}
        given = {segment: _image(f"--image {number}.{segment}", path) for segment, path in images_of.items()}
        for key, path in arrays.items():
            if key.launch == number:
                layout = parse_layout(layouts[key]) if key in layouts else None
                given[key.segment] = tiled(load_array(f"--arg {key}", path), layout, None)
        spec = read_launch_spec(directory)
        results = execute(prepare(bundle, given, spec, directory))
        if options.out:
            folder = options.out / f"launch_{number}" if len(bundles) > 1 else options.out
            written |= _write(folder, results, number)
            written |= _write_values(folder, results, spec or ())
    if options.json:
        print(json.dumps(written, indent=2))
    else:
        ops = sum(bundle.function.count() for bundle in bundles)
        print(f"{', '.join(bundle.name for bundle in bundles)}: {ops} ops executed in {len(bundles)} launch(es)")
        print("\n".join(f"{name}: {path}" for name, path in written.items()))
    return 0


def _image(option: str, path: str) -> bytes:
    return np.ascontiguousarray(load_array(option, path)).tobytes()


def _check_keys(option: str, given: dict[Key, str], bundles: list[DocumentedBundle]) -> None:
    for key in given:
        if key.launch >= len(bundles):
            raise InvalidArgument(f"{option} {key}: there are {len(bundles)} launch(es), counted from 0")
        most = bundles[key.launch].arguments
        if key.segment >= most:
            raise InvalidArgument(f"{option} {key}: {bundles[key.launch].name} has {most} arguments, counted from 0")


def prepare(
    bundle: DocumentedBundle, given: dict[int, bytes], spec: tuple[Argument, ...] | None, directory: Path
) -> Launch:
    """The program and every argument's bytes. What nobody gave is zero if the program writes it before it reads it."""
    given = dict(given)
    if spec is not None:
        check_count(spec, bundle, directory)
        for number, argument in enumerate(spec):
            image = None if number in given else _of_spec(argument, directory)
            if image is not None:
                given[number] = image
    sizes = [len(given[number]) if number in given else ANY_BYTES for number in range(bundle.arguments)]
    program = compiled_for(bundle, sizes)
    touched = footprints(program)
    missing, images = [], []
    for number in range(bundle.arguments):
        print_ = touched.get(number, Footprint(0, 0))
        name = f"argument {number}"
        pool = bundle.has_pool and number == 0
        if number in given:
            image = given[number]
            if print_.end > len(image):
                missing.append(f"{name} has {len(image)} bytes, the bundle reaches byte {print_.end - 1}")
        elif print_.read_first and not pool:
            missing.append(f"{name} is read, but was not given: --arg {number}=x.npy or --image {number}=bytes.npy")
            image = b""
        elif depends_on_size(print_.end):
            missing.append(f"{name} is indexed, so its size must be known: --image {number}=bytes.npy")
            image = b""
        else:
            image = bytes(print_.end)
        images.append(image)
    if missing:
        raise InvalidArgument(f"{bundle.name}: " + "; ".join(missing))
    return Launch(bundle, program, tuple(images))


def check_count(spec: tuple[Argument, ...], bundle: DocumentedBundle, directory: Path) -> None:
    if len(spec) != bundle.arguments:
        raise InvalidArgument(f"{directory}: launch_spec.json has {len(spec)} arguments, the bundle {bundle.arguments}")


def _of_spec(argument: Argument, directory: Path) -> bytes | None:
    """The bytes a launch spec gives an argument; None if it leaves them to the caller."""
    if argument.role in ("number", "constant") and argument.layout is not None and argument.file is None:
        return None if argument.value is None else number_image(argument.value, argument.layout)
    if argument.file is None:
        return None if argument.role in ("input", "update") else bytes(argument.bytes)
    if "/" in argument.file or argument.file.startswith("."):
        raise InvalidArgument(f"{directory}: launch_spec.json names {argument.file!r}, a file beside it is wanted")
    array = load_array(argument.name, str(directory / argument.file))
    if array.shape != argument.size:
        raise InvalidArgument(f"{argument.file} is {list(array.shape)}, launch_spec.json says {list(argument.size)}")
    return tiled(array, argument.layout, argument.dtype, argument.stride)


def execute(launch: Launch) -> list[bytes]:
    """Every argument's bytes after the launch."""
    from openspyre.card import cards, programs

    card = cards.get()
    buffers = {}
    for name, image in zip(launch.bundle.argument_names, launch.images, strict=True):
        buffer = buffers[name] = card.allocate(max(128, len(image)))
        buffer.write_memory(image)
    loaded = programs.load(launch.program)
    try:
        loaded.run(buffers, {}, card.index)
    finally:
        loaded.unload()
    return [buffer.read_memory()[: len(image)] for buffer, image in zip(buffers.values(), launch.images, strict=True)]


def _write(folder: Path, results: list[bytes], launch: int) -> dict[str, str]:
    """Every segment's bytes as `segment_<i>.npy`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for number, image in enumerate(results):
        path = folder / f"segment_{number}.npy"
        np.save(path, np.frombuffer(image, dtype=np.uint8))
        written[f"{launch}.{number}"] = str(path)
    return written


def _write_values(folder: Path, results: list[bytes], spec: tuple[Argument, ...]) -> dict[str, str]:
    """Host values of what a launch spec calls an output, by its name where that is a plain one."""
    written = {}
    for image, argument in zip(results, spec, strict=False):
        plain = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", argument.name)
        if argument.role in ("output", "update") and argument.layout is not None and plain:
            path = folder / f"{argument.name}.npy"
            np.save(path, untiled(image, argument.size, argument.layout, argument.dtype, argument.stride))
            written[argument.name] = str(path)
    return written
