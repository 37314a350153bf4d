"""Compiled programs on disk, found by content: the bundle's and the compiling code's. A damaged entry is a miss."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from openspyre import artifact, spec
from openspyre import program as program_room
from openspyre.artifact import Bundle, content_hash
from openspyre.backend.fusion import FuseSteps
from openspyre.backend.lowering import compile_bundle
from openspyre.backend.text_cache import TextCache
from openspyre.program.model import Program
from openspyre.program.text import InvalidProgram, parse_program, print_program
from openspyre.spec.environment import Settings


@dataclass(frozen=True, slots=True)
class ProgramCache:
    """Programs in text form, in a private directory."""

    texts: TextCache
    fuse: bool = True

    @classmethod
    def of(cls, settings: Settings) -> ProgramCache:
        return cls(TextCache.of(settings, "program"), settings.fusion)

    def compiled(self, bundle: Bundle) -> Program:
        """The bundle's program, from the cache if it is there, otherwise compiled and kept."""
        key = content_hash(bundle)
        found = self.find(key)
        if found is None:
            found = compile_bundle(bundle)
            found = FuseSteps().run(found) if self.fuse else found
            self.keep(key, found)
        return found

    def find(self, key: str) -> Program | None:
        """A program kept under this text; whoever knows a key before there is a bundle saves making one."""
        text = self.texts.find(f"{compiler_hash()} fuse={self.fuse} {key}")
        try:
            return parse_program(text) if text is not None else None
        except InvalidProgram:
            return None

    def keep(self, key: str, program: Program) -> None:
        self.texts.keep(f"{compiler_hash()} fuse={self.fuse} {key}", print_program(program))

    def clear(self) -> int:
        """Removes every entry; how many there were."""
        return self.texts.clear()


@cache
def compiler_hash() -> str:
    """Of the sources that decide what a program is: an entry of another version is never found."""
    digest = hashlib.sha256()
    for room in (Path(__file__).parent, *(Path(*r.__path__) for r in (artifact, program_room, spec))):
        for source in sorted(path for path in room.rglob("*.py") if not path.name.startswith("test_")):
            digest.update(source.read_bytes())
    return digest.hexdigest()
