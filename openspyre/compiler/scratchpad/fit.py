"""First and best fit: those that live shortest for their uses first, each into the lowest or the tightest gap of its whole life."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from openspyre.compiler.scratchpad.request import Plan, Request, Room, no_room

Choose = Callable[[list[tuple[int, int]]], tuple[int, int]]


def first_fit(requests: Sequence[Request], room: Room) -> Plan:
    return _fitted(requests, room, lambda gaps: gaps[0])


def best_fit(requests: Sequence[Request], room: Room) -> Plan:
    return _fitted(requests, room, lambda gaps: min(gaps, key=lambda gap: gap[1] - gap[0]))


def order_of_fit(requests: Sequence[Request]) -> list[Request]:
    """Sorted by ticks per use, those in a relation of place and parent a little earlier; parents before their children."""
    parents = {name for request in requests for name in request.parents}

    def weight(request: Request) -> tuple[float, int]:
        span = request.end - request.start
        related = 0.25 * bool(request.parents) + 0.25 * (request.name in parents)
        return (span - related) / (len(request.uses) + 0.5 * request.written), span

    waiting = sorted(requests, key=weight)
    by_name = {request.name: request for request in requests}
    found: dict[str, Request] = {}

    def add(request: Request) -> None:
        if request.name not in found:
            for name in request.parents:
                if name in by_name and by_name[name].start < request.start:
                    add(by_name[name])
            found[request.name] = request

    for request in waiting:
        add(request)
    return list(found.values())


def _fitted(requests: Sequence[Request], room: Room, choose: Choose) -> Plan:
    by_name = {request.name: request for request in requests}
    places: dict[str, int] = {}
    spilled: dict[str, str] = {}
    for request in order_of_fit(requests):
        found = _place(request, by_name, places, room, choose)
        if found is None:
            spilled[request.name] = no_room(request, room)
        else:
            places[request.name] = found
    return without_broken_groups(requests, places, spilled)


def without_broken_groups(requests: Sequence[Request], places: dict[str, int], spilled: dict[str, str]) -> Plan:
    """A group of which one has no room has none at all."""
    broken = {request.group: request.name for request in requests if request.name in spilled and request.group}
    for request in requests:
        if request.group in broken and request.name in places:
            partner = broken[request.group]
            del places[request.name]
            spilled[request.name] = f"its partner {partner!r} has no room: {spilled[partner]}"
    return Plan(places, spilled)


def _place(
    request: Request, by_name: Mapping[str, Request], places: Mapping[str, int], room: Room, choose: Choose
) -> int | None:
    for name in request.parents[:1]:
        if name in places and request.fits_into(by_name[name]):
            first, end = places[name], places[name] + by_name[name].size
            free = gaps_of(request, by_name, places, room, apart_from=name)
            if any(low <= first and end <= high for low, high in free):
                return first
    fitting = [
        (low, high) for low, high in gaps_of(request, by_name, places, room) if room.aligned(low) + request.size <= high
    ]
    return room.aligned(choose(fitting)[0]) if fitting else None


def gaps_of(
    request: Request,
    by_name: Mapping[str, Request],
    places: Mapping[str, int],
    room: Room,
    *,
    apart_from: str | None = None,
) -> Iterator[tuple[int, int]]:
    """Bytes that nobody has as long as a tensor lives, from the bottom up. A child that has its place already counts as well."""
    taken = sorted(
        (place, place + by_name[name].size)
        for name, place in places.items()
        if name != apart_from and request.lives_with(by_name[name])
    )
    begin = 0
    for low, high in taken:
        if low > begin:
            yield begin, low
        begin = max(begin, high)
    if begin < room.capacity:
        yield begin, room.capacity
