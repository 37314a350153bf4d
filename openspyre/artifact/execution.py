"""One op at work in memory: a SuperDSC that equal ops share, and what its symbols mean this time.

A file has its own SuperDSC for every execution; what differs between them are names, provenance and symbols.
"""

from __future__ import annotations

from dataclasses import dataclass

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.superdsc import Provenance, SuperDsc
from openspyre.spec.formats import DataFormats


@dataclass(frozen=True, slots=True)
class Number:
    """A base that is a number known now, in the format an op takes it in."""

    value: float
    format: DataFormats


@dataclass(frozen=True, eq=False, slots=True)
class Shared:
    """A SuperDSC whose symbol -1 - i is `offsets[i]`: a base, and bytes behind it. `known`: bases that are numbers."""

    op: SuperDsc
    offsets: tuple[tuple[int, int], ...]
    known: tuple[Number | None, ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """An op with its bases: an argument of the launch, and a byte of it, each."""

    name: str
    shared: Shared
    bases: tuple[Address, ...]
    provenance: Provenance
