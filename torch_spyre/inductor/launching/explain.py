"""`torch_spyre.explain`: how long a card would take for what a function launches, and why."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openspyre.tools.explaining.counting import read_bundles
from openspyre.tools.explaining.machines import machine_of, supposed
from openspyre.tools.explaining.records import Explanation, Fallback
from openspyre.tools.explaining.savings import explained
from torch_spyre.device.predicted import PredictedFallback, PredictedTime
from torch_spyre.inductor.launching.export import export_bundle


def explain(model_or_compiled: Callable[..., Any], *inputs: Any, machine: str | None = None) -> Explanation:
    """Compiles a function or a module, calls it once with `inputs`, and explains every launch as `openspyre explain` does.

    The result prints as a table; `.json()` has everything, `.html(path)` writes a page, `.against(other)` sets two side by side. With
    `machine`, "cores=16,lx_mb=4,ddr=300" for example, it is planned and timed for such a card. Made of `export_bundle`: what the process
    had compiled before compiles again at its next call.
    """
    if machine is not None:
        machine_of(machine)  # before anything is compiled
    # What torch.compile gave is compiled anew from what it was given.
    plain: Any = getattr(model_or_compiled, "_orig_mod", model_or_compiled)
    plain = getattr(plain, "_torchdynamo_orig_callable", plain)
    with tempfile.TemporaryDirectory() as place:
        with PredictedTime(all_threads=False) as predicted:
            launches = export_bundle(plain, *inputs, directory=Path(place) / "launches", with_inputs=False)
        bundles, fallbacks = read_bundles(launches), _together(predicted.fallbacks)
    if machine is None:
        return explained(bundles, fallbacks=fallbacks)
    return supposed(bundles, machine, fallbacks)


def _together(found: Sequence[PredictedFallback]) -> tuple[Fallback, ...]:
    """Calls of one operator as one."""
    together: dict[str, Fallback] = {}
    for one in found:
        moved = one.bytes_to_host + one.bytes_to_card
        known = together.get(one.name, Fallback(one.name, 0, 0, 0.0))
        together[one.name] = Fallback(one.name, known.calls + 1, known.bytes + moved, known.time_us + one.time_us)
    return tuple(together.values())
