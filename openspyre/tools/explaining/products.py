"""Products divided otherwise: the division that the clock likes best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from openspyre.clock import TimedStep, predict
from openspyre.clock.kernels import Division, Matmul
from openspyre.spec.machine import Machine

_STICK = 64  # elements of a stick in fp16: columns and the reduced dim are divided by sticks


class Better(NamedTuple):
    division: str
    saves_us: float


def better_division(step: TimedStep, machine: Machine) -> Better | None:
    """The fastest division, if it is faster than the product's by more than the clock errs."""
    kernel = step.item.kernel
    if not isinstance(kernel, Matmul) or kernel.division is None:
        return None
    times = {
        division: predict(replace(kernel, division=division, cores=division.cores), machine).time_us
        for division in _divisions(kernel, machine.cores)
    }
    best = min(times, key=times.__getitem__, default=kernel.division)
    if best == kernel.division or times[best] >= step.alone.time_us * (1 - step.alone.band.p90):
        return None
    told = {"batch": best.b, "rows": best.m, "columns": best.n, "the reduced dim": best.k}
    shown = ", ".join(f"{name} by {count}" for name, count in told.items() if count > 1) or "not at all"
    return Better(shown, step.time_us * (1 - times[best] / step.alone.time_us))


def _divisions(kernel: Matmul, cores: int) -> Iterator[Division]:
    for b in _parts(kernel.b, cores):
        for m in _parts(kernel.m, cores // b):
            for n in _parts(kernel.n // _STICK, cores // (b * m)):
                for k in _parts(kernel.k // _STICK, cores // (b * m * n)):
                    yield Division(b, m, n, k)


def _parts(size: int, most: int) -> Iterator[int]:
    return (count for count in range(1, min(max(size, 1), most) + 1) if max(size, 1) % count == 0)
