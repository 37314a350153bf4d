"""The time of a whole bundle: every execution on its own, then together where their data stays in the scratchpads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from openspyre.clock.kernels import Kernel, Norm, Pointwise, Reduction
from openspyre.clock.predict import predict
from openspyre.clock.prediction import KernelClass, Part, Prediction, Resource, overlapped, settled
from openspyre.spec.machine import Machine


@dataclass(frozen=True, slots=True)
class Item:
    """A kernel to be timed: what it is called, how often loops run it, and whether it reads what was just written."""

    name: str
    op: str
    kernel: Kernel
    times: int
    body: tuple[int, ...]  # the loops around it, by their place: neighbours in one body may overlap
    reads_results: bool = False


@dataclass(frozen=True, slots=True)
class TimedStep:
    """An item with its time: `alone` as if nothing else ran, `time_us` for all its runs with what overlaps taken off."""

    item: Item
    alone: Prediction
    time_us: float


class ClassTime(NamedTuple):
    """All kernels of one class: their time, and the share of it that it may be off."""

    kernel_class: str
    us: float
    off: float


@dataclass(frozen=True)
class Timing:
    """All steps of a launch in order. Host time and what the host does in the card's place stand apart from the card's."""

    name: str
    steps: tuple[TimedStep, ...]
    launch: Prediction

    @cached_property
    def card_us(self) -> float:
        """Kernels on the card."""
        return sum(step.time_us for step in self.steps if not self._is_host(step))

    @cached_property
    def host_us(self) -> float:
        """Round trips of ops that the card does not have."""
        return sum(step.time_us for step in self.steps if self._is_host(step))

    @property
    def total_us(self) -> float:
        """With the launch."""
        return self.card_us + self.host_us + self.launch.time_us

    @property
    def band(self) -> float:
        """Share that the card's time may be off: each step's, weighed by its time."""
        total = sum(step.time_us for step in self.steps)
        return sum(step.time_us * step.alone.band.p90 for step in self.steps) / total if total else 0.0

    def by_resource(self) -> dict[Resource, float]:
        """How long steps are bound by each resource."""
        found: dict[Resource, float] = {}
        for step in self.steps:
            found[step.alone.bound] = found.get(step.alone.bound, 0.0) + step.time_us
        return found

    def by_class(self) -> tuple[ClassTime, ...]:
        """The longest first."""
        found: dict[str, tuple[float, float]] = {}
        for step in self.steps:
            us, off = found.get(step.alone.kernel_class.value, (0.0, 0.0))
            found[step.alone.kernel_class.value] = us + step.time_us, off + step.time_us * step.alone.band.p90
        times = (ClassTime(name, settled(us), settled(off / us if us else 0.0)) for name, (us, off) in found.items())
        return tuple(sorted(times, key=lambda time: -time.us))

    @staticmethod
    def _is_host(step: TimedStep) -> bool:
        return step.alone.kernel_class is KernelClass.EXTENSION


def time_items(name: str, items: Sequence[Item], machine: Machine, launch: Prediction) -> Timing:
    """Times of kernels that run one after the other."""
    known: dict[Kernel, Prediction] = {}
    alone = []
    for item in items:
        found = known.get(item.kernel)
        if found is None:
            found = known[item.kernel] = predict(item.kernel, machine)
        alone.append(_slowed(found, machine.rates.chain.reader) if _waits(item) else found)
    steps: list[TimedStep] = []
    for group in _groups(items):
        steps += _together([items[i] for i in group], [alone[i] for i in group], machine)
    return Timing(name, tuple(steps), launch)


def _waits(item: Item) -> bool:
    """Reading from memory what the kernel before has just written there."""
    return item.reads_results and isinstance(item.kernel, Pointwise) and item.kernel.read_bytes > 0


def _slowed(found: Prediction, factor: float) -> Prediction:
    parts = tuple(Part(part.resource, part.us * factor) for part in found.parts)
    return replace(found, time_us=found.time_us * factor, parts=parts)


def _stays(kernel: Kernel) -> bool:
    """Whether a kernel of the vector unit hands on through scratchpads."""
    match kernel:
        case Pointwise() | Norm():
            return kernel.scratchpad_bytes > 0
        case Reduction():
            return kernel.resident
    return False


def _groups(items: Sequence[Item]) -> Iterator[list[int]]:
    group: list[int] = []
    for number, item in enumerate(items):
        joins = group and _stays(item.kernel) and _stays(items[group[-1]].kernel) and items[group[-1]].body == item.body
        if not joins and group:
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def _together(items: list[Item], alone: list[Prediction], machine: Machine) -> list[TimedStep]:
    """Cores go their own ways through ops that hand on through scratchpads: one's memory time hides another's work."""
    if len(items) == 1:
        return [TimedStep(items[0], alone[0], settled(alone[0].time_us * items[0].times))]
    rates = machine.rates.resident
    busy = tuple(Part(r, sum(found.part(r) for found in alone)) for r in (Resource.MEMORY, Resource.VECTOR))
    fixed = sum(found.part(Resource.FIXED) for found in alone) * rates.fixed_share
    # Chains of one op each are no faster for standing side by side.
    shared = min(sum(found.time_us for found in alone), overlapped(busy, rates.overlap_power) + fixed)
    share = shared / sum(found.time_us for found in alone)
    return [
        TimedStep(i, found, settled(found.time_us * share * i.times)) for i, found in zip(items, alone, strict=True)
    ]
