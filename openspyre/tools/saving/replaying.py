"""Runs a saved launch again on the card of this process: the same program on the same bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from openspyre.program.model import Program
from openspyre.spec.environment import Settings
from openspyre.spec.errors import SpyreError, by_fault
from openspyre.tools.saving.images import Image, Pads, digest, load_images, states_to_assume, write_pads
from openspyre.tools.saving.saved_launch import SavedError, SavedLaunch, read_saved_launch


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of it: the bytes of every buffer afterwards, and the error if there was one."""

    launch: SavedLaunch
    program: Program
    after: tuple[bytes, ...]
    error: SpyreError | None

    @property
    def differences(self) -> list[str]:
        """What is not as it was when the launch was saved."""
        recorded, now = self.launch.error, self.error and saved_error(self.error)
        if (recorded and recorded.essence) != (now and now.essence):
            was = f"{recorded.fault}: {recorded.message}" if recorded else "no error"
            return [f"it was saved with {was}"]
        if recorded is not None:
            return []
        return [
            f"buffer {number} ({', '.join(a.name for a in self.launch.arguments if a.buffer == number)}) has other bytes"
            for number, (buffer, after) in enumerate(zip(self.launch.buffers, self.after, strict=True))
            if buffer.after and buffer.after != digest(after)
        ]


def replay(directory: Path) -> Replayed:
    launch, program = read_saved_launch(directory)
    images, pads = load_images(directory, launch)
    return run_saved(launch, program, images, pads)


def run_saved(launch: SavedLaunch, program: Program, images: list[Image], pads: Pads | None) -> Replayed:
    """With the sanitizer if the launch had it, or the environment asks for it."""
    from openspyre.card import _card, cards, programs

    settings = Settings.read()
    cards.configure(
        replace(
            settings,
            sanitize=launch.card.sanitize or settings.sanitize,
            sanitize_strict=launch.card.sanitize_strict or settings.sanitize_strict,
            core_span_mib=launch.card.core_span_mib,
        )
    )
    card = cards.get()
    if pads is not None:
        write_pads(card, pads)
    else:
        card.clear_scratchpads()
    buffers = []
    for number, image in enumerate(images):
        buffer = card.allocate(max(1, len(image.held)))
        states = image.states
        if states is None:
            assumed = 4 if launch.card.sanitize else states_to_assume(launch, program, number)
            states = bytes([assumed]) * len(image.held)
        _card.write_image(card, buffer.address, image.held, states)
        buffers.append(buffer)
    error: SpyreError | None = None
    loaded = programs.load(program)
    try:
        _card.run_program(
            loaded.number,
            card.index,
            0,
            [buffers[a.buffer].address for a in launch.arguments],
            list(launch.scalars),
            [a.offset for a in launch.arguments],
            [a.host_offset for a in launch.arguments],
            launch.name,
        )
    except SpyreError as failure:
        error = failure
    finally:
        loaded.unload()
    after = tuple(_card.read_image(card, b.address, len(i.held)) for b, i in zip(buffers, images, strict=True))
    return Replayed(launch, program, after, error)


def saved_error(error: SpyreError) -> SavedError:
    fault = next((name for name, kind in by_fault.items() if type(error) is kind), type(error).__name__)
    return SavedError(fault, str(error))
