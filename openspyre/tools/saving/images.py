"""Images of the card's memory around a launch: taken before it, kept as they were, put back to run it again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openspyre.card import _card
from openspyre.program.model import Program, Space, Use
from openspyre.program.tree import steps_of
from openspyre.spec.machine import SPYRE
from openspyre.tools.saving.saved_launch import SCRATCHPADS, SavedLaunch, buffer_file, states_file

_UNINITIALISED, _INITIALISED = 2, 4  # of ByteState


@dataclass(frozen=True, slots=True)
class Image:
    """Bytes, and what the sanitizer knew of each; no states: there was no sanitizer."""

    held: bytes
    states: bytes | None = None

    @property
    def is_partly_unwritten(self) -> bool:
        return self.states is not None and self.states.strip(bytes([_INITIALISED])) != b""


@dataclass(frozen=True, slots=True)
class Pads:
    """The scratchpads of all cores, up to the last byte that somebody wrote: bytes and states."""

    held: np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]


def read_image(card: _card.Card, address: int, count: int) -> Image:
    return Image(_card.read_image(card, address, count), _card.read_states(card, address, count))


def digest(image: bytes) -> str:
    return hashlib.sha256(image).hexdigest()


def reads_scratchpads(program: Program) -> bool:
    return any(o.space is Space.SCRATCHPAD for step, _ in steps_of(program.body) for o in step.inputs)


def read_pads(card: _card.Card) -> Pads:
    found = [_card.read_scratchpad(card, core) for core in range(SPYRE.cores)]
    bytes_ = np.stack([np.frombuffer(image, np.uint8) for image, _ in found])
    known = [bytes([_INITIALISED]) * len(image) if states is None else states for image, states in found]
    states = np.stack([np.frombuffer(of_core, np.uint8) for of_core in known])
    used = np.nonzero(((bytes_ != 0) & (states > _UNINITIALISED)).any(axis=0))[0]
    end = int(used[-1]) + 1 if used.size else 0
    return Pads(np.stack([bytes_[:, :end], states[:, :end]]))


def write_pads(card: _card.Card, pads: Pads) -> None:
    card.clear_scratchpads()
    for core in range(SPYRE.cores):
        _card.write_scratchpad(card, core, pads.held[0, core].tobytes(), pads.held[1, core].tobytes())


def save_images(place: Path, images: list[Image], pads: Pads | None) -> None:
    for number, image in enumerate(images):
        np.save(place / buffer_file(number), np.frombuffer(image.held, np.uint8))
        if image.is_partly_unwritten and image.states is not None:
            np.save(place / states_file(number), np.frombuffer(image.states, np.uint8))
    if pads is not None:
        np.save(place / SCRATCHPADS, pads.held)


def load_images(place: Path, launch: SavedLaunch) -> tuple[list[Image], Pads | None]:
    images = []
    for number, buffer in enumerate(launch.buffers):
        states = np.load(place / states_file(number), allow_pickle=False).tobytes() if buffer.states else None
        images.append(Image(np.load(place / buffer_file(number), allow_pickle=False).tobytes(), states))
    pads = Pads(np.load(place / SCRATCHPADS, allow_pickle=False)) if launch.scratchpads else None
    return images, pads


def states_to_assume(launch: SavedLaunch, program: Program, number: int) -> int:
    """Of a buffer that was saved without a sanitizer: what only results and temporaries lie in is taken as written by nobody."""
    uses = {program.use(symbol) for symbol, a in enumerate(launch.arguments) if a.buffer == number}
    return _UNINITIALISED if uses and uses <= {Use.FRESH, Use.SCRATCH} else _INITIALISED
