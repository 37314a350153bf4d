"""The solvers by the names that LAYOUT_SOLVER takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from openspyre.compiler.scratchpad.annealing import anneal
from openspyre.compiler.scratchpad.exact import exact
from openspyre.compiler.scratchpad.fit import best_fit, first_fit
from openspyre.compiler.scratchpad.greedy import greedy
from openspyre.compiler.scratchpad.request import Plan, Request, Room

Solver = Callable[[Sequence[Request], Room], Plan]

_STEPS = 200  # of the exact solver for each part, where it helps out: some milliseconds


def greedy_then_exact(requests: Sequence[Request], room: Room) -> Plan:
    """Greedy, and the exact solver for a while where that leaves something out."""
    found = greedy(requests, room)
    if not found.spilled:
        return found
    return min((found, exact(requests, room, steps=_STEPS)), key=lambda plan: plan.traffic(requests))


# "cpsat" is what the documents call their exact solver; ours needs no package.
SOLVERS: Mapping[str, Solver] = {
    "greedy": greedy,
    "greedy_then_exact": greedy_then_exact,
    "firstfit": first_fit,
    "bestfit": best_fit,
    "simulated_annealing": anneal,
    "exact": exact,
    "cpsat": exact,
}
