"""The exact solver: branch and bound over what is left out, with a proof of how much traffic any plan must have.

Where the tensors of a tick together are larger than a scratchpad, one of them has to go: that is the branching. What is left is
stacked in every order that could matter. The search counts its own steps, so that its answer does not depend on the host; seconds
are a limit for the impatient. Tensors that never live together, blocks of an attention for example, are solved apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from time import monotonic

from openspyre.compiler.scratchpad.annealing import anneal, shared_place
from openspyre.compiler.scratchpad.fit import best_fit, first_fit, order_of_fit
from openspyre.compiler.scratchpad.greedy import greedy
from openspyre.compiler.scratchpad.request import Plan, Request, Room, no_room

Without = frozenset[str]
Places = dict[str, int] | None


def exact(requests: Sequence[Request], room: Room, *, steps: int = 5_000, seconds: float = 600.0) -> Plan:
    """The plan with the least traffic, or the best one found within the limits and the bound that is proven. `steps`: for each part."""
    deadline = monotonic() + seconds
    plans = [_Search(part, room, steps, deadline).plan() for part in parts_apart(requests)]
    places = {name: place for plan in plans for name, place in plan.places.items()}
    spilled = {name: why for plan in plans for name, why in plan.spilled.items()}
    return Plan(places, spilled, all(plan.proven for plan in plans), sum(plan.bound for plan in plans))


def parts_apart(requests: Sequence[Request]) -> list[list[Request]]:
    """Tensors that no life joins, not even by others, have nothing to do with each other."""
    parts: list[list[Request]] = []
    end = 0
    for request in sorted(requests, key=lambda request: request.start):
        if not parts or request.start >= end:
            parts.append([])
        parts[-1].append(request)
        end = max(end, request.end)
    return parts


class _Search:
    def __init__(self, requests: Sequence[Request], room: Room, steps: int, deadline: float) -> None:
        self.requests, self.room, self.steps, self.deadline = tuple(requests), room, steps, deadline
        self.by_name = {request.name: request for request in requests}
        self.ticks = sorted({request.start for request in requests})

    def plan(self) -> Plan:
        solvers = (greedy, first_fit, best_fit, anneal)
        best = min((solve(self.requests, self.room) for solve in solvers), key=lambda plan: plan.traffic(self.requests))
        cost = best.traffic(self.requests)
        number = count()
        open_: list[tuple[int, int, Without]] = []
        seen: set[Without] = set()
        self._push(
            open_, number, seen, self._closed(frozenset(r.name for r in self.requests if r.size > self.room.capacity))
        )
        while open_:
            bound, _, without = open_[0]
            if bound >= cost:
                return Plan(best.places, best.spilled, True, cost)
            if self._is_over():
                return Plan(best.places, best.spilled, False, bound)
            heappop(open_)
            full = self._fullest(without)
            if full is None:
                found = self._packed(without)
                if found is not None:
                    spilled = {name: no_room(self.by_name[name], self.room) for name in without}
                    return Plan(found, spilled, True, self._cost(without))
                if self._is_over():
                    return Plan(best.places, best.spilled, False, bound)
                full = [request for request in self.requests if request.name not in without]
            for request in full:
                self._push(open_, number, seen, self._closed(without | {request.name}))
        return Plan(best.places, best.spilled, True, cost)

    def _is_over(self) -> bool:
        self.steps -= 1
        return self.steps <= 0 or monotonic() > self.deadline

    def _push(
        self, open_: list[tuple[int, int, Without]], number: Iterator[int], seen: set[Without], without: Without
    ) -> None:
        if without not in seen:
            seen.add(without)
            heappush(open_, (self._bound(without), next(number), without))

    def _closed(self, without: Without) -> Without:
        """Groups are in or out as a whole."""
        groups = {self.by_name[name].group for name in without} - {None}
        return without | {request.name for request in self.requests if request.group in groups}

    def _cost(self, without: Without) -> int:
        return sum(self.by_name[name].traffic for name in without)

    def _live(self, tick: int, without: Without) -> list[Request]:
        return [r for r in self.requests if r.start <= tick < r.end and r.name not in without]

    def _load(self, tick: int, live: Sequence[Request]) -> int:
        """Bytes that those of a tick need at least: a child may be where one of its parents was."""
        names = {request.name for request in live}
        return sum(r.size for r in live if r.start != tick or not any(parent in names for parent in r.parents))

    def _fullest(self, without: Without) -> list[Request] | None:
        """Tensors of the tick that has most too many, dearest last; None if every tick has room for all."""
        worst, found = 0, None
        for tick in self.ticks:
            live = self._live(tick, without)
            over = self._load(tick, live) - self.room.capacity
            if over > worst:
                worst, found = over, live
        return None if found is None else sorted(found, key=lambda request: request.traffic)

    def _bound(self, without: Without) -> int:
        """What is left out already, and the least that one more tick must lose: its cheapest bytes, a fraction of the last tensor."""
        least = 0
        for tick in self.ticks:
            live = self._live(tick, without)
            over = self._load(tick, live) - self.room.capacity
            lost = 0.0
            for request in sorted(live, key=lambda request: request.traffic / request.size):
                if over <= 0:
                    break
                share = min(1.0, over / request.size)
                lost += share * request.traffic
                over -= request.size
            least = max(least, int(lost))
        return self._cost(without) + least

    def _packed(self, without: Without) -> dict[str, int] | None:
        """Places for all that are not left out; None if there are none, or the search is over."""
        kept = [request for request in self.requests if request.name not in without]
        for solve in (greedy, first_fit, best_fit, anneal):
            found = solve(kept, self.room)
            if not found.spilled:
                return dict(found.places)
        return self._stack({}, tuple(order_of_fit(kept)), set())

    def _stack(
        self, places: dict[str, int], rest: tuple[Request, ...], dead: set[frozenset[tuple[str, int]]]
    ) -> Places:
        """Every packing can be slid down until each rests on the bottom, on another, or where its parent was: all of those are tried."""
        key = frozenset(places.items())
        if key in dead or self._is_over():
            return None
        if not rest:
            return places
        for number, request in enumerate(rest):
            for place in self._spots(request, places):
                found = self._stack({**places, request.name: place}, (*rest[:number], *rest[number + 1 :]), dead)
                if found is not None:
                    return found
        dead.add(key)
        return None

    def _spots(self, request: Request, places: dict[str, int]) -> list[int]:
        met = [other for name in places if (other := self.by_name[name]).lives_with(request)]
        shared = shared_place(request, met, places)
        above = max((self.room.aligned(places[other.name] + other.size) for other in met), default=0)
        spots = [above] if shared is None else [shared, above]
        return [place for place in dict.fromkeys(spots) if place + request.size <= self.room.capacity]
