"""The strategy `documented`: the reference planner's passes, one after the other."""

from __future__ import annotations

from openspyre.compiler.planner.constraints import constraints_of
from openspyre.compiler.planner.distribution import distribute
from openspyre.compiler.planner.hints import Hint, hinted_splits
from openspyre.compiler.planner.matmul_cost import divide_matmul
from openspyre.compiler.planner.space import Space, Splits
from openspyre.compiler.planner.span_reduction import committed_splits


def divide(space: Space, cores: int, limit: int, hint: Hint | None = None) -> Splits:
    """Slices per symbol, so that a core reaches at most `limit` bytes of each tensor if that can be had."""
    constraints = constraints_of(space, cores)
    commits = committed_splits(space, constraints, cores, limit)
    hinted = hinted_splits(space, hint or {}, constraints, commits, cores)
    if hinted is not None:
        return hinted
    default = distribute(space, constraints, commits, cores)
    return default if commits else divide_matmul(space, default, cores) or default
