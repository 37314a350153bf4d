"""What a formula gives: overlapped parts with their norm, serial parts, and the fixed time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.clock.prediction import Part, Resource, overlapped
from openspyre.spec.machine import Machine

# Rates were seen on this card; what-if cards are scaled from it.
_SEEN = Machine()


def memory_scale(machine: Machine) -> float:
    return machine.device_memory_bytes_per_second / _SEEN.device_memory_bytes_per_second


def array_scale(machine: Machine) -> float:
    cycles = machine.core_clock_hz / _SEEN.core_clock_hz
    return cycles * machine.fp16_macs_per_cycle_per_core / _SEEN.fp16_macs_per_cycle_per_core


@dataclass(frozen=True, slots=True)
class Parts:
    """`power`: of the norm that joins the overlapped parts."""

    overlapped: tuple[Part, ...]
    power: float
    fixed_us: float
    serial: tuple[Part, ...] = ()

    @property
    def time_us(self) -> float:
        return overlapped(self.overlapped, self.power) + sum(part.us for part in self.serial) + self.fixed_us

    @property
    def all_serial(self) -> tuple[Part, ...]:
        return (*self.serial, Part(Resource.FIXED, self.fixed_us)) if self.fixed_us else self.serial

    def slowed(self, factor: float) -> Parts:
        parts = tuple(Part(part.resource, part.us * factor) for part in self.overlapped)
        serial = tuple(Part(part.resource, part.us * factor) for part in self.serial)
        return replace(self, overlapped=parts, serial=serial, fixed_us=self.fixed_us * factor)
