"""Pointwise kernels, copies and broadcasts: memory with its turnaround, the length and distance of runs, one core's ceiling."""

from __future__ import annotations

from math import log2

from openspyre.clock.kernels import Chain, Form, Pointwise, Runs
from openspyre.clock.parts import Parts, memory_scale
from openspyre.clock.prediction import Part, Resource
from openspyre.spec.machine import Machine
from openspyre.spec.rates import CopyRates

_SIZE_FROM = 32e6  # bytes from which the size term counts
_PAGE_BYTES = 2896  # the middle of the runs that meet in a page


def parts(kernel: Pointwise, machine: Machine) -> Parts:
    match kernel.form:
        case Form.UNARY | Form.FUNCTION | Form.BINARY:
            return _computed(kernel, machine)
        case Form.COPY | Form.ALONG_COLUMNS | Form.ALONG_ROWS:
            return _copied(kernel, machine)


def _doublings(value: float, start: float) -> float:
    return log2(value / start) if value > start else 0.0


def _bus(kernel: Pointwise, machine: Machine, turnaround: float) -> float:
    moved = kernel.read_bytes + kernel.written_bytes
    turned = min(kernel.read_bytes, kernel.written_bytes)
    return (moved / (machine.rates.memory.gb_per_s * 1e3) + turnaround * 1e-6 * turned) / memory_scale(machine)


def _computed(kernel: Pointwise, machine: Machine) -> Parts:
    rates, moved = machine.rates.pointwise, kernel.read_bytes + kernel.written_bytes
    factor = 1 + rates.long_stride * _doublings(kernel.runs.stride, machine.rates.memory.long_stride_bytes)
    if kernel.form is Form.BINARY and kernel.runs.bytes:
        # Two inputs were measured down to runs of 1 KB: below, twice what a copy of such runs loses.
        copied = (machine.rates.copy.short_run_bytes / kernel.runs.bytes) ** machine.rates.copy.short_run_power
        factor += min((rates.short_run_bytes / kernel.runs.bytes) ** rates.short_run_power, 2 * copied)
    if moved:
        factor += rates.size * max(-5.0, log2(moved / _SIZE_FROM))
    if 1 < kernel.cores < machine.cores:
        factor *= rates.few_cores
    ceiling = rates.one_core_function_gb_per_s if kernel.form is Form.FUNCTION else rates.one_core_gb_per_s
    return Parts(
        (
            Part(Resource.MEMORY, _bus(kernel, machine, rates.turnaround_us_per_mb) * factor),
            Part(Resource.VECTOR, moved / (ceiling * 1e3 * kernel.cores) + _resident(kernel, machine)),
        ),
        rates.overlap_power,
        rates.fixed_us,
    )


def _copied(kernel: Pointwise, machine: Machine) -> Parts:
    rates, moved = machine.rates.copy, kernel.read_bytes + kernel.written_bytes
    factor = _copy_factor(kernel, rates, machine.rates.memory.long_stride_bytes)
    if 1 < kernel.cores < machine.cores:
        factor *= rates.few_cores
    ceiling = rates.one_core_copy_gb_per_s if kernel.form is Form.COPY else rates.one_core_gb_per_s
    return Parts(
        (
            Part(Resource.MEMORY, _bus(kernel, machine, rates.turnaround_us_per_mb) * factor),
            Part(Resource.VECTOR, moved / (ceiling * 1e3 * kernel.cores) + _resident(kernel, machine)),
        ),
        rates.overlap_power,
        rates.fixed_us,
    )


def _copy_factor(kernel: Pointwise, rates: CopyRates, long_stride_bytes: float) -> float:
    moved = kernel.read_bytes + kernel.written_bytes
    along_columns = kernel.form is Form.ALONG_COLUMNS
    stride = _doublings(kernel.runs.stride, long_stride_bytes)
    factor = 1 + (rates.row_long_stride if along_columns else rates.long_stride) * stride
    if moved:
        factor += (rates.row_size if along_columns else rates.size) * max(-5.0, log2(moved / _SIZE_FROM))
    if kernel.runs.bytes:
        short = (rates.short_run_bytes / kernel.runs.bytes) ** rates.short_run_power
        factor += short * ((kernel.columns / 4096) ** rates.row_columns_power if along_columns else 1)
        if not along_columns:
            factor += rates.page_conflict * max(0.0, 1 - abs(log2(kernel.runs.bytes / _PAGE_BYTES)))
    return factor


def _resident(kernel: Pointwise, machine: Machine) -> float:
    return kernel.scratchpad_bytes / (machine.rates.resident.scratchpad_gb_per_s * 1e3 * kernel.cores)


def chain_parts(kernel: Chain, machine: Machine) -> Parts:
    """A chain of adds: each through memory, or only its ends."""
    rates, tensor = machine.rates.chain, kernel.tensor_bytes
    if kernel.resident and tensor / kernel.cores <= rates.resident_bytes:
        reads = (kernel.ops + 1) * tensor
        ends = _computed(Pointwise(Form.UNARY, reads, tensor, kernel.cores, kernel.runs), machine)
        return ends.slowed(rates.resident)
    one = _computed(Pointwise(Form.BINARY, 2 * tensor, tensor, kernel.cores, kernel.runs), machine)
    return one.slowed(kernel.ops * _read_after_write(kernel, machine))


def _read_after_write(kernel: Chain, machine: Machine) -> float:
    rates = machine.rates.chain
    if kernel.ops == 1:
        return 1.0
    if kernel.separate and kernel.ops == 3:
        return rates.separate
    if kernel.ops == 2:
        return rates.two_ops
    return rates.more_ops * (rates.short_runs if _is_short(kernel.runs, rates.short_run_bytes) else 1)


def _is_short(runs: Runs, below: float) -> bool:
    return 0 < runs.bytes < below
