"""`--machine cores=64,lx_mb=4,ddr=300`: a card that nobody has, for bundles that are planned already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from openspyre.spec.errors import InvalidArgument
from openspyre.spec.machine import MIB, SPYRE, Machine
from openspyre.tools.explaining.counting import LaunchedBundle
from openspyre.tools.explaining.residents import residents_of

_KEYS: dict[str, tuple[str, Callable[[Machine, float], Machine]]] = {
    "cores": ("a whole number of cores", lambda machine, value: replace(machine, cores=int(value))),
    "lx_mb": ("MiB of scratchpad per core", lambda m, value: replace(m, scratchpad_bytes_per_core=int(value * MIB))),
    "ddr": ("GB/s of memory", lambda m, value: replace(m, device_memory_bytes_per_second=value * 1e9)),
}


def machine_of(text: str) -> Machine:
    """The card with some things otherwise; InvalidArgument tells what can be."""
    machine = SPYRE
    for part in text.split(","):
        key, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if key not in _KEYS or not 0 < number < 1e6 or (key == "cores" and number != int(number)):
            known = ", ".join(f"{name}= ({what})" for name, (what, _) in _KEYS.items())
            raise InvalidArgument(f"{part!r} is nothing of a machine; there are {known}, each above 0")
        machine = _KEYS[key][1](machine, number)
    return machine


def check_plans(bundles: Sequence[LaunchedBundle], machine: Machine) -> None:
    """A plan that the machine has no room for cannot be timed on it: it would have to be made anew."""
    for bundle in bundles:
        most = max(bundle.documented.ops.values(), key=lambda op: op.cores, default=None)
        if most is not None and most.cores > machine.cores:
            raise InvalidArgument(
                f"{bundle.documented.name}: {most.name} is divided over {most.cores} cores, the machine has {machine.cores}; "
                f"plans stay as they are, so compile it anew (SENCORES={machine.cores})"
            )
        for resident in residents_of(bundle.documented):
            if resident.end > machine.scratchpad_bytes_per_core:
                raise InvalidArgument(
                    f"{bundle.documented.name}: {resident.name} lies up to byte {resident.end} of the scratchpads, the machine "
                    f"has {machine.scratchpad_bytes_per_core}; plans stay as they are: give more lx_mb, or compile it anew"
                )


def note_of(machine: Machine, as_it_is_us: float) -> str:
    """What the reader must know of the times."""
    return (
        f"a card with {machine.cores} cores, {machine.scratchpad_bytes_per_core / MIB:g} MiB of scratchpad each and "
        f"{machine.device_memory_bytes_per_second / 1e9:g} GB/s of memory, which nobody has: the plan is the bundle's own and stays, only "
        f"the clock and the room for savings go by this machine. A real card takes {as_it_is_us:.1f} us."
    )
