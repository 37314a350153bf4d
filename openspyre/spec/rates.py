"""How fast a real card was seen to be: the constants of the clock, each with its unit, its evidence and the build it was seen on.

Times in us, rates in GB/s (1e3 bytes per us). Evidence: A, several independent series and a fit without the term is clearly
worse; B, fits well on few shapes; C, a fit whose mechanism nobody knows. `bench/clock/fit.py` finds the numbers again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import NamedTuple

SWEEP = "sweep 2026-08-07"  # builds differ by far more than the clock errs: a constant without its build says little
DIVISIONS = "divisions 2026-06"
DOCUMENTS = "documents 2026"


class Grade(StrEnum):
    A = "A"
    B = "B"
    C = "C"


class Evidence(NamedTuple):
    unit: str
    grade: Grade
    build: str
    says: str


class Constant(NamedTuple):
    """One constant, as tables show it."""

    group: str
    name: str
    value: float
    evidence: Evidence


def _seen(value: float, unit: str, grade: str, says: str, build: str = SWEEP) -> float:
    # A field with its evidence, typed as what it holds.
    found: float = field(default=value, metadata={"evidence": Evidence(unit, Grade(grade), build, says)})
    return found


@dataclass(frozen=True, slots=True)
class MemoryRates:
    """Device memory, whoever asks for it."""

    gb_per_s: float = _seen(150.0, "GB/s", "A", "one way, all cores, long runs")
    long_stride_bytes: float = _seen(
        262144.0, "B", "B", "distance between a core's runs from which on channels collide"
    )
    few_cores_read_gb_per_s: float = _seen(
        79.0, "GB/s", "C", "reductions and single-pass matmuls on 8 cores; pointwise kernels do not see it"
    )


@dataclass(frozen=True, slots=True)
class PointwiseRates:
    """Kernels of the vector unit: add, mul, neg, exp, gelu."""

    turnaround_us_per_mb: float = _seen(5.72, "us/MB", "A", "of min(read, written): the bus turns round")
    short_run_bytes: float = _seen(675.0, "B", "B", "two inputs: a run of so many bytes costs twice")
    short_run_power: float = _seen(2.76, "", "B", "how fast longer runs get better")
    long_stride: float = _seen(0.00467, "per doubling", "B", "beyond long_stride_bytes")
    size: float = _seen(0.00794, "per doubling", "C", "slower the more bytes, counted from 32 MB")
    few_cores: float = _seen(1.13, "factor", "C", "on 2 to 16 cores")
    one_core_gb_per_s: float = _seen(67.3, "GB/s", "B", "ceiling of one core")
    one_core_function_gb_per_s: float = _seen(52.1, "GB/s", "B", "the same for functions such as gelu")
    fixed_us: float = _seen(0.387, "us", "B", "per kernel")
    overlap_power: float = _seen(6.0, "", "C", "memory and core")


@dataclass(frozen=True, slots=True)
class CopyRates:
    """Copies, and one tensor with a broadcast one."""

    turnaround_us_per_mb: float = _seen(3.02, "us/MB", "A", "of min(read, written)")
    short_run_bytes: float = _seen(250.0, "B", "B", "a run of so many bytes costs twice")
    short_run_power: float = _seen(1.28, "", "B", "how fast longer runs get better")
    row_columns_power: float = _seen(0.528, "", "C", "x + b[1, C]: short runs cost more the more columns there are")
    long_stride: float = _seen(0.0472, "per doubling", "B", "copies and x + b[R, 1]")
    row_long_stride: float = _seen(0.00736, "per doubling", "B", "x + b[1, C]")
    size: float = _seen(0.00558, "per doubling", "C", "copies and x + b[R, 1]: counted from 32 MB")
    row_size: float = _seen(0.0215, "per doubling", "C", "x + b[1, C]: counted from 32 MB")
    page_conflict: float = _seen(0.289, "factor", "C", "copies and x + b[R, 1] in runs of 2 to 4 KB")
    few_cores: float = _seen(1.09, "factor", "C", "on 2 to 16 cores")
    one_core_copy_gb_per_s: float = _seen(41.4, "GB/s", "B", "ceiling of one core")
    one_core_gb_per_s: float = _seen(110.0, "GB/s", "B", "the same for broadcasts")
    fixed_us: float = _seen(1.1, "us", "B", "per kernel")
    overlap_power: float = _seen(6.0, "", "C", "memory and core")


@dataclass(frozen=True, slots=True)
class ReductionRates:
    """sum, max, mean along the sticks; column sums."""

    gb_per_s: float = _seen(155.0, "GB/s", "A", "reading only")
    long_stride: float = _seen(
        0.123, "per doubling", "A", "beyond long_stride_bytes: 152, 130, 122, 112 GB/s at 2048 to 16384 rows"
    )
    turnaround_us_per_mb: float = _seen(1.6, "us/MB", "C", "of what is written, a stick per row")
    core_ns_per_stick: float = _seen(7.79, "ns", "B", "one core reads and folds")
    core_long_stride: float = _seen(0.15, "per doubling", "C", "the same beyond 4096 rows")
    fixed_us: float = _seen(2.59, "us", "B", "per kernel")
    overlap_power: float = _seen(6.0, "", "C", "memory and core")
    columns_gb_per_s: float = _seen(118.0, "GB/s", "B", "sums over rows, whole or in tiles of columns")
    columns_fixed_us: float = _seen(0.754, "us", "C", "per kernel, sums over rows")
    tile_us: float = _seen(1.22, "us", "C", "each tile of several, partial sums in scratchpads")
    spilled_tile_us: float = _seen(1.8, "us", "C", "each tile of several, partial sums through memory")
    spilled_tiles: float = _seen(3.04, "factor", "C", "tiles whose partial sums go through memory")


@dataclass(frozen=True, slots=True)
class ResidentRates:
    """Chains of row ops whose rows stay in scratchpads: softmax."""

    gb_per_s: float = _seen(132.4, "GB/s", "B", "rows in and out, all cores")
    large_tiles: float = _seen(0.207, "factor", "C", "tiles of 512 KB per core and more; nothing at 128 KB")
    short_run_bytes: float = _seen(132.0, "B", "B", "a run of so many bytes costs twice")
    few_cores: float = _seen(0.663, "factor", "C", "of gb_per_s, on 4 to 16 cores")
    core_gb_per_s: float = _seen(80.0, "GB/s", "C", "of each of 1 to 3 cores")
    core_ns_per_stick: float = _seen(22.3, "ns", "B", "max, sub, exp, sum, realdiv on one core")
    overlap_power: float = _seen(2.1, "", "B", "memory and core")
    fixed_us: float = _seen(3.47, "us", "B", "per kernel")
    tile_us: float = _seen(2.67, "us", "B", "each further tile")
    capacity_bytes: float = _seen(1.64e6, "B", "A", "a core's rows that still fit")
    spilled_gb_per_s: float = _seen(107.0, "GB/s", "B", "all eight passes through memory")
    spilled_tiles: float = _seen(1.48, "factor", "C", "the same in tiles")
    scratchpad_gb_per_s: float = _seen(140.0, "GB/s", "B", "128 B a cycle and core at 1.1 GHz", DOCUMENTS)
    reduction_ns_per_stick: float = _seen(7.5, "ns", "B", "max or sum of rows in a scratchpad")
    fixed_share: float = _seen(0.5, "", "C", "of a kernel's fixed time, inside of a chain")


@dataclass(frozen=True, slots=True)
class ChainRates:
    """Several adds in a row."""

    two_ops: float = _seen(1.09, "factor", "C", "through memory, reading what was just written")
    more_ops: float = _seen(1.16, "factor", "C", "the same, three ops and more")
    reader: float = _seen(1.2, "factor", "C", "one op of a longer chain that reads from memory what was just written")
    separate: float = _seen(1.08, "factor", "C", "three ops as kernels of their own")
    short_runs: float = _seen(1.12, "factor", "C", "three ops and more in runs below short_run_bytes")
    short_run_bytes: float = _seen(4096.0, "B", "C", "see short_runs")
    resident: float = _seen(1.07, "factor", "B", "intermediates in scratchpads")
    resident_bytes: float = _seen(1.587e6, "B", "A", "a core's tile that still stays there")


@dataclass(frozen=True, slots=True)
class LayoutRates:
    """Restickify, concatenation, outer transposes."""

    restickify_gb_per_s: float = _seen(116.0, "GB/s", "A", "rows to columns")
    fixed_us: float = _seen(1.06, "us", "B", "per kernel")
    cat_columns_gb_per_s: float = _seen(114.0, "GB/s", "B", "side by side")
    cat_columns_size: float = _seen(0.0293, "per doubling", "C", "beyond 20 MB")
    cat_columns_short_run_bytes: float = _seen(487.0, "B", "B", "a run of so many bytes costs twice")
    cat_rows_gb_per_s: float = _seen(45.6, "GB/s", "C", "one below the other, many columns")
    cat_rows_few_columns_gb_per_s: float = _seen(38.4, "GB/s", "C", "more at 1024 columns")
    cat_rows_columns_power: float = _seen(0.948, "", "C", "of 1024 / columns")
    cat_rows_rows_power: float = _seen(0.0685, "", "C", "of 2048 / rows")
    outer_gb_per_s: float = _seen(91.2, "GB/s", "C", "[R, D, C] to [D, R, C], D = 8")
    outer_depth_power: float = _seen(0.236, "", "C", "of D / 8 below 8: the result comes in runs of D sticks")
    outer_columns_power: float = _seen(0.0695, "", "C", "of 2048 / C")
    outer_rows_power: float = _seen(0.0215, "", "C", "of 2048 / R")


@dataclass(frozen=True, slots=True)
class MatmulRates:
    """One product of two matrices."""

    gb_per_s: float = _seen(157.0, "GB/s", "A", "all cores", DIVISIONS)
    turnaround_us_per_mb: float = _seen(6.08, "us/MB", "A", "of min(read, written)", DIVISIONS)
    tile_rows: float = _seen(128.0, "rows", "A", "of the first operand per pass over the second", DIVISIONS)
    narrow_tile_rows: float = _seen(256.0, "rows", "A", "with at most 128 columns per core", DIVISIONS)
    narrowest_tile_rows: float = _seen(512.0, "rows", "C", "with at most 64 columns per core and K whole")
    tile_columns: float = _seen(256.0, "columns", "C", "of the second operand per pass over the first", DIVISIONS)
    kept_k: float = _seen(35.9, "rows", "C", "of a core's slice of K that a further pass does not read again")
    one_core_gb_per_s: float = _seen(45.0, "GB/s", "C", "of each of 1 to 7 cores")
    few_cores_power: float = _seen(0.304, "", "C", "few_cores_read_gb_per_s grows so with cores / 8, up to all of them")
    streams_32: float = _seen(0.197, "factor", "B", "32 slices of the second operand at once", DIVISIONS)
    streams_16: float = _seen(0.0439, "factor", "B", "16 of them", DIVISIONS)
    streams_odd: float = _seen(0.423, "", "C", "of that, if slices are no power of two bytes", DIVISIONS)
    odd_columns_gb_per_s: float = _seen(53.8, "GB/s", "C", "n no power of two and m > 1: two shapes", DIVISIONS)
    stream_gb_per_s: float = _seen(
        43.7, "GB/s", "A", "an operand into one core; seen on the second, taken for the first", DIVISIONS
    )
    whole_columns: float = _seen(0.881, "factor", "C", "of that, with n = 1 and K split", DIVISIONS)
    macs_per_ns: float = _seen(1126.4, "MAC/ns", "B", "of a core: 1024 at 1.1 GHz")
    fill_rows: float = _seen(10.5, "rows", "B", "to fill the array, per tile")
    split_k: float = _seen(1.99, "factor", "B", "on the array's work when K is split", DIVISIONS)
    partial_sums_gb_per_s: float = _seen(47.0, "GB/s", "C", "a core's block of results, when K is split", DIVISIONS)
    overlap_power: float = _seen(7.05, "", "B", "memory, array and the cores' streams", DIVISIONS)
    fixed_us: float = _seen(1.0, "us", "B", "per kernel")


@dataclass(frozen=True, slots=True)
class BatchedRates:
    """Products of many pairs of matrices. Two shapes carry most of it: not for absolute times."""

    short_run_bytes: float = _seen(
        321.0, "B", "B", "the batch is the innermost stick index: runs of so many bytes cost twice", DIVISIONS
    )
    short_run_power: float = _seen(1.76, "", "C", "how fast longer runs get better", DIVISIONS)
    turnaround_us_per_mb: float = _seen(5.74, "us/MB", "A", "of min(read, written)", DIVISIONS)
    second_gb_per_s: float = _seen(24.0, "GB/s", "C", "the second operand into one core", DIVISIONS)
    macs_per_ns: float = _seen(86.0, "MAC/ns", "C", "of a core, default layout", DIVISIONS)
    wide_columns: float = _seen(1.48, "factor", "C", "more than 64 columns per core", DIVISIONS)
    rows_power: float = _seen(0.24, "", "C", "of rows per core / 128 above 128", DIVISIONS)
    split_k: float = _seen(1.19, "factor", "C", "K split", DIVISIONS)
    split_rows_power: float = _seen(0.2, "", "C", "of m / 8 above 8", DIVISIONS)
    two_batches: float = _seen(2.75, "factor", "C", "less for a batch of 2")
    one_batch: float = _seen(8.39, "factor", "C", "less for a batch of 1 in three dims")
    small_batch: float = _seen(0.69, "factor", "C", "batches below 16: less than what the large ones say")
    overlap_power: float = _seen(6.7, "", "C", "memory, array and the cores' streams", DIVISIONS)
    fixed_us: float = _seen(1.0, "us", "C", "per kernel")
    unknown_macs_per_ns: float = _seen(203.0, "MAC/ns", "C", "of a core, layout and division not recorded")
    unknown_two_macs_per_ns: float = _seen(277.0, "MAC/ns", "C", "the same for a batch of 2")
    interleaved_macs_per_ns: float = _seen(
        111.0, "MAC/ns", "C", "of a core, default layout, division not recorded: one shape"
    )
    first_plain: float = _seen(
        2.3, "factor", "C", "more, if matrices of the first operand lie one behind the other: one shape"
    )
    second_plain: float = _seen(1.89, "factor", "C", "the same of the second operand: one shape")
    shared_macs_per_ns: float = _seen(470.0, "MAC/ns", "C", "of a core, one second operand for a batch up to 4")
    shared_many_macs_per_ns: float = _seen(358.0, "MAC/ns", "C", "the same for larger batches")
    shared_few_cores_macs_per_ns: float = _seen(287.0, "MAC/ns", "C", "the same on fewer than 32 cores")


@dataclass(frozen=True, slots=True)
class TransferRates:
    """What is not a kernel: launches, DMA, rings, the CPU."""

    launch_us: float = _seen(2900.0, "us", "B", "a call of the 2026 runtime, on the host", DOCUMENTS)
    to_card_share: float = _seen(0.94, "", "B", "of the link's peak: 59 to 62 GB/s for 38 to 110 MB", DIVISIONS)
    from_card_share: float = _seen(
        0.62, "", "B", "of the link's peak: 40 GB/s for 4 and 13 MB, the kernel's time taken off", DIVISIONS
    )
    host_link_fixed_us: float = _seen(2.0, "us", "C", "per transfer", DIVISIONS)
    cpu_gb_per_s: float = _seen(10.0, "GB/s", "C", "an op on the CPU, by bytes read and written: a guess", DOCUMENTS)
    ring_gb_per_s: float = _seen(166.4, "GB/s", "B", "per direction: 128 B at 1.3 GHz", DOCUMENTS)
    shuffle_span_gb_per_s: float = _seen(547.0, "GB/s", "C", "relayout between scratchpads, all cores", DOCUMENTS)
    shuffle_run_ns: float = _seen(3.92, "ns", "C", "per run and doubling of the split, less 1.14 ns per run", DOCUMENTS)
    gather_ns_per_run: float = _seen(
        7.5, "ns", "C", "a row chosen by an index: as a read of a stick that nothing foretells"
    )


@dataclass(frozen=True, slots=True)
class Rates:
    """All constants of the clock."""

    memory: MemoryRates = MemoryRates()
    pointwise: PointwiseRates = PointwiseRates()
    copy: CopyRates = CopyRates()
    reduction: ReductionRates = ReductionRates()
    resident: ResidentRates = ResidentRates()
    chain: ChainRates = ChainRates()
    layout: LayoutRates = LayoutRates()
    matmul: MatmulRates = MatmulRates()
    batched: BatchedRates = BatchedRates()
    transfer: TransferRates = TransferRates()

    def constants(self) -> Iterator[Constant]:
        """Every constant with its group and evidence, in the order of the text."""
        for group in fields(self):
            held = getattr(self, group.name)
            for each in fields(held):
                yield Constant(group.name, each.name, getattr(held, each.name), each.metadata["evidence"])
