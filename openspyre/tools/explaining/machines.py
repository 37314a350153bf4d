"""`--machine cores=16,lx_mb=4,ddr=300`: a card that nobody has, and what becomes of bundles on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from openspyre.spec.errors import InvalidArgument
from openspyre.spec.machine import MIB, SPYRE, Machine
from openspyre.tools.explaining.counting import LaunchedBundle
from openspyre.tools.explaining.planned import Asked, plan_for
from openspyre.tools.explaining.records import Explanation, Fallback
from openspyre.tools.explaining.residents import residents_of
from openspyre.tools.explaining.savings import explained

_KEYS: dict[str, tuple[str, Callable[[Machine, float], Machine]]] = {
    "cores": ("a whole number of cores", lambda machine, value: replace(machine, cores=int(value))),
    "lx_mb": ("MiB of scratchpad per core", lambda m, value: replace(m, scratchpad_bytes_per_core=int(value * MIB))),
    "ddr": ("GB/s of memory", lambda m, value: replace(m, device_memory_bytes_per_second=value * 1e9)),
}


def machine_of(text: str, machine: Machine = SPYRE) -> Machine:
    """A card with some things otherwise; InvalidArgument tells what can be."""
    keys = [part.partition("=")[0] for part in text.split(",")]
    for part in text.split(","):
        key, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if key not in _KEYS or not 0 < number < 1e6 or (key == "cores" and number != int(number)):
            known = ", ".join(f"{name}= ({what})" for name, (what, _) in _KEYS.items())
            raise InvalidArgument(f"{part!r} is nothing of a machine; there are {known}, each above 0")
        if keys.count(key) > 1:
            raise InvalidArgument(f"{text!r} says {key} more than once")
        machine = _KEYS[key][1](machine, number)
    return machine


def check_plans(bundles: Sequence[LaunchedBundle], machine: Machine) -> None:
    """A plan that the machine has no room for cannot be timed on it: it would have to be made anew."""
    for bundle in bundles:
        most = max(bundle.documented.ops.values(), key=lambda op: op.cores, default=None)
        if most is not None and most.cores > machine.cores:
            raise InvalidArgument(
                f"{bundle.documented.name}: {most.name} is divided over {most.cores} cores, the machine has {machine.cores}; "
                f"without its graph.ir it cannot be planned here, so compile it anew (SENCORES={machine.cores})"
            )
        for resident in residents_of(bundle.documented):
            if resident.end > machine.scratchpad_bytes_per_core:
                raise InvalidArgument(
                    f"{bundle.documented.name}: {resident.name} lies up to byte {resident.end} of the scratchpads, the machine "
                    f"has {machine.scratchpad_bytes_per_core}; without its graph.ir it cannot be planned here: give more lx_mb, or compile it anew"
                )


def supposed(bundles: Sequence[LaunchedBundle], text: str, fallbacks: tuple[Fallback, ...] = ()) -> Explanation:
    """The same graphs on a card that nobody has: planned anew where our compiler left word of the graph, else timed as they are."""
    asked = [bundle.plan.asked.machine for bundle in bundles if bundle.plan is not None]
    machine = machine_of(text, asked[0] if asked else SPYRE)
    check_plans([bundle for bundle in bundles if bundle.plan is None], machine)
    anew = [bundle if bundle.plan is None else _planned(bundle, bundle.plan.asked, machine) for bundle in bundles]
    return explained(anew, machine, _note(machine, len(asked), len(bundles)), fallbacks)


def _planned(bundle: LaunchedBundle, asked: Asked, machine: Machine) -> LaunchedBundle:
    plan = plan_for(asked, machine)
    return LaunchedBundle(replace(plan.emitted.bundle, name=bundle.documented.name), plan.emitted.arguments, plan)


def _note(machine: Machine, anew: int, launches: int) -> str:
    """What the reader must know of the times."""
    card = (
        f"a card with {machine.cores} cores, {machine.scratchpad_bytes_per_core / MIB:g} MiB of scratchpad each and "
        f"{machine.device_memory_bytes_per_second / 1e9:g} GB/s of memory, which nobody has: "
    )
    if anew == launches:
        return card + "planned anew for it."
    stays = (
        "the plan is the bundle's own and stays"
        if not anew
        else f"{anew} of {launches} launches are planned anew, the others stay"
    )
    return (
        card
        + f"{stays} (without graph.ir beside it a bundle cannot be planned): there only the clock and the room for savings go by this machine."
    )
