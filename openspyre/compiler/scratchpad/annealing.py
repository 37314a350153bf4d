"""Simulated annealing over the order in which tensors are stacked. Seeded: the same requests give the same plan everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random

from openspyre.compiler.scratchpad.fit import order_of_fit, without_broken_groups
from openspyre.compiler.scratchpad.request import Plan, Request, Room, no_room

_CYCLES, _FIRST_ACCEPTED, _LAST_ACCEPTED = 4, 0.8, 0.01


@dataclass(frozen=True, slots=True)
class Stacked:
    places: dict[str, int]
    spilled: dict[str, str]
    traffic: int


def stacked(order: Sequence[Request], room: Room) -> Stacked:
    """Each on top of the earlier ones that live at the same time, or in its parent's place where no other is."""
    places: dict[str, int] = {}
    spilled: dict[str, str] = {}
    placed: list[Request] = []
    for request in order:
        met = [other for other in placed if request.lives_with(other)]
        place = shared_place(request, met, places)
        if place is None:
            place = max((room.aligned(places[other.name] + other.size) for other in met), default=0)
        if place + request.size > room.capacity:
            spilled[request.name] = no_room(request, room)
        else:
            places[request.name] = place
            placed.append(request)
    plan = without_broken_groups(order, places, spilled)
    return Stacked(dict(plan.places), dict(plan.spilled), plan.traffic(order))


def shared_place(request: Request, met: Sequence[Request], places: dict[str, int]) -> int | None:
    """Where a parent is that ends as a tensor begins, if no other has these bytes."""
    for parent in met:
        if request.fits_into(parent) and parent.end - 1 == request.start:
            first = places[parent.name]
            others = [other for other in met if other is not parent]
            if all(places[o.name] >= first + request.size or places[o.name] + o.size <= first for o in others):
                return first
    return None


def anneal(requests: Sequence[Request], room: Room, seed: int = 0) -> Plan:
    """From the order of first fit on, swaps of two; warm again after each cycle; at an end when all are in."""
    order = order_of_fit(requests)
    now = best = stacked(order, room)
    if not best.traffic or len(order) < 2:
        return Plan(best.places, best.spilled)
    random = Random(seed)
    steps = min(max(30 * len(order), 500), 5000)
    per_cycle = steps // _CYCLES
    scale = sum(request.traffic for request in order) / len(order)
    hot, cold = -scale / log(_FIRST_ACCEPTED), -scale / log(_LAST_ACCEPTED)
    for step in range(per_cycle * _CYCLES):
        heat = hot * (cold / hot) ** (step % per_cycle / per_cycle)
        i, j = random.sample(range(len(order)), 2)
        order[i], order[j] = order[j], order[i]
        then = stacked(order, room)
        worse = then.traffic - now.traffic
        if worse <= 0 or random.random() < exp(-worse / heat):
            now = then
        else:
            order[i], order[j] = order[j], order[i]
        if now.traffic < best.traffic:
            best = now
        if not best.traffic:
            break
    return Plan(best.places, best.spilled)
