"""Products: memory with the operands read again for every tile, the streams into one core, the array with its fill, partial sums."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from openspyre.clock.kernels import Division, Matmul
from openspyre.clock.parts import Parts, array_scale, memory_scale
from openspyre.clock.prediction import Part, Resource
from openspyre.spec.machine import Machine
from openspyre.spec.rates import BatchedRates, MatmulRates


class _Passes(NamedTuple):
    """How often the operands are read, and the rows of the first that share a pass over the second."""

    first: float
    second: float
    tile_rows: float


def matmul_parts(kernel: Matmul, machine: Machine) -> Parts:
    if kernel.division is None:
        return _unrecorded(kernel, machine)
    if kernel.batched:
        return _batched(kernel, kernel.division, machine)
    return _single(kernel, kernel.division, machine)


def _single(kernel: Matmul, division: Division, machine: Machine) -> Parts:
    rates = machine.rates.matmul
    rows = kernel.b * kernel.m  # with one second operand, a batch is more rows
    m, cores = division.b * division.m, division.cores
    passes = _passes(rows / m, kernel.n / division.n, kernel.k / division.k, division.k, rates)
    slice_bytes = 2 * kernel.k * kernel.n / (division.n * division.k)
    near = machine.rates.resident.scratchpad_gb_per_s  # what stays there is read at its rate
    second = slice_bytes * passes.second / ((near if kernel.second_resident else rates.stream_gb_per_s) * 1e3)
    if division.n == 1 and division.k > 1:
        second /= rates.whole_columns
    first = 2 * rows * kernel.k * passes.first / (m * division.k) / (rates.stream_gb_per_s * 1e3)
    array = kernel.macs / cores / (rates.macs_per_ns * 1e3) / array_scale(machine)
    array *= (1 + rates.fill_rows / min(rows / m, passes.tile_rows)) * (rates.split_k if division.k > 1 else 1)
    parts = (
        Part(Resource.MEMORY, _memory(kernel, division, passes, machine)),
        Part(Resource.CORE_STREAM, second),
        Part(Resource.CORE_STREAM, 0.0 if kernel.first_resident else first),
        Part(Resource.ARRAY, array),
    )
    sums = 2 * rows * kernel.n / (m * division.n) / (rates.partial_sums_gb_per_s * 1e3) if division.k > 1 else 0.0
    return Parts(parts, rates.overlap_power, rates.fixed_us, (Part(Resource.PARTIAL_SUMS, sums),) if sums else ())


def _passes(mt: float, nt: float, kt: float, k: int, rates: MatmulRates) -> _Passes:
    tile = rates.tile_rows
    if nt <= 128:
        tile = rates.narrowest_tile_rows if nt <= 64 and k == 1 else rates.narrow_tile_rows
    again = max(0.0, 1 - rates.kept_k / kt)
    return _Passes(1 + (ceil(nt / rates.tile_columns) - 1) * again, 1 + (ceil(mt / tile) - 1) * again, tile)


def _memory(kernel: Matmul, division: Division, passes: _Passes, machine: Machine) -> float:
    rates, cores, rows = machine.rates.matmul, division.cores, kernel.b * kernel.m
    first = 0 if kernel.first_resident else 2 * rows * kernel.k
    second = 0 if kernel.second_resident else 2 * kernel.k * kernel.n
    written = 0 if kernel.result_resident else 2 * rows * kernel.n
    read, once = first * passes.first + second * passes.second, first + second + written
    time = (read + written) / (rates.gb_per_s * 1e3) + rates.turnaround_us_per_mb * 1e-6 * min(read, written)
    if cores < 8:
        time = max(time, (read + written) / (rates.one_core_gb_per_s * 1e3 * cores))
    elif cores < machine.cores:
        seen = machine.rates.memory.few_cores_read_gb_per_s * (cores / 8) ** rates.few_cores_power
        time = max(time, once / (seen * 1e3))
    time *= 1 + _conflict(kernel, division, rates)
    if division.n & (division.n - 1) and division.m > 1:
        time = max(time, once / (rates.odd_columns_gb_per_s * 1e3))
    return time / memory_scale(machine)


def _conflict(kernel: Matmul, division: Division, rates: MatmulRates) -> float:
    """Many slices of the second operand at once: their streams meet in the same channels."""
    streams = division.n * division.k
    slice_bytes = 2 * kernel.k * kernel.n // streams
    share = 1 if slice_bytes & (slice_bytes - 1) == 0 else rates.streams_odd
    return share * (rates.streams_32 if streams >= 32 else rates.streams_16 if streams >= 16 else 0.0)


def _batched(kernel: Matmul, division: Division, machine: Machine) -> Parts:
    rates = machine.rates.batched
    first, second, written = (
        2 * kernel.b * size for size in (kernel.m * kernel.k, kernel.k * kernel.n, kernel.m * kernel.n)
    )
    run = 128 * kernel.b / division.b  # the batch is the innermost stick index, unless the layouts are plain
    short = (
        1 + (rates.short_run_bytes / run) ** rates.short_run_power
        if division.b > 1 and kernel.plain != (True, True)
        else 1.0
    )
    all_second = second
    first, second, written = (
        0 if resident else bytes_
        for resident, bytes_ in (
            (kernel.first_resident, first),
            (kernel.second_resident, second),
            (kernel.result_resident, written),
        )
    )
    memory = (first + second + written) * short / (machine.rates.memory.gb_per_s * 1e3)
    memory += rates.turnaround_us_per_mb * 1e-6 * min(first + second, written)
    near = machine.rates.resident.scratchpad_gb_per_s
    stream = all_second / (division.b * division.n * division.k)
    stream /= (near if kernel.second_resident else rates.second_gb_per_s) * 1e3
    mt, nt = kernel.m / division.m, kernel.n / division.n
    array = kernel.macs / division.cores / (rates.macs_per_ns * 1e3) / array_scale(machine)
    array *= rates.wide_columns if nt > 64 else 1
    array *= max(1.0, mt / 128) ** rates.rows_power * max(1.0, division.m / 8) ** rates.split_rows_power
    array *= rates.split_k if division.k > 1 else 1
    array *= rates.small_batch if 2 < kernel.b < 16 else 1
    array /= _plainness(kernel, rates)
    array /= {1: rates.one_batch, 2: rates.two_batches}.get(kernel.b, 1.0)
    parts = (
        Part(Resource.MEMORY, memory / memory_scale(machine)),
        Part(Resource.CORE_STREAM, stream),
        Part(Resource.ARRAY, array),
    )
    return Parts(parts, rates.overlap_power, rates.fixed_us)


def _plainness(kernel: Matmul, rates: BatchedRates) -> float:
    first, second = kernel.plain or (False, False)
    return (rates.first_plain if first else 1.0) * (rates.second_plain if second else 1.0)


def _unrecorded(kernel: Matmul, machine: Machine) -> Parts:
    """A batch whose layout and division nobody knows: its work at the rate seen on average."""
    rates = machine.rates.batched
    rate = rates.unknown_two_macs_per_ns if kernel.b == 2 else rates.unknown_macs_per_ns
    if kernel.plain is not None:
        rate = rates.interleaved_macs_per_ns * _plainness(kernel, rates)
    if kernel.shared:
        rate = rates.shared_macs_per_ns if kernel.b <= 4 else rates.shared_many_macs_per_ns
        if kernel.cores < machine.cores:
            rate = rates.shared_few_cores_macs_per_ns
    second = kernel.k * kernel.n * (1 if kernel.shared else kernel.b)
    read, written = 2 * (kernel.b * kernel.m * kernel.k + second), 2 * kernel.b * kernel.m * kernel.n
    memory = (read + written) / (machine.rates.memory.gb_per_s * 1e3) + rates.turnaround_us_per_mb * 1e-6 * min(
        read, written
    )
    array = kernel.macs / kernel.cores / (rate * 1e3) / array_scale(machine)
    parts = (Part(Resource.MEMORY, memory / memory_scale(machine)), Part(Resource.ARRAY, array))
    return Parts(parts, rates.overlap_power, rates.fixed_us)
