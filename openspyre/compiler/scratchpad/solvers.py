"""The solvers by the names that LAYOUT_SOLVER takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from openspyre.compiler.scratchpad.annealing import anneal
from openspyre.compiler.scratchpad.exact import exact
from openspyre.compiler.scratchpad.fit import best_fit, first_fit
from openspyre.compiler.scratchpad.greedy import greedy
from openspyre.compiler.scratchpad.request import Plan, Request, Room

Solver = Callable[[Sequence[Request], Room], Plan]

# "cpsat" is what the documents call their exact solver; ours needs no package.
SOLVERS: Mapping[str, Solver] = {
    "greedy": greedy,
    "firstfit": first_fit,
    "bestfit": best_fit,
    "simulated_annealing": anneal,
    "exact": exact,
    "cpsat": exact,
}
