"""What happens around kernels: launches, DMA over the host link, and ops that the CPU does in the card's place."""

from __future__ import annotations

from openspyre.clock.bands import BANDS
from openspyre.clock.kernels import RoundTrip
from openspyre.clock.parts import Parts
from openspyre.clock.prediction import KernelClass, Part, Prediction, Resource
from openspyre.spec.machine import SPYRE, Machine


def to_card_us(bytes_: int, machine: Machine = SPYRE) -> float:
    """One transfer from the host to the card."""
    rates = machine.rates.transfer
    return rates.host_link_fixed_us + bytes_ / (machine.host_link_bytes_per_second * rates.to_card_share) * 1e6


def from_card_us(bytes_: int, machine: Machine = SPYRE) -> float:
    """One transfer from the card to the host."""
    rates = machine.rates.transfer
    return rates.host_link_fixed_us + bytes_ / (machine.host_link_bytes_per_second * rates.from_card_share) * 1e6


def launch(machine: Machine = SPYRE) -> Prediction:
    """What the host spends on a call before the card begins."""
    us = machine.rates.transfer.launch_us
    parts = (Part(Resource.CPU, us),)
    return Prediction(KernelClass.LAUNCH, us, parts, (), BANDS[KernelClass.LAUNCH])


def round_trip_parts(kernel: RoundTrip, machine: Machine) -> Parts:
    """Operands down, the op on the CPU by the bytes it touches, results up: one after the other."""
    link = sum(from_card_us(bytes_, machine) for bytes_ in kernel.down) + sum(to_card_us(b, machine) for b in kernel.up)
    moved = sum(kernel.down) + sum(kernel.up)
    serial = (
        Part(Resource.HOST_LINK, link),
        Part(Resource.CPU, moved / (machine.rates.transfer.cpu_gb_per_s * 1e3)),
    )
    return Parts((), 1.0, 0.0, serial)
