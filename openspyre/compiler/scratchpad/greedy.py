"""The default solver: tensors in the order in which they begin to live, each where there is room at that moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from openspyre.compiler.scratchpad.request import Plan, Request, Room, no_room


@dataclass(frozen=True, slots=True)
class _Held:
    """Bytes that are taken, and the tick at which they are free again."""

    name: str
    first: int
    end: int
    until: int


def greedy(requests: Sequence[Request], room: Room) -> Plan:
    """In place of a parent, else at 0, else above all, else in the lowest gap. The bytes of a parent stay taken until its own end."""
    return _Greedy(requests, room).plan()


class _Greedy:
    def __init__(self, requests: Sequence[Request], room: Room) -> None:
        self.requests, self.room = requests, room
        self.by_name = {request.name: request for request in requests}
        self.groups: dict[str, list[Request]] = {}
        for request in requests:
            if request.group is not None:
                self.groups.setdefault(request.group, []).append(request)
        self.held: list[_Held] = []
        self.handed_on: set[str] = set()
        self.places: dict[str, int] = {}
        self.spilled: dict[str, str] = {}

    def plan(self) -> Plan:
        ticks = sorted({tick for request in self.requests for tick in (request.start, request.end)})
        starting: dict[int, list[Request]] = {}
        for request in self.requests:
            starting.setdefault(request.start, []).append(request)
        for tick in ticks:
            self.held = [held for held in self.held if held.until != tick]
            for request in starting.get(tick, ()):
                if request.name not in self.places and request.name not in self.spilled:
                    self._place_with_group(request)
        return Plan(self.places, self.spilled)

    def _place_with_group(self, first: Request) -> None:
        members = [first] if first.group is None else sorted(self.groups[first.group], key=lambda r: r is not first)
        before, handed = list(self.held), set(self.handed_on)
        for request in members:
            place = self._place(request)
            if place is None:
                self.held, self.handed_on = before, handed
                why = no_room(request, self.room)
                for member in members:
                    self.places.pop(member.name, None)
                    whose = "" if member is request else f"its partner {request.name!r} has no room: "
                    self.spilled[member.name] = whose + why
                return
            self.places[request.name] = place
            self.held.append(_Held(request.name, place, place + request.size, request.end))

    def _place(self, request: Request) -> int | None:
        if (parent := self._parent(request)) is not None:
            return parent
        spans = list(self._spans())
        if request.size > self.room.capacity:
            return None
        if not spans or spans[0][0] >= request.size:
            return 0
        above = self.room.aligned(spans[-1][1])
        if above + request.size <= self.room.capacity:
            return above
        for (_, end), (begin, _) in pairwise(spans):
            if self.room.aligned(end) + request.size <= begin:
                return self.room.aligned(end)
        return None

    def _parent(self, request: Request) -> int | None:
        live = {held.name: held for held in self.held}
        for name in request.parents:
            if name in live and name not in self.handed_on and request.fits_into(self.by_name[name]):
                self.handed_on.add(name)
                return live[name].first
        return None

    def _spans(self) -> Iterator[tuple[int, int]]:
        """What is taken, neighbours joined, from the bottom up."""
        first = end = -1
        for held in sorted(self.held, key=lambda held: held.first):
            if held.first > end:
                if end >= 0:
                    yield first, end
                first, end = held.first, held.end
            else:
                end = max(end, held.end)
        if end >= 0:
            yield first, end
