"""What Dynamo knows of the symbols of the graph being compiled: which sizes change, and what `mark_dynamic` says of them."""

from __future__ import annotations

import torch

from torch_spyre.inductor.border import TracingContext
from torch_spyre.inductor.graph import Growth

_UNSET = 2  # the least size of every symbol: sizes 0 and 1 are numbers


def growths() -> dict[str, Growth]:
    """Of symbols that are a size of a tensor the graph is called with. With dynamic=True it is not known whether a size changes."""
    context = TracingContext.try_get()
    shapes = None if context is None or context.fake_mode is None else context.fake_mode.shape_env
    found: dict[str, Growth] = {}
    for tracked in (shapes is not None and shapes.tracked_fakes) or ():
        described = tracked.symbolic_context
        if not isinstance(tracked.fake, torch.Tensor) or getattr(described, "constraint_sizes", None) is None:
            continue
        for extent, dynamic, constraint in zip(
            tracked.fake.shape, described.dynamic_sizes, described.constraint_sizes, strict=True
        ):
            if isinstance(extent, torch.SymInt) and dynamic.name == "DYNAMIC":
                name = str(extent.node.expr)
                found[name] = _growth(constraint) if name not in found or hasattr(constraint, "vr") else found[name]
    return found


def _growth(constraint: object) -> Growth:
    bounds = getattr(constraint, "vr", None)
    if bounds is None:
        return Growth(True)
    least, largest = (int(bound) if bound.is_Integer else None for bound in (bounds.lower, bounds.upper))
    return Growth(True, None if least is None or least <= _UNSET else least, largest)
