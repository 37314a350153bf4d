"""A sanitized card with the memory of one launch on it, which runs steps one after the other and shows what lies where."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openspyre.program.model import Program, Step
from openspyre.spec.environment import Settings
from openspyre.spec.formats import DataFormats
from openspyre.spec.machine import SPYRE
from openspyre.tools.bisecting.records import code_type
from openspyre.tools.saving.images import Image, Pads, read_image, read_pads, write_pads
from openspyre.tools.saving.saved_launch import SavedArgument

if TYPE_CHECKING:
    from openspyre.card import Card

_MEANINGFUL = 4  # of ByteState: bytes that were written, and not from what nobody wrote


def sanitized_card() -> Card:
    """The card that runs are compared on: what nobody wrote means nothing, and the sanitizer knows what that is."""
    from openspyre.card import cards

    cards.configure(replace(Settings.read(), sanitize=True, sanitize_strict=False))
    return cards.get()


class StepMachine:
    """Memory as it was before the launch; `run` changes it as the card does."""

    def __init__(
        self, arguments: tuple[SavedArgument, ...], images: list[Image], scalars: tuple[int, ...], pads: Pads | None
    ) -> None:
        self.card = sanitized_card()
        self.arguments, self.scalars = arguments, scalars
        self._sizes = [max(1, len(image.held)) for image in images]
        self._buffers = [self.card.allocate(size) for size in self._sizes]
        self._workspace = self.card.allocate(1)
        self._reset(images, pads)

    def _reset(self, images: list[Image], pads: Pads | None) -> None:
        from openspyre.card import _card

        for buffer, image in zip(self._buffers, images, strict=True):
            states = bytes([_MEANINGFUL]) * len(image.held) if image.states is None else image.states
            _card.write_image(self.card, buffer.address, image.held, states)
        if pads is None:
            self.card.clear_scratchpads()
        else:
            write_pads(self.card, pads)

    def run(self, program: Program) -> None:
        """A program on the launch's arguments; its pool, if they have none, is one that lives on."""
        from openspyre.card import _card, programs

        addresses = [self._buffers[a.buffer].address for a in self.arguments]
        offsets = [a.offset for a in self.arguments]
        host_offsets = [a.host_offset for a in self.arguments]
        wanted = len(program.symbols) + (program.pool_bytes > 0)
        if wanted > len(addresses):
            if self._workspace.requested_bytes < program.pool_bytes:
                self._workspace = self.card.allocate(program.pool_bytes)
            addresses.append(self._workspace.address)
        loaded = programs.load(program)
        try:
            _card.run_program(
                loaded.number, self.card.index, 0, addresses[:wanted], list(self.scalars),
                offsets[:wanted], host_offsets[:wanted],
            )  # fmt: skip
        finally:
            loaded.unload()

    def images(self) -> tuple[list[Image], Pads]:
        """All memory as it is now."""
        held = [read_image(self.card, b.address, size) for b, size in zip(self._buffers, self._sizes, strict=True)]
        return held, read_pads(self.card)

    def read(self, symbol: int, first: int, count: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Bytes of a symbol and their states; behind the buffer's end there is nothing."""
        from openspyre.card import _card

        if symbol >= len(self.arguments):
            nothing = np.zeros(0, np.uint8)
            return nothing, nothing
        argument = self.arguments[symbol]
        end = min(first + count, self._sizes[argument.buffer])
        address = self._buffers[argument.buffer].address + first
        bytes_ = _card.read_image(self.card, address, max(0, end - first))
        states = _card.read_states(self.card, address, max(0, end - first)) or b""
        return np.frombuffer(bytes_, np.uint8), np.frombuffer(states, np.uint8)

    def elements(self, symbol: int, at: NDArray[np.int64], form: DataFormats) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Codes of elements, by their distance from the symbol's first byte in elements; and which of them mean something."""
        each = SPYRE.stick_bytes // form.elems_per_stick()
        if at.size == 0:
            return np.zeros(0, code_type(each)), np.zeros(0, np.bool_)
        first, last = int(at.min()), int(at.max())
        bytes_, states = self.read(symbol, first * each, (last - first + 1) * each)
        return _picked(bytes_, states, at - first, each)

    def pad_elements(
        self, core: int, at: NDArray[np.int64], form: DataFormats
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The same of a core's scratchpad."""
        from openspyre.card import _card

        each = SPYRE.stick_bytes // form.elems_per_stick()
        bytes_, states = _card.read_scratchpad(self.card, core)
        return _picked(np.frombuffer(bytes_, np.uint8), np.frombuffer(states or b"", np.uint8), at, each)


def _picked(
    bytes_: NDArray[np.uint8], states: NDArray[np.uint8], at: NDArray[np.int64], each: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    whole = bytes_.size // each
    inside = at < whole
    safe = np.where(inside, at, 0)
    if whole == 0:
        return np.zeros(at.size, code_type(each)), np.zeros(at.size, np.bool_)
    codes = bytes_[: whole * each].view(code_type(each))[safe]
    known = (states[: whole * each].reshape(whole, each) == _MEANINGFUL).all(axis=1)[safe]
    return codes, known & inside


def one_step(program: Program, steps: tuple[Step, ...]) -> Program:
    """Some of a program's steps, as a program with all of its symbols. Results are whatever memory they lie in."""
    return replace(program, body=steps, uses=())
