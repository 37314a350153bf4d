"""Emitting a bundle: from a lowered program to the files of its directory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.registry import ONE, case
from bench.timing import Effort, Measurement, summarize
from openspyre.artifact import write_launch
from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.spec.layout import SpyreTensorLayout

PAIRS, WIDTH = 100, 256  # a product and a sum each: 200 ops


def _chain() -> Program:
    """x = x + x @ w, with another w each time."""
    size, stride = (WIDTH, WIDTH), (WIDTH, 1)
    laid = SpyreTensorLayout([WIDTH, WIDTH], "float16")
    buffers = [Buffer("x0", "float16", size, stride, Role.INPUT, laid)]
    ops: list[Op] = []
    for place in range(PAIRS):
        x, w, product, out = f"x{place}", f"w{place}", f"p{place}", f"x{place + 1}"
        role = Role.OUTPUT if place == PAIRS - 1 else Role.TEMP
        buffers += [Buffer(w, "float16", size, stride, Role.INPUT, laid)]
        buffers += [Buffer(product, "float16", size, stride, Role.TEMP), Buffer(out, "float16", size, stride, role)]
        dims = (Dim("m", WIDTH), Dim("n", WIDTH), Dim("k", WIDTH, reduced=True))
        factors = (Access(x, 0, (WIDTH, 0, 1), "float16"), Access(w, 0, (0, 1, WIDTH), "float16"))
        ops.append(Op(f"mm{place}", "batchmatmul", dims, factors, (Access(product, 0, (WIDTH, 1, 0), "float16"),)))
        terms = (Access(x, 0, stride, "float16"), Access(product, 0, stride, "float16"))
        ops.append(Op(f"add{place}", "add", dims[:2], terms, (Access(out, 0, stride, "float16"),)))
    return Program("chain", tuple(buffers), tuple(ops))


@case("bundle of a 200-op graph", asked=0.5, unit="s", baseline="-", threads=ONE)
def emit_and_write(effort: Effort) -> Measurement:
    lowered = pipeline.run(_chain())
    assert len(lowered.ops) == 2 * PAIRS
    seconds = []
    for _ in range(effort.least_rounds):
        with tempfile.TemporaryDirectory() as directory:
            start = time.perf_counter()
            write_launch(emit_bundle(lowered), Path(directory) / "bundle")
            seconds.append(time.perf_counter() - start)
    return summarize(seconds)
