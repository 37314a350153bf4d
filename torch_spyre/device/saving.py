"""`torch.spyre.save_launches`: launches as directories that `openspyre run` executes again, on another machine too.

While somebody saves, every launch is waited for, and its memory is read before and after: it is slow, and the line of an error is right.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import torch

from openspyre.card import _card, cards, programs
from openspyre.card.cards import settings_in_force
from openspyre.program.model import Program, Use
from openspyre.spec.errors import InvalidArgument, SaveWarning
from openspyre.tools.saving import kept_programs
from openspyre.tools.saving.images import Image, Pads, digest, read_image, read_pads, reads_scratchpads
from openspyre.tools.saving.saved_launch import CardSwitches, SavedArgument, SavedBuffer, SavedError, SavedLaunch
from openspyre.tools.saving.writing import write_saved_launch
from torch_spyre import _torch

Told = tuple[int, int, int, int]  # of an argument: address, bytes, offset, host offset
_BETWEEN = ("torch", "torch_spyre", "openspyre.card", "openspyre.tools", "importlib", "contextlib")
_PROCESS = f"{os.getpid()} {time.time_ns()}"


@dataclass(slots=True)
class SavedLaunches:
    """Where launches go, which of them, and `saved`: what was written so far."""

    directory: Path
    failed_only: bool = False
    names: tuple[str, ...] = ()
    limit: int = 1000
    saved: list[Path] = field(default_factory=list)

    def wants(self, name: str) -> bool:
        return len(self.saved) < self.limit and (not self.names or any(part in name for part in self.names))


@dataclass(frozen=True, slots=True)
class _Seen:
    """A launch before it ran. `images`: of buffers by address, of those that it may change at least."""

    name: str
    site: str
    kept: kept_programs.Kept
    card: int
    arguments: list[Told]
    scalars: list[int]
    images: dict[int, Image]
    pads: Pads | None
    savers: list[SavedLaunches]


_lock = threading.Lock()
_savers: list[SavedLaunches] = []
_seen: dict[int, _Seen] = {}
_numbers = itertools.count(1)
_told: set[str] = set()


@contextmanager
def save_launches(
    directory: str | Path, *, failed_only: bool = False, names: Sequence[str] = (), limit: int = 1000
) -> Iterator[SavedLaunches]:
    """As `torch.spyre.save_launches` tells."""
    if isinstance(names, str) or limit < 1:
        raise InvalidArgument("save_launches: names is a list of parts of names, limit a number from 1 up")
    saver = SavedLaunches(Path(directory).absolute(), failed_only, tuple(names), limit)
    _torch.ensure_configured()
    start(saver)
    try:
        yield saver
    finally:
        stop(saver)


def start(saver: SavedLaunches) -> None:
    with _lock:
        kept_programs.keep()
        _savers.append(saver)
        # What is loaded already was kept by nobody.
        _torch.clear_eager_cache()
        _torch.clear_graph_plans()
        _torch.show_launches(_before, _after)
        programs.launch_watcher = _Watcher()


def stop(saver: SavedLaunches) -> None:
    with _lock:
        _savers.remove(saver)
        if not _savers:
            _torch.show_launches(None, None)
            programs.launch_watcher = None
        kept_programs.forget()


def _before(name: str, program: int, card: int, stream: int, arguments: list[Told], scalars: list[int]) -> int:
    """Called by the C++ half with the stream at rest."""
    del stream
    number = next(_numbers)
    wanted = [saver for saver in _savers if saver.wants(name)]
    kept = kept_programs.find(program) if wanted else None
    if kept is None:
        return number
    try:
        changing = None if any(not saver.failed_only for saver in wanted) else _changing(kept.program, arguments)
        images = {
            address: read_image(cards.get(card), address, count) if count else Image(b"")
            for address, count, _, _ in arguments
            if changing is None or address in changing
        }
        pads = read_pads(cards.get(card)) if reads_scratchpads(kept.program) else None
        _seen[number] = _Seen(name, _site(), kept, card, arguments, scalars, images, pads, wanted)
    except (MemoryError, OSError) as error:
        _tell(f"launch {name} is not saved: {error}")
    return number


class _Watcher:
    """The same for launches that Python makes: kernels of directories."""

    before, after = staticmethod(lambda *seen: _before(*seen)), staticmethod(lambda *ended: _after(*ended))


def _changing(program: Program, arguments: list[Told]) -> set[int]:
    """Addresses of what the launch may write."""
    return {told[0] for symbol, told in enumerate(arguments) if program.use(symbol) is not Use.READ}


def _after(number: int, fault: str, message: str) -> None:
    seen = _seen.pop(number, None)
    if seen is None or fault == "Interrupted":
        return
    savers = [saver for saver in seen.savers if fault or not saver.failed_only]
    if not savers:
        return
    try:
        launch, images = _launch(seen, SavedError(fault, message) if fault else None)
        for saver in savers:
            kept = seen.kept
            saver.saved.append(
                write_saved_launch(saver.directory, launch, kept.program, images, seen.pads, kept.emitted)
            )
    except (MemoryError, OSError) as error:
        _tell(f"launch {seen.name} is not saved in {savers[0].directory}: {error}")


def _launch(seen: _Seen, error: SavedError | None) -> tuple[SavedLaunch, list[Image]]:
    card = cards.get(seen.card)
    program = seen.kept.program
    changing = _changing(program, seen.arguments)
    places = {address: place for place, address in enumerate(dict.fromkeys(told[0] for told in seen.arguments))}
    sizes: dict[int, int] = {}
    for address, count, _, _ in seen.arguments:
        sizes[address] = max(count, sizes.get(address, 0))
    images, buffers = [], []
    for address, count in sizes.items():
        image = seen.images.get(address) or read_image(card, address, count)  # what is only read is as it was
        scratch = program.pool_bytes > 0 and address == seen.arguments[-1][0]
        known = error is None and not scratch and count > 0
        after = _card.read_image(card, address, count) if known and address in changing else image.held
        images.append(image)
        buffers.append(SavedBuffer(count, after=digest(after) if known else ""))
    names = [*program.symbols, *(["pool"] if program.pool_bytes else [])]
    arguments = tuple(
        SavedArgument(name, places[address], offset, host_offset)
        for name, (address, _, offset, host_offset) in zip(names, seen.arguments, strict=True)
    )
    settings = settings_in_force()
    switches = CardSwitches(settings.sanitize, settings.sanitize_strict, settings.core_span_mib)
    launch = SavedLaunch(
        seen.name, seen.site, _PROCESS, arguments, tuple(buffers), tuple(seen.scalars), switches, error=error
    )
    return launch, images


def _site() -> str:
    """The user's line: frames of torch and of this project, and code that Inductor wrote, stand between."""
    own = str(Path(torch.__file__).parent)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        inside = any(module == name or module.startswith(f"{name}.") for name in _BETWEEN) or file.startswith(own)
        if not inside and "torchinductor_" not in file and not file.startswith("<"):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _tell(text: str) -> None:
    """Saving never fails the launch; the first reason of each kind is told."""
    if text not in _told:
        _told.add(text)
        warnings.warn(text, SaveWarning, stacklevel=2)
