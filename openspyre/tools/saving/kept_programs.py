"""What was compiled, for as long as somebody saves launches: programs by their numbers on the card, and their bundles."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from openspyre.artifact.emitted import Emitted
from openspyre.card import programs
from openspyre.program.model import Program


@dataclass(frozen=True, slots=True)
class Kept:
    """A program, and the bundle it was made of where that is known."""

    program: Program
    emitted: Emitted | None


_lock = threading.Lock()
_keepers = 0
_emitted: dict[int, tuple[Program, Emitted]] = {}  # by id of the program, which is here to keep it


def keep() -> None:
    """From now on programs are kept; what was loaded before is not known."""
    global _keepers
    with _lock:
        _keepers += 1
        programs.loaded_models = programs.loaded_models if programs.loaded_models is not None else {}


def forget() -> None:
    global _keepers
    with _lock:
        _keepers -= 1
        if _keepers == 0:
            programs.loaded_models = None
            _emitted.clear()


def keeping() -> bool:
    """Whether programs have to be compiled here, and not found on disk, so that their bundles are known."""
    return _keepers > 0


def note(program: Program, emitted: Emitted) -> None:
    """A program was made of this bundle."""
    if keeping():
        _emitted[id(program)] = (program, emitted)


def find(number: int) -> Kept | None:
    program = (programs.loaded_models or {}).get(number)
    if program is None:
        return None
    found = _emitted.get(id(program))
    return Kept(program, None if found is None else found[1])
