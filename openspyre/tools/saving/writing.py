"""Writes a saved launch: whole or not at all, for its user alone, under the next free name, whoever else writes there."""

from __future__ import annotations

import errno
import shutil
import struct
import tempfile
from dataclasses import replace
from pathlib import Path

from openspyre.artifact.emitted import Emitted
from openspyre.artifact.launch_files import write_launch_files
from openspyre.artifact.launch_spec import Argument
from openspyre.backend import compile_emitted, host_form
from openspyre.program.model import Program
from openspyre.program.text import print_program
from openspyre.tools.saving.images import Image, Pads, save_images
from openspyre.tools.saving.saved_launch import FILE, PROGRAM, UNFUSED, SavedLaunch, saved_launch_text

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


def write_saved_launch(
    directory: Path,
    launch: SavedLaunch,
    program: Program,
    images: list[Image],
    pads: Pads | None = None,
    emitted: Emitted | None = None,
) -> Path:
    """`directory/launch_<k>` with all of it; OSError, and nothing left, if there is no room."""
    directory.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=".launch.", dir=directory))  # private to the user: it holds values
    try:
        if emitted is not None:
            write_launch_files(emitted, building, {}, _numbers(emitted, launch.scalars))
            (building / UNFUSED).write_text(print_program(compile_emitted(host_form(emitted))), encoding="utf-8")
        fill_saved_launch(building, launch, program, images, pads)
        return _moved(building, directory)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def fill_saved_launch(
    place: Path, launch: SavedLaunch, program: Program, images: list[Image], pads: Pads | None
) -> None:
    """The files of a launch, into a directory that is there."""
    buffers = tuple(
        replace(buffer, states=image.is_partly_unwritten) for buffer, image in zip(launch.buffers, images, strict=True)
    )
    save_images(place, images, pads)
    (place / PROGRAM).write_text(print_program(program), encoding="utf-8")
    told = saved_launch_text(replace(launch, buffers=buffers, scratchpads=pads is not None))
    (place / FILE).write_text(told, encoding="utf-8")


def _moved(building: Path, directory: Path) -> Path:
    """Under the first number that is free: another process may take one meanwhile."""
    taken = [int(name) for path in directory.glob("launch_*") if (name := path.name[7:]).isdecimal()]
    number = max(taken, default=-1) + 1
    while True:
        place = directory / f"launch_{number:05}"
        try:
            if not place.exists():
                return building.rename(place)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        number += 1


def _numbers(emitted: Emitted, scalars: tuple[int, ...]) -> dict[str, float]:
    """The launch's numbers by name, as the launch spec has them; words are a register's."""
    words = dict(zip(emitted.scalars, scalars, strict=False))
    return {a.name: _number(a, words[a.name]) for a in emitted.arguments if a.role == "number" and a.name in words}


def _number(argument: Argument, word: int) -> float:
    is_float = "float" in argument.dtype
    found: float = struct.unpack("<f" if is_float else "<i", struct.pack("<I", word))[0]
    return found
