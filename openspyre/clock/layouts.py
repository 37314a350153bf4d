"""Moves of elements to other places: restickify, concatenation, outer transposes, gathers, shuffles between scratchpads."""

from __future__ import annotations

from math import log2

from openspyre.clock.kernels import Gather, Layout, Move, Shuffle
from openspyre.clock.parts import Parts, memory_scale
from openspyre.clock.prediction import Part, Resource
from openspyre.spec.machine import Machine

_LARGE_CAT = 2e7  # bytes from which the size term counts


def layout_parts(kernel: Layout, machine: Machine) -> Parts:
    memory = kernel.bytes / (_gb_per_s(kernel, machine) * 1e3) / memory_scale(machine)
    fixed = 0.0 if kernel.move is Move.OUTER else machine.rates.layout.fixed_us
    return Parts((Part(Resource.MEMORY, memory),), 1.0, fixed)


def _gb_per_s(kernel: Layout, machine: Machine) -> float:
    rates = machine.rates.layout
    match kernel.move:
        case Move.RESTICKIFY:
            return rates.restickify_gb_per_s
        case Move.CAT_COLUMNS:
            slower: float = 1 + rates.cat_columns_size * max(0.0, log2(kernel.bytes / _LARGE_CAT))
            if kernel.runs.bytes:
                slower *= 1 + (rates.cat_columns_short_run_bytes / kernel.runs.bytes) ** 1.5
            return rates.cat_columns_gb_per_s / slower
        case Move.CAT_ROWS:
            few: float = rates.cat_rows_few_columns_gb_per_s * (1024 / kernel.columns) ** rates.cat_rows_columns_power
            tall: float = (2048 / kernel.rows) ** rates.cat_rows_rows_power
            return min(machine.rates.memory.gb_per_s, (rates.cat_rows_gb_per_s + few) * tall)
        case Move.OUTER:
            shallow: float = min(1.0, kernel.depth / 8) ** rates.outer_depth_power
            columns: float = (2048 / kernel.columns) ** rates.outer_columns_power
            rows: float = (2048 / kernel.rows) ** rates.outer_rows_power
            return rates.outer_gb_per_s * shallow * columns * rows


def gather_parts(kernel: Gather, machine: Machine) -> Parts:
    rates = machine.rates
    turned = min(kernel.read_bytes, kernel.written_bytes)
    memory = (kernel.read_bytes + kernel.written_bytes) / (rates.memory.gb_per_s * 1e3)
    memory += rates.copy.turnaround_us_per_mb * 1e-6 * turned
    stream = kernel.rows * rates.transfer.gather_ns_per_run * 1e-3 / kernel.cores
    parts = (Part(Resource.MEMORY, memory / memory_scale(machine)), Part(Resource.CORE_STREAM, stream))
    return Parts(parts, rates.copy.overlap_power, rates.layout.fixed_us)


def shuffle_parts(kernel: Shuffle, machine: Machine) -> Parts:
    rates = machine.rates.transfer
    per_run = max(0.0, -1.14 + rates.shuffle_run_ns * log2(max(2, kernel.split)))
    ring = kernel.runs * per_run * 1e-3 / kernel.cores + kernel.bytes / (rates.shuffle_span_gb_per_s * 1e3)
    return Parts((Part(Resource.RING, ring),), 1.0, 0.0)
