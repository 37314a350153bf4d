"""What executions move and compute, counted from their descriptions: of one run, and of a whole launch."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.superdsc import PRESENT, SuperDsc
from openspyre.clock.bundles import ops_of
from openspyre.clock.kernels import Kernel, Layout, Matmul, RoundTrip, Shuffle
from openspyre.clock.places import bytes_of, outputs_of, traffic_of
from openspyre.clock.timing import Timing
from openspyre.spec.counters import LaunchWork
from openspyre.spec.formats import DataFormats
from openspyre.spec.hardware import HARDWARE, Shape
from openspyre.spec.machine import SPYRE, Machine

_MOVED_ALONE = ("ReStickifyOpHBM", "shuffle")  # no SFP computes anything


class Work(NamedTuple):
    """Of one run: bytes by place, and what the units compute."""

    read: int
    written: int
    scratchpad_read: int
    scratchpad_written: int
    ring: int
    host_link: int
    macs: int
    elements: int

    @property
    def scratchpad(self) -> int:
        return self.scratchpad_read + self.scratchpad_written


def work_of(op: SuperDsc, kernel: Kernel) -> Work:
    """What one run amounts to. An op that the hardware does not have is moved to the host and back, and computed there."""
    if isinstance(kernel, RoundTrip):
        down, up = sum(kernel.down), sum(kernel.up)
        return Work(down, up, 0, 0, 0, down + up, 0, 0)
    traffic, points = traffic_of(op), prod(axis.size for axis in op.axes)
    ring = kernel.bytes if isinstance(kernel, Shuffle) else _partial_sums(op)
    product = _is_product(op)
    return Work(
        traffic.read_bytes,
        traffic.written_bytes,
        traffic.scratchpad_read_bytes,
        traffic.scratchpad_written_bytes,
        ring,
        0,
        points if product else 0,
        0 if product or op.op in _MOVED_ALONE else points,
    )


def _partial_sums(op: SuperDsc) -> int:
    """What cores pass on of their results where a reduced dim is divided."""
    cut = [(result, axis) for result in outputs_of(op) for axis in op.axes if result.scale(axis.label) != PRESENT]
    return sum((axis.split - 1) * bytes_of(op, result) for result, axis in cut)


def _is_product(op: SuperDsc) -> bool:
    known = HARDWARE.get(op.op)
    return known is not None and known.shape is Shape.CONTRACTION


def peak_macs_per_us(op: SuperDsc, machine: Machine) -> float:
    match op.format:
        case DataFormats.SEN143_FP8 | DataFormats.SEN152_FP8:
            per_cycle = machine.fp8_macs_per_cycle_per_core
        case DataFormats.SENINT8:
            per_cycle = machine.int8_macs_per_cycle_per_core
        case _:
            per_cycle = machine.fp16_macs_per_cycle_per_core
    return machine.cores * per_cycle * machine.core_clock_hz * 1e-6


def launch_work(bundle: Bundle | Emitted, timing: Timing, machine: Machine = SPYRE) -> LaunchWork:
    """What a launch of a bundle adds to the counters; `timing` is the clock's of the same bundle. Bytes are those of steps that a card does itself."""
    known: dict[int, tuple[Work, float]] = {}  # by the id of what equal ops share
    total, array_us = _Total(), 0.0
    for (op, alike), step in zip(ops_of(bundle), timing.steps, strict=True):
        kernel, times = step.item.kernel, step.item.times
        if id(alike) not in known:
            work = work_of(op, kernel)
            known[id(alike)] = work, work.macs / peak_macs_per_us(op, machine)
        work, array = known[id(alike)]
        total.add(kernel, work, times)
        array_us += array * times
    return total.as_work(timing, array_us)


def steps_work(timing: Timing, machine: Machine = SPYRE) -> LaunchWork:
    """The same of a program that comes without a bundle: its kernels tell steps and products, and no bytes."""
    total, macs = _Total(), 0
    for step in timing.steps:
        kernel = step.item.kernel
        macs = kernel.macs if isinstance(kernel, Matmul) else 0
        total.add(kernel, Work(0, 0, 0, 0, 0, 0, macs, 0), step.item.times)
    per_us = machine.cores * machine.fp16_macs_per_cycle_per_core * machine.core_clock_hz * 1e-6
    return total.as_work(timing, total.macs / per_us)


class _Total:
    def __init__(self) -> None:
        self.steps = self.macs = self.relayouts = self.extensions = self.ring = 0
        self.read = self.written = self.scratchpad_read = self.scratchpad_written = 0

    def add(self, kernel: Kernel, work: Work, times: int) -> None:
        self.steps += times
        if isinstance(kernel, RoundTrip):
            self.extensions += times
            return
        self.relayouts += times * isinstance(kernel, Layout)
        self.macs += work.macs * times
        self.read += work.read * times
        self.written += work.written * times
        self.scratchpad_read += work.scratchpad_read * times
        self.scratchpad_written += work.scratchpad_written * times
        self.ring += work.ring * times

    def as_work(self, timing: Timing, array_us: float) -> LaunchWork:
        return LaunchWork(
            self.steps,
            self.macs,
            self.read,
            self.written,
            self.scratchpad_read,
            self.scratchpad_written,
            self.ring,
            self.relayouts,
            self.extensions,
            round(timing.card_us * 1e3),
            round(array_us * 1e3),
        )
