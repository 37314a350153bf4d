"""Reductions, softmax and norms: memory, and what a core needs for every stick of its rows."""

from __future__ import annotations

from math import log2

from openspyre.clock.kernels import Norm, Reduction, Softmax
from openspyre.clock.parts import Parts, memory_scale
from openspyre.clock.prediction import Part, Resource
from openspyre.spec.machine import Machine

_SMALL_TILE = 131072  # bytes per core up to which a softmax's tile costs nothing extra
_LARGE_TILE_DOUBLINGS = 2
_ROWS_OF_LONG_STRIDE = 4096  # one core alone feels the distance of its sticks from so many rows on
_PASSES = 8  # of a softmax through memory, in tensors read or written


def reduction_parts(kernel: Reduction, machine: Machine) -> Parts:
    if kernel.over_rows:
        return _over_rows(kernel, machine)
    rates = machine.rates.reduction
    core = kernel.sticks * rates.core_ns_per_stick * 1e-3 / kernel.cores
    if kernel.resident:
        core = kernel.sticks * machine.rates.resident.reduction_ns_per_stick * 1e-3 / kernel.cores
    elif kernel.rows > _ROWS_OF_LONG_STRIDE:
        core *= 1 + rates.core_long_stride * log2(kernel.rows / _ROWS_OF_LONG_STRIDE)
    moved = kernel.read_bytes + kernel.written_bytes
    memory = moved / (rates.gb_per_s * 1e3) + rates.turnaround_us_per_mb * 1e-6 * min(
        kernel.read_bytes, kernel.written_bytes
    )
    if kernel.stride > machine.rates.memory.long_stride_bytes:
        memory *= 1 + rates.long_stride * log2(kernel.stride / machine.rates.memory.long_stride_bytes)
    if kernel.cores < machine.cores:
        memory = max(memory, moved / (machine.rates.memory.few_cores_read_gb_per_s * 1e3))
    parts = (Part(Resource.MEMORY, memory / memory_scale(machine)), Part(Resource.VECTOR, core))
    return Parts(parts, rates.overlap_power, rates.fixed_us)


def _over_rows(kernel: Reduction, machine: Machine) -> Parts:
    rates, moved = machine.rates.reduction, kernel.read_bytes + kernel.written_bytes
    memory, fixed = moved / (rates.columns_gb_per_s * 1e3), rates.columns_fixed_us
    if kernel.tiles > 1:
        memory *= rates.spilled_tiles if kernel.spilled else 1
        fixed += kernel.tiles * (rates.spilled_tile_us if kernel.spilled else rates.tile_us)
    core = 0.0
    if kernel.resident:
        core = kernel.sticks * machine.rates.resident.reduction_ns_per_stick * 1e-3 / kernel.cores
    parts = (Part(Resource.MEMORY, memory / memory_scale(machine)), Part(Resource.VECTOR, core))
    return Parts(parts, rates.overlap_power, fixed)


def softmax_parts(kernel: Softmax, machine: Machine) -> Parts:
    rates, tensor = machine.rates.resident, kernel.bytes
    per_core = tensor / kernel.tiles / kernel.cores
    core = tensor / machine.stick_bytes * rates.core_ns_per_stick * 1e-3 / kernel.cores
    if per_core > rates.capacity_bytes:
        memory = _PASSES * tensor / (rates.spilled_gb_per_s * 1e3) * (rates.spilled_tiles if kernel.tiles > 1 else 1)
        serial = (Part(Resource.VECTOR, core),) if kernel.cores < 4 else ()
        return Parts((Part(Resource.MEMORY, memory / memory_scale(machine)),), 1.0, rates.fixed_us, serial)
    memory = _rows_in_and_out(kernel, machine, per_core) / memory_scale(machine)
    parts = (Part(Resource.MEMORY, memory), Part(Resource.VECTOR, core))
    return Parts(parts, rates.overlap_power, rates.fixed_us + rates.tile_us * (kernel.tiles - 1))


def _rows_in_and_out(kernel: Softmax, machine: Machine, per_core: float) -> float:
    rates, moved = machine.rates.resident, 2 * kernel.bytes
    if kernel.cores < 4:
        return moved / (rates.core_gb_per_s * 1e3 * kernel.cores)
    large = min(1.0, max(0.0, log2(per_core / _SMALL_TILE) / _LARGE_TILE_DOUBLINGS))
    memory = moved / (rates.gb_per_s * 1e3) * (1 + rates.large_tiles * large)
    if kernel.runs.bytes:
        memory *= 1 + (rates.short_run_bytes / kernel.runs.bytes) ** 1.5
    return memory / (rates.few_cores if kernel.cores < machine.cores else 1)


def norm_parts(kernel: Norm, machine: Machine) -> Parts:
    """As a reduction that also writes: nobody has measured one alone."""
    reduction, resident = machine.rates.reduction, machine.rates.resident
    turned = min(kernel.read_bytes, kernel.written_bytes)
    moved = kernel.read_bytes + kernel.written_bytes
    memory = (
        moved / (machine.rates.memory.gb_per_s * 1e3) + machine.rates.pointwise.turnaround_us_per_mb * 1e-6 * turned
    )
    core = kernel.sticks * reduction.core_ns_per_stick * 1e-3 / kernel.cores
    core += kernel.scratchpad_bytes / (resident.scratchpad_gb_per_s * 1e3 * kernel.cores)
    parts = (Part(Resource.MEMORY, memory / memory_scale(machine)), Part(Resource.VECTOR, core))
    return Parts(parts, reduction.overlap_power, reduction.fixed_us)
