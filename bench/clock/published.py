"""Formulas others have published, as they stand: the planner of June and August 2026, the runtime model, the study's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, exp, inf, log2, sqrt

from openspyre.clock.kernels import (
    Chain,
    Division,
    Form,
    Kernel,
    Layout,
    Matmul,
    Move,
    Pointwise,
    Reduction,
    Runs,
    Softmax,
)


def divisors(number: int, limit: int) -> list[int]:
    return [d for d in range(1, min(number, limit) + 1) if number % d == 0]


def default_split(rows: int, sticks: int, cores: int) -> tuple[int, int]:
    """Rows and sticks of a row over cores: the larger first, rows on a tie, by the largest divisor that fits."""
    if sticks > rows:
        by_sticks = divisors(sticks, cores)[-1]
        return divisors(rows, cores // by_sticks)[-1], by_sticks
    by_rows = divisors(rows, cores)[-1]
    return by_rows, divisors(sticks, cores // by_rows)[-1]


def june_cost(m: int, n: int, k: int, division: Division) -> float:
    """The planner's cost of one product in us, as of June 2026: the build that the sweep ran on."""
    passes = max(1.0, m // division.m / 8)
    compute = m * n * k / division.cores / (1.536e6 * min(1.0, sqrt(passes / 8)))
    memory = 2 * (m * k + k * n + m * n) / 204800 * max(1.0, max(division.m, division.n) / 8)
    return compute + memory + (division.k - 1) * m * n * 1.4e-4 + (0 if passes >= 8 else 50 * log2(8 / passes))


def august_cost(b: int, m: int, n: int, k: int, division: Division, shared: bool, cores: int) -> float:
    """The same as of August 2026; `shared`: one second operand for all of the batch."""
    used, mt, nt = division.cores, m // division.m, n / division.n
    if used > cores:
        return inf
    compute = b * m * n * k / used / (1.536e6 * min(1.0, (max(1.0, mt / 8) / 5) ** 0.25))
    fan = max(division.m, division.n) if shared else division.n
    memory = 2 * (b * m * k + (1 if shared else b) * k * n + b * m * n) / 204800 * max(1.0, (fan / 8) ** 0.75)
    sums = (division.k - 1) * (b * m * n / (division.b * division.m * division.n)) * (1e-3 if shared else 1e-4)
    target = max(4, min(cores // 2, max(1, m // 32)))
    cost = compute + memory + sums + 10 * max(0.0, log2(target / division.m)) + 30 * max(0.0, log2(16 / mt))
    cost += 25 * max(0.0, log2(nt / 512)) + 150 * max(0.0, log2(cores / used))
    tall = max(0.0, log2(k / n))
    if shared:
        cost += 5 * max(0.0, log2(4096 / n)) * max(0.0, log2(nt / 128)) if mt >= 16 else 0.0
        return cost + (10 * tall * log2(division.n) if division.n > 1 else 0.0)
    cost += 20 * tall * log2(division.n) if division.n > 1 and mt >= 16 else 0.0
    return cost + 10 * log2(division.b)


def divisions(b: int, m: int, n_sticks: int, k_sticks: int, cores: int) -> Iterator[Division]:
    for db in divisors(b, cores):
        for dm in divisors(m, cores // db):
            for dn in divisors(n_sticks, cores // (db * dm)):
                for dk in divisors(k_sticks, cores // (db * dm * dn)):
                    yield Division(db, dm, dn, dk)


def june_division(m: int, n: int, k: int, cores: int) -> Division:
    """What the planner of the sweep's build chose; where it declined, columns were divided first."""
    n_sticks, k_sticks = ceil(n / 64), ceil(k / 64)
    best = min(divisions(1, m, n_sticks, k_sticks, cores), key=lambda d: june_cost(m, 64 * n_sticks, 64 * k_sticks, d))
    by_columns = divisors(n_sticks, cores)[-1]
    by_rows = divisors(m, cores // by_columns)[-1]
    if best.cores < by_columns * by_rows:
        return Division(1, by_rows, by_columns, 1)
    return best


def august_division(b: int, m: int, n: int, k: int, cores: int, shared: bool) -> Division:
    n_sticks, k_sticks = ceil(n / 64), ceil(k / 64)
    found = divisions(b, m, n_sticks, k_sticks, cores)
    return min(found, key=lambda d: august_cost(b, m, 64 * n_sticks, 64 * k_sticks, d, shared, cores))


def planner_us(kernel: Kernel) -> float | None:
    """The reference planner's own cost, taken for a time. It knows products alone."""
    if not isinstance(kernel, Matmul):
        return None
    division = kernel.division or august_division(kernel.b, kernel.m, kernel.n, kernel.k, kernel.cores, kernel.shared)
    shared = kernel.shared or kernel.b == 1
    return august_cost(kernel.b, kernel.m, kernel.n, kernel.k, division, shared, max(kernel.cores, division.cores))


def runtime_model_us(kernel: Kernel) -> float | None:
    """The reference's whole-program model (report only): bytes at 150 GB/s with turnaround, MACs at 1140 per ns and core."""
    match kernel:
        case Pointwise() | Chain():
            return _runtime_pointwise(kernel)
        case Reduction(over_rows=True):
            return (kernel.read_bytes + kernel.written_bytes) / 113e3
        case Reduction():
            derate = {1: 0.11, 2: 0.22, 4: 0.43, 8: 0.54, 16: 0.54}.get(kernel.cores, 1.0)
            return (
                (kernel.read_bytes + kernel.written_bytes)
                / 1e3
                / min(150, 114 + 61 * exp(-kernel.rows / 3700))
                / derate
            )
        case Softmax():
            moved = kernel.bytes
            return 2 * moved / 150e3 + 5.74e-6 * moved
        case Layout(move=Move.RESTICKIFY):
            return kernel.bytes / 116e3
        case Layout(move=Move.CAT_ROWS):
            return kernel.bytes / 1e3 / max(44.0, 144 - 9.6 * log2(kernel.columns / 64) - 2.4 * log2(kernel.rows))
        case Layout():
            return kernel.bytes / 150e3 + 5.74e-6 * kernel.bytes / 2
        case Matmul():
            return _runtime_matmul(kernel)
    return None


def _runtime_pointwise(kernel: Pointwise | Chain) -> float:
    if isinstance(kernel, Chain):
        reads, writes = 2 * kernel.ops * kernel.tensor_bytes, kernel.ops * kernel.tensor_bytes
        if kernel.resident and kernel.tensor_bytes / kernel.cores <= 1.587e6:
            reads, writes = (kernel.ops + 1) * kernel.tensor_bytes, kernel.tensor_bytes
        return (reads + writes) / 150e3 + 5.74e-6 * min(reads, writes)
    moved = kernel.read_bytes + kernel.written_bytes
    if kernel.form in (Form.ALONG_COLUMNS, Form.ALONG_ROWS):
        return moved / 118e3
    return moved / 150e3 + 5.74e-6 * min(kernel.read_bytes, kernel.written_bytes)


def _runtime_matmul(kernel: Matmul) -> float:
    if kernel.b > 1 and kernel.shared:
        return kernel.macs / kernel.cores / (705e3 if kernel.b <= 4 else 470e3)
    if kernel.b > 1:
        return kernel.macs / kernel.cores / 160e3
    division = kernel.division or Division(1, kernel.cores)
    rows = kernel.m / division.m
    read, written = 2 * (kernel.m * kernel.k + kernel.k * kernel.n), 2 * kernel.m * kernel.n
    area = rows * kernel.n / division.n
    read = int(read * (1 + (min(1.5, 0.45 * log2(area / 65536)) if area > 65536 else 0)))
    compute = kernel.macs / kernel.cores / (1140e3 * min(1.0, (rows / 64) ** 0.35))
    return max(compute, (read + written) / 150e3 + 5.74e-6 * min(read, written))


def study_us(kernel: Kernel) -> float | None:
    """The formulas of the study that the clock began with, with its constants."""
    match kernel:
        case Pointwise():
            return _study_pointwise(kernel)
        case Chain():
            return _study_chain(kernel)
        case Reduction():
            return _study_reduction(kernel)
        case Softmax():
            return _study_softmax(kernel)
        case Layout():
            return _study_layout(kernel)
        case Matmul():
            return _study_matmul(kernel)
    return None


def _norm(times: list[float], power: float) -> float:
    longest = max(times)
    return longest * sum((time / longest) ** power for time in times) ** (1 / power)


def _short(first: float, runs: Runs, power: float) -> float:
    return 1 + (first / runs.bytes) ** power if runs.bytes else 1.0


def _study_pointwise(kernel: Pointwise) -> float:
    moved, turned = kernel.read_bytes + kernel.written_bytes, min(kernel.read_bytes, kernel.written_bytes)
    few = 2 <= kernel.cores <= 16
    if kernel.form in (Form.COPY, Form.ALONG_COLUMNS, Form.ALONG_ROWS):
        time = (moved / 150e3 + 2.9e-6 * turned) * (1 + 0.026 * log2(moved / 32e6)) * _short(250, kernel.runs, 1.1)
        ceiling = 42e3 if kernel.form is Form.COPY else 110e3
        return _norm([time * (1.07 if few else 1), moved / (ceiling * kernel.cores)], 6)
    time = moved / 150e3 + 5.77e-6 * turned
    if kernel.form is Form.BINARY:
        time *= _short(390, kernel.runs, 1.5)
    ceiling = 52e3 if kernel.form is Form.FUNCTION else 68e3
    return _norm([time * (1.14 if few else 1), moved / (ceiling * kernel.cores)], 6)


def _study_chain(kernel: Chain) -> float:
    tensor = kernel.tensor_bytes
    if kernel.resident and tensor / kernel.cores <= 1.587e6:
        reads = (kernel.ops + 1) * tensor
        return ((reads + tensor) / 150e3 + 5.77e-6 * tensor) * 1.06
    one = _study_pointwise(Pointwise(Form.BINARY, 2 * tensor, tensor, kernel.cores, kernel.runs))
    gentle = kernel.ops == 2 or (kernel.separate and kernel.ops == 3)
    factor = 1.0 if kernel.ops == 1 else 1.06 if gentle else 1.16
    return one * kernel.ops * factor * (1.08 if not gentle and 0 < kernel.runs.bytes < 4096 else 1)


def _study_reduction(kernel: Reduction) -> float:
    moved = kernel.read_bytes + kernel.written_bytes
    if kernel.over_rows:
        if kernel.tiles > 1:
            return moved / 118e3 * (3 if kernel.spilled else 1) + 0.8 + (1.7 if kernel.spilled else 1.2) * kernel.tiles
        return moved / 113e3
    core = (kernel.sticks * 7.6e-3 + kernel.rows * 43e-3) / kernel.cores
    if kernel.cores >= 32:
        return _norm([moved / 1e3 / min(152, 114 + 62.7 * exp(-kernel.rows / 4125)), core], 6) + 2.8
    return _norm([moved / 79e3, core], 4) + 2.8


def _study_softmax(kernel: Softmax) -> float:
    tensor, cores = kernel.bytes, kernel.cores
    per, core = tensor / kernel.tiles / cores, tensor / 128 * 22.1e-3 / cores
    if per > 1.64e6:
        return 8 * tensor / 108e3 * (1.49 if kernel.tiles > 1 else 1) + (core if cores < 4 else 0)
    memory = (
        2 * tensor / 133.6e3 * (1 + 0.213 * min(1.0, max(0.0, log2(per / 131072) / 2))) * _short(133, kernel.runs, 1.5)
    )
    if cores < 4:
        memory = 2 * tensor / (80e3 * cores)
    elif cores <= 16:
        memory /= 0.665
    return _norm([memory, core], 2) + 3.5 + 2.7 * (kernel.tiles - 1)


def _study_layout(kernel: Layout) -> float:
    match kernel.move:
        case Move.RESTICKIFY:
            return kernel.bytes / 116.5e3 + 1.5
        case Move.CAT_COLUMNS:
            size = 1 + 0.03 * max(0.0, log2(kernel.bytes / 2e7))
            return kernel.bytes / 114.3e3 * size * _short(480, kernel.runs, 1.5) + 1.5
        case Move.CAT_ROWS:
            return (
                kernel.bytes / 1e3 / ((47.3 + 36.1 * (1024 / kernel.columns) ** 1.05) * (kernel.rows / 2048) ** -0.064)
                + 1.5
            )
        case Move.OUTER:
            shape = (
                min(1.0, kernel.depth / 8) ** 0.236 * (kernel.columns / 2048) ** -0.064 * (kernel.rows / 2048) ** -0.021
            )
            return kernel.bytes / 1e3 / (91.4 * shape)


def _study_matmul(kernel: Matmul) -> float:
    if kernel.b > 1 and (kernel.division is None or kernel.shared):
        return _runtime_matmul(kernel)  # "with an unrecorded layout or division the plain rate is the better guess"
    division = kernel.division or Division(1, kernel.cores)
    if kernel.batched:
        return _study_batched(kernel, division)
    m, n, k, (dm, dn, dk) = kernel.m, kernel.n, kernel.k, (division.m, division.n, division.k)
    mt, nt, cores = m / dm, n / dn, division.cores
    tile = 256 if nt <= 128 else 128
    second, first = (1, 1) if dk == 1 and k <= 128 else (ceil(mt / tile), ceil(nt / 256))
    read, written = 2 * m * k * first + 2 * k * n * second, 2 * m * n
    memory = (read + written) / 156e3 + 6.8e-6 * min(read, written)
    memory = (
        memory / 0.875 if 8 <= cores < 32 else max(memory, (read + written) / (45e3 * cores)) if cores < 8 else memory
    )
    piece = 2 * k * n // (dn * dk)
    share = 1 if piece & (piece - 1) == 0 else 0.35
    memory *= 1 + share * (0.15 if dn * dk >= 32 else 0.045 if dn * dk >= 16 else 0)
    if dn & (dn - 1) and dm > 1:
        memory = max(memory, 2 * (m * k + k * n + m * n) / 53.8e3)
    stream = 2 * k * n / (dn * dk) * second / 45e3 / (0.85 if dn == 1 and dk > 1 else 1)
    array = m * n * k / cores / 1126e3 * (1 + 10.3 / min(mt, tile)) * (2.03 if dk > 1 else 1)
    sums = 2 * m * n / (dm * dn) / 102e3 * log2(dk) if dk > 1 else 0
    return _norm([memory, stream, array, 2 * m * k * first / (dm * dk) / 36e3], 8.7) + sums + 1


def _study_batched(kernel: Matmul, division: Division) -> float:
    b, m, n, k = kernel.b, kernel.m, kernel.n, kernel.k
    short = 1 + (321 / (128 * b / division.b)) ** 1.76 if division.b > 1 else 1
    first, second, written = 2 * b * m * k, 2 * b * k * n, 2 * b * m * n
    memory = (first + second + written) * short / 150e3 + 5.74e-6 * min(first + second, written)
    array = (
        kernel.macs
        / division.cores
        / 86e3
        * (1.48 if n / division.n > 64 else 1)
        * max(1, m / division.m / 128) ** 0.24
    )
    array *= (1.19 if division.k > 1 else 1) * max(1, division.m / 8) ** 0.2
    array /= {1: 8.0, 2: 2.45}.get(b, 1.0)
    return _norm([memory, second / (division.b * division.n * division.k) / 24e3, array], 6.7) + 1


PUBLISHED: dict[str, Callable[[Kernel], float | None]] = {
    "study": study_us,
    "runtime model": runtime_model_us,
    "planner": planner_us,
}
