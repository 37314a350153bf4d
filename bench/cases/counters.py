"""The counters: counting is part of every launch (`python -m bench.against` compares builds); this is what reading them costs."""

from __future__ import annotations

import torch

from bench.registry import ONE, case
from bench.timing import Effort, Pair


@case("1,000 launches of x + y and torch.spyre.counters()", asked=1.25, baseline="the launches alone", threads=ONE)
def reading(effort: Effort) -> Pair:
    """Somebody looks at the counters about every millisecond."""
    x = torch.randn(64).half().to("spyre")
    names = {"x": x, "y": x.clone(), "wait": torch.spyre.synchronize, "counters": torch.spyre.counters}
    calls = "for _ in range(1000): x + y\nwait()"
    return Pair(f"{calls}\ncounters()", calls, names)
