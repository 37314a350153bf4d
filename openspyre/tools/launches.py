"""A bundle with the memory of its arguments, and its execution on the default card. Scratchpads live on from launch to launch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.launch_spec import Argument
from openspyre.program.footprint import Footprint, footprints
from openspyre.program.model import Program
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import formats_of
from openspyre.tools.bundle import ANY_BYTES, compiled_for, depends_on_size
from openspyre.tools.launch_images import load_array, number_image, tiled


@dataclass(frozen=True, slots=True)
class Launch:
    """A bundle with the memory of its arguments: bytes, or how many zero bytes."""

    bundle: Bundle
    program: Program
    images: tuple[bytes, ...]


def prepare(bundle: Bundle, given: dict[int, bytes], spec: tuple[Argument, ...] | None, directory: Path) -> Launch:
    """The program and every argument's bytes. What nobody gave is zero if the program writes it before it reads it."""
    given = dict(given)
    if spec is not None:
        for number, argument in enumerate(spec):
            image = None if number in given else image_of(argument, directory)
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


def image_of(argument: Argument, directory: Path) -> bytes | None:
    """The bytes a launch spec gives an argument; None if it leaves them to the caller."""
    if argument.role in ("number", "constant") and argument.layout is not None and argument.file is None:
        return None if argument.value is None else number_image(argument.value, argument.layout)
    if argument.file is None:
        return None if argument.role in ("input", "update") else bytes(argument.bytes)
    if "/" in argument.file or argument.file.startswith("."):
        raise InvalidArgument(f"{directory}: launch_spec.json names {argument.file!r}, a file beside it is wanted")
    array = load_array(argument.name, str(directory / argument.file))
    return host_image(argument, array, argument.file)


def host_image(argument: Argument, array: NDArray[Any], file: str) -> bytes:
    """Host values of an argument as a launch spec has it; bfloat16 and fp8 as their bits."""
    held_in = formats_of(argument.dtype).numpy
    if array.shape != argument.size or array.dtype != held_in:
        raise InvalidArgument(
            f"{file} holds {list(array.shape)} of {array.dtype}, launch_spec.json says that {argument.name!r} is "
            f"{list(argument.size)} of {held_in}"
        )
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
