"""Programs on the card: load the model once, run it many times."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from openspyre.card import _card
from openspyre.card.cards import settings_in_force
from openspyre.program.model import Program
from openspyre.spec.errors import InvalidArgument


class LoadedProgram:
    """A program the card has prepared. `number` finds it again from the torch half; withdrawn when this object is let go of, unless kept."""

    def __init__(self, program: Program) -> None:
        settings_in_force()
        self.program = program
        self.number: int = _card.load_program(program)

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
        _card.run_program(self.number, card, stream, addresses, words)

    def unload(self) -> None:
        _card.unload_program(self.number)


def load(program: Program) -> LoadedProgram:
    """Prepare a program for the cards of this process; InvalidArgument lists every problem it has."""
    return LoadedProgram(program)


def _word(value: int | float) -> int:
    bits: int = struct.unpack("<I", struct.pack("<f", value) if isinstance(value, float) else struct.pack("<i", value))[
        0
    ]
    return bits
