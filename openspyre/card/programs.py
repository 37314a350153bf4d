"""Programs on the card: load the model once, run it many times."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Protocol

from openspyre.card import _card
from openspyre.card.cards import settings_in_force
from openspyre.program.footprint import footprints
from openspyre.program.model import Program
from openspyre.spec.counters import LaunchWork, words
from openspyre.spec.errors import InvalidArgument, SpyreError


class LaunchWatcher(Protocol):
    """Somebody who sees launches before and after they run. An argument: address, bytes, offset, host offset."""

    def before(
        self,
        name: str,
        program: int,
        card: int,
        stream: int,
        arguments: list[tuple[int, int, int, int]],
        scalars: list[int],
    ) -> int: ...
    def after(self, number: int, fault: str, message: str) -> None: ...


launch_watcher: LaunchWatcher | None = None  # of launches that Python makes itself
loaded_models: dict[int, Program] | None = None  # by number, while somebody saves launches


class LoadedProgram:
    """A program the card has prepared. `number` finds it again from the torch half; withdrawn when this object is let go of, unless kept."""

    def __init__(self, program: Program, work: LaunchWork | None) -> None:
        settings_in_force()
        self.program = program
        self.number: int = _card.load_program(program, None if work is None else words(work))
        if loaded_models is not None:
            loaded_models[self.number] = program

    def run(
        self, buffers: Mapping[str, _card.Buffer], scalars: Mapping[str, int | float] | None = None, card: int = 0
    ) -> None:
        """Launch with a buffer per symbol and a number per scalar, and wait."""
        self.run_at({name: buffer.address for name, buffer in buffers.items()}, scalars, card)

    def run_at(
        self,
        places: Mapping[str, int],
        scalars: Mapping[str, int | float] | None = None,
        card: int = 0,
        stream: int = 0,
    ) -> None:
        """The same with the buffers' addresses. A pool for temporaries is taken and given back."""
        given = scalars or {}
        missing = [name for name in self.program.symbols if name not in places]
        missing += [name for name in self.program.scalars if name not in given]
        if missing:
            raise InvalidArgument(f"program {self.program.name!r} needs buffers or numbers for {', '.join(missing)}")
        addresses = [places[name] for name in self.program.symbols]
        pool = _card.card(card).allocate(self.program.pool_bytes) if self.program.pool_bytes else None
        if pool is not None:
            addresses.append(pool.address)
        words = [_word(given[name]) for name in self.program.scalars]
        if launch_watcher is None:
            _card.run_program(self.number, card, stream, addresses, words)
        else:
            self._run_watched(launch_watcher, card, stream, addresses, words)

    def _run_watched(
        self, watcher: LaunchWatcher, card: int, stream: int, addresses: list[int], words: list[int]
    ) -> None:
        if loaded_models is not None:
            loaded_models.setdefault(self.number, self.program)
        touched = footprints(self.program)
        ends = [touched[symbol].end if symbol in touched else 0 for symbol in range(len(self.program.symbols))]
        ends += [self.program.pool_bytes] if self.program.pool_bytes else []
        arguments = [(address, -(-end // 128) * 128, 0, 0) for address, end in zip(addresses, ends, strict=True)]
        number = watcher.before(self.program.name, self.number, card, stream, arguments, words)
        try:
            _card.run_program(self.number, card, stream, addresses, words)
        except SpyreError as error:
            watcher.after(number, type(error).__name__, str(error))
            raise
        watcher.after(number, "", "")

    def unload(self) -> None:
        _card.unload_program(self.number)


def load(program: Program, work: LaunchWork | None = None) -> LoadedProgram:
    """Prepare a program for the cards of this process; InvalidArgument lists every problem it has. `work`: what the counters add per launch."""
    return LoadedProgram(program, work)


def _word(value: int | float) -> int:
    bits: int = struct.unpack("<I", struct.pack("<f", value) if isinstance(value, float) else struct.pack("<i", value))[
        0
    ]
    return bits
