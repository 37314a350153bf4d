"""How far each class of kernels was off on shapes held out of the fit. `python -m bench.clock fit` prints the numbers anew."""

from __future__ import annotations

from openspyre.clock.prediction import Band, KernelClass

SMALL_US = 5.0  # below, launch effects rule and the profiler's microsecond shows: no class has been measured there

BANDS: dict[KernelClass, Band] = {
    KernelClass.POINTWISE: Band(0.01, 0.04, True),
    KernelClass.COPY: Band(0.02, 0.1, True),
    KernelClass.REDUCTION: Band(0.02, 0.05, True),
    KernelClass.SOFTMAX: Band(0.03, 0.1, True),
    KernelClass.CHAIN: Band(0.02, 0.07, True),
    KernelClass.LAYOUT: Band(0.04, 0.1, True),
    KernelClass.MATMUL: Band(0.05, 0.14, True),
    KernelClass.MATMUL_UNKNOWN: Band(0.04, 0.16, True),
    # Two shapes carry the formula: held out, nine of ten lie within 59 % (division told) and 91 % (not told).
    KernelClass.BATCHED: Band(0.25, 0.50, False),
    # Nobody has measured these alone; two machines differed by 2x on attention.
    KernelClass.NORM: Band(0.25, 0.50, False),
    KernelClass.GATHER: Band(0.30, 0.60, False),
    KernelClass.SHUFFLE: Band(0.30, 0.60, False),
    KernelClass.SMALL: Band(0.40, 0.80, False),
    KernelClass.EXTENSION: Band(0.50, 0.90, False),
    KernelClass.LAUNCH: Band(0.30, 0.60, False),
}
