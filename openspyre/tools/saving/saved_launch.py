"""A saved launch: `card.program`, images of the card's memory as they were before it, and `launch.json`, which tells the rest.

The directory runs again anywhere: nothing in it is pickled, and nothing is named by an address. Where the bundle is known, its
files lie beside, so that the directory is one as well.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openspyre.artifact.directory import InvalidBundle, is_directory, json_text, read_text
from openspyre.artifact.fields import Fields, Problems
from openspyre.artifact.json_types import Json
from openspyre.program.lines import InvalidProgram
from openspyre.program.model import Program
from openspyre.program.text import parse_program
from openspyre.spec.machine import SPYRE

FILE, PROGRAM, SCRATCHPADS = "launch.json", "card.program", "scratchpads.npy"
UNFUSED = "unfused.program"  # the same before fusion, where that is known
FORMAT_VERSION = 1
_LONGEST = 4000  # letters of a text
_PREFIX = re.compile(r"^.{0,200}? failed on spyre:\d+ stream \d+: ")
_ORIGIN = re.compile(r"^  \S+ comes from .*\n?", re.MULTILINE)  # a line of the torch half's
_SITE = re.compile(r", launched [^\n]{0,1000}:(?=\n|$)")


@dataclass(frozen=True, slots=True)
class SavedBuffer:
    """Memory of its own. `states`: whether a file tells what the sanitizer knew of each byte; `after`: digest of the bytes after the launch."""

    bytes: int
    states: bool = False
    after: str = ""


@dataclass(frozen=True, slots=True)
class SavedArgument:
    """A symbol of the program: the buffer it lies in, which others may share, and how far it was moved (`LaunchArguments` in C++)."""

    name: str
    buffer: int
    offset: int = 0
    host_offset: int = 0


@dataclass(frozen=True, slots=True)
class SavedError:
    fault: str  # the class, as openspyre.spec.errors.by_fault has them
    message: str

    @property
    def essence(self) -> tuple[str, str]:
        """What is the same wherever the launch runs: without card, stream, the caller's line, addresses, and where ops come from."""
        text = _ORIGIN.sub("", _SITE.sub("", _PREFIX.sub("", self.message)))
        return self.fault, re.sub(r"0x[0-9a-f]+", "0x", text)[:_LONGEST].rstrip()


@dataclass(frozen=True, slots=True)
class CardSwitches:
    """What of the card decides whether a launch fails."""

    sanitize: bool = False
    sanitize_strict: bool = False
    core_span_mib: int = 256


@dataclass(frozen=True, slots=True)
class SavedLaunch:
    """`site`: the user's line that launched it; `process` tells launches of one process from those of another."""

    name: str
    site: str
    process: str
    arguments: tuple[SavedArgument, ...]
    buffers: tuple[SavedBuffer, ...]
    scalars: tuple[int, ...]
    card: CardSwitches
    scratchpads: bool = False
    error: SavedError | None = None


def buffer_file(number: int) -> str:
    return f"buffer_{number}.npy"


def states_file(number: int) -> str:
    return f"buffer_{number}.states.npy"


def is_saved_launch(directory: Path) -> bool:
    """By either of its files: one that lacks the other is a damaged one."""
    return is_directory(directory) and ((directory / FILE).exists() or (directory / PROGRAM).exists())


def saved_launch_text(launch: SavedLaunch) -> str:
    error: Json = None
    if launch.error is not None:
        error = {"fault": launch.error.fault, "message": launch.error.message[:_LONGEST].rstrip()}
    told: dict[str, object] = {
        "format": FORMAT_VERSION,
        "name": launch.name[:_LONGEST].rstrip(),
        "site": launch.site[:_LONGEST].rstrip(),
        "process": launch.process,
        "card": {
            "sanitize": launch.card.sanitize,
            "sanitize_strict": launch.card.sanitize_strict,
            "core_span_mib": launch.card.core_span_mib,
        },
        "arguments": [
            {"name": a.name, "buffer": a.buffer, "offset": a.offset, "host_offset": a.host_offset}
            for a in launch.arguments
        ],
        "buffers": [{"bytes": b.bytes, "states": b.states, "after": b.after} for b in launch.buffers],
        "scalars": [f"0x{word:08x}" for word in launch.scalars],
        "scratchpads": launch.scratchpads,
        "error": error,
    }
    return json_text(told)


def read_saved_launch(directory: Path) -> tuple[SavedLaunch, Program]:
    """The launch and its program; InvalidBundle lists all that is wrong with the directory."""
    problems = Problems(FILE)
    text, why = read_text(directory, FILE)
    launch = None
    if text is None:
        problems.say("", str(why), "what `torch.spyre.save_launches` wrote")
    else:
        try:
            launch = _launch(Fields(json.loads(text), "", problems))
        except (ValueError, RecursionError) as error:
            problems.say("", f"no JSON ({error})", "JSON")
    program = _program(directory, problems)
    if launch is not None and program is not None and not problems.found:
        _check(launch, program, directory, problems)
    if launch is None or program is None or problems.found:
        raise InvalidBundle(str(directory), problems.found)
    return launch, program


def _launch(top: Fields) -> SavedLaunch:
    top.integer("format", FORMAT_VERSION, FORMAT_VERSION)
    card = top.inner("card")
    error = None
    if top.values.get("error") is not None:
        told = top.inner("error")
        error = SavedError(told.text("fault"), told.text("message"))
    return SavedLaunch(
        top.text("name"),
        top.text("site"),
        top.text("process"),
        tuple(
            SavedArgument(a.text("name"), a.integer("buffer", 0), a.integer("offset"), a.integer("host_offset"))
            for a in top.inners("arguments", 1 << 16)
        ),
        tuple(
            SavedBuffer(b.integer("bytes", 0, 1 << 48), b.truth("states"), b.text("after"))
            for b in top.inners("buffers", 1 << 16)
        ),
        tuple(_word(text, top) for text in top.texts("scalars")),
        CardSwitches(card.truth("sanitize"), card.truth("sanitize_strict"), card.integer("core_span_mib", 1, 1 << 20)),
        top.truth("scratchpads"),
        error,
    )


def _word(text: str, top: Fields) -> int:
    if re.fullmatch(r"0x[0-9a-f]{8}", text):
        return int(text, 16)
    top.problems.add("scalars", text, "words of 32 bits, such as 0x3f800000")
    return 0


def _program(directory: Path, problems: Problems) -> Program | None:
    text, why = read_text(directory, PROGRAM)
    if text is None:
        problems.say("", f"no {PROGRAM} beside it ({why})", "the program that was launched")
        return None
    try:
        return parse_program(text)
    except InvalidProgram as error:
        problems.say("", f"a {PROGRAM} that is none ({error})", "the text of a program")
        return None


def _check(launch: SavedLaunch, program: Program, directory: Path, problems: Problems) -> None:
    """Everything the launch names is there, and of the size it says."""
    symbols = len(program.symbols) + (program.pool_bytes > 0)
    if len(launch.arguments) != symbols:
        problems.say("arguments", f"{len(launch.arguments)}", f"{symbols}, as many as the program takes")
    if len(launch.scalars) != len(program.scalars):
        problems.say("scalars", f"{len(launch.scalars)}", f"{len(program.scalars)}, as many as the program takes")
    for place, argument in enumerate(launch.arguments):
        if argument.buffer >= len(launch.buffers):
            problems.say(f"arguments[{place}].buffer", f"{argument.buffer}", f"one of {len(launch.buffers)} buffers")
    for number, buffer in enumerate(launch.buffers):
        _check_image(directory, buffer_file(number), (buffer.bytes,), problems)
        if buffer.states:
            _check_image(directory, states_file(number), (buffer.bytes,), problems)
    if launch.scratchpads:
        _check_image(directory, SCRATCHPADS, None, problems)


def _check_image(directory: Path, file: str, shape: tuple[int, ...] | None, problems: Problems) -> None:
    try:
        if (directory / file).is_symlink():
            raise ValueError("a link")
        held = np.load(directory / file, mmap_mode="r" if shape != (0,) else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        problems.say(file, f"no image ({error})", "bytes of the card's memory")
        return
    size, dtype = tuple(getattr(held, "shape", ())), getattr(held, "dtype", None)
    pads = (2, SPYRE.cores, size[-1] if size else 0)
    fits = size == shape if shape is not None else size == pads and pads[2] <= SPYRE.scratchpad_bytes_per_core
    if not fits or dtype != np.uint8:
        wanted = f"{list(shape)} bytes" if shape is not None else f"[2, {SPYRE.cores}, n] bytes and their states"
        problems.say(file, f"{list(size)} of {dtype}", wanted)
