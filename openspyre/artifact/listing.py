"""The execution list: which description runs when, at which addresses. The model of `bundle.mlir`."""

from __future__ import annotations

from dataclasses import dataclass

from openspyre.artifact.allocation import symbol_ids
from openspyre.artifact.geometry import Geometry, geometry
from openspyre.artifact.model import Bundle, Execution, Role

POOL = -1


@dataclass(frozen=True, slots=True)
class Address:
    """A byte behind a base: argument number `base`, or the pool."""

    base: int
    byte: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One `sdsc_execute`: symbols get values in order."""

    file: str
    addresses: tuple[Address, ...]
    symbol_ids: tuple[int, ...]
    name: str
    buffers: tuple[str, ...]
    scalars: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    arguments: int
    has_pool: bool
    entries: tuple[Entry, ...]


def file_name(index: int) -> str:
    return f"sdsc_{index}.json"


def first_symbols(shapes: list[Geometry]) -> list[int]:
    """Id of each description's first symbol: negative, running through the whole bundle."""
    found, next_id = [], -1
    for shape in shapes:
        found.append(next_id)
        next_id -= sum(len(set(tensor.core_bytes)) for tensor in shape.tensors)
    return found


def listing(bundle: Bundle, shapes: list[Geometry] | None = None) -> Listing:
    shapes = [geometry(description) for description in bundle.descriptions] if shapes is None else shapes
    firsts = first_symbols(shapes)
    bases = {buffer.name: (number, 0) for number, buffer in enumerate(bundle.arguments)}
    bases |= {buffer.name: (POOL, buffer.place or 0) for buffer in bundle.temps}
    entries = tuple(
        _entry(execution, shapes[execution.description], firsts[execution.description], bases)
        for execution in bundle.executions
    )
    return Listing(len(bundle.arguments), any(b.role is Role.TEMP for b in bundle.buffers), entries)


def _entry(execution: Execution, shape: Geometry, first: int, bases: dict[str, tuple[int, int]]) -> Entry:
    addresses: list[Address] = []
    ids: list[int] = []
    for place, tensor in zip(execution.places, shape.tensors, strict=True):
        base, start = bases[place.buffer]
        for byte, symbol in symbol_ids(tensor, first).items():
            addresses.append(Address(base, start + place.byte + byte))
            ids.append(symbol)
        first -= len(set(tensor.core_bytes))
    return Entry(
        file_name(execution.description),
        tuple(addresses),
        tuple(ids),
        execution.name,
        tuple(place.buffer for place in execution.places),
        execution.scalars,
        execution.origin,
    )
