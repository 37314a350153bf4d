"""What a solver is asked and what it answers: tensors with their lives, and a byte in every scratchpad or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from openspyre.spec.formats import STICK_BYTES


@dataclass(frozen=True, slots=True)
class Request:
    """A tensor that may stay in the scratchpads: `size` bytes on each core, used at these ticks, in order.

    `written`: it is made here, its first use writes it; otherwise it is copied in from memory. `kept`: memory needs it as well.
    `parents`: tensors whose place it may take at its first tick, their last. Those of a `group` are placed all or none, and apart.
    """

    name: str
    size: int
    uses: tuple[int, ...]
    written: bool = True
    kept: bool = False
    parents: tuple[str, ...] = ()
    group: str | None = None
    step: int | None = None  # what its first tick is called in reasons

    @property
    def start(self) -> int:
        return self.uses[0]

    @property
    def end(self) -> int:
        """The first tick at which nobody needs it any more."""
        return self.uses[-1] + 1

    @property
    def traffic(self) -> int:
        """Bytes per core that memory moves more if it is not in the scratchpads."""
        if not self.written:
            return (len(self.uses) - 1) * self.size  # it has to be read once in any case
        readers = len(self.uses) - 1
        return (readers if self.kept else readers + 1) * self.size

    def lives_with(self, other: Request) -> bool:
        return self.start < other.end and other.start < self.end

    def fits_into(self, parent: Request) -> bool:
        return parent.name in self.parents and parent.size >= self.size


@dataclass(frozen=True, slots=True)
class Room:
    """What each core has for tensors."""

    capacity: int
    alignment: int = STICK_BYTES

    def aligned(self, byte: int) -> int:
        return -(-byte // self.alignment) * self.alignment


@dataclass(frozen=True, slots=True)
class Plan:
    """`places` of those that are in, `spilled`: of the others, why not."""

    places: Mapping[str, int]
    spilled: Mapping[str, str]
    proven: bool = False  # nobody can avoid more traffic
    bound: int = 0  # bytes per core that any plan must move, as far as proven

    def traffic(self, requests: Iterable[Request]) -> int:
        """Bytes per core that go through memory because there was no room."""
        return sum(request.traffic for request in requests if request.name in self.spilled)


def no_room(request: Request, room: Room) -> str:
    if request.size > room.capacity:
        return f"too large: {request.size} bytes per core, the scratchpad has {room.capacity} for tensors"
    return f"full at step {request.start if request.step is None else request.step}: no {request.size} bytes per core are free as long as it lives"


def problems(requests: Iterable[Request], places: Mapping[str, int], room: Room) -> list[str]:
    """What is wrong with places: outside the scratchpad, not aligned, or in the bytes of another that lives at the same time."""
    placed = [request for request in requests if request.name in places]
    found = []
    for number, one in enumerate(placed):
        first = places[one.name]
        if first < 0 or first % room.alignment or first + one.size > room.capacity:
            found.append(f"{one.name!r} at {first}, {one.size} bytes of {room.capacity}")
        for other in placed[:number]:
            if one.lives_with(other) and _overlap(one, other, places) and not _in_place(one, other, places):
                found.append(f"{one.name!r} and {other.name!r} share bytes while both live")
    return found


def _overlap(one: Request, other: Request, places: Mapping[str, int]) -> bool:
    return places[one.name] < places[other.name] + other.size and places[other.name] < places[one.name] + one.size


def _in_place(one: Request, other: Request, places: Mapping[str, int]) -> bool:
    """Whether the later one takes over the earlier one's place where that ends."""
    child, parent = (one, other) if one.start >= other.start else (other, one)
    handed_on = child.start == parent.end - 1 and places[child.name] == places[parent.name]
    return handed_on and child.fits_into(parent)
