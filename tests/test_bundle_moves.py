"""Relayouts of any views, as bundles: what both readers make of the moves is what our own back end moves."""

import os

import numpy as np
import pytest
from bundle_bits import agrees

from openspyre.compiler import ir, pipeline
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout

COUNT = int(os.environ.get("OPENSPYRE_FUZZ_MOVES", "60"))
BLOCK = 20
SIZES, MOST_ELEMENTS = (2, 3, 5, 9, 30, 33, 64, 66, 70), 4000
DTYPES, HOW_OFTEN = ("float16", "float32", "bool", "int64"), (0.5, 0.3, 0.1, 0.1)


def buffer(name, size, lies, dtype, role):
    """`lies`: its dims from the outermost on; the last runs along the sticks, or none if that is -1."""
    layout = SpyreTensorLayout(list(size), list(row_major(size)), dtype, lies)
    return ir.Buffer(name, dtype, size, row_major(size), role, layout)


def move(sizes, read, written, here, there):
    """`read`, `written`: offset and strides."""
    dims = tuple(ir.Dim(f"d{number}", size) for number, size in enumerate(sizes))
    source, target = ir.Access("x", *read, here.dtype), ir.Access("y", *written, there.dtype)
    return ir.Program("p", (here, there), (ir.Op("r", "relayout", dims, (source,), (target,)),))


def side(name, sizes, dtype, role, random):
    """A buffer, and a view of it: dims in any order, from anywhere, with steps. What is read may be windows."""
    dims = [[int(d)] for d in random.permutation(len(sizes))]
    if role is ir.Role.INPUT and len(dims) > 1 and random.random() < 0.4:
        dims = [[*dims[0], *dims[1]], *dims[2:]]
    starts = [int(random.choice([0, 0, 1, 5])) for _ in dims]
    steps = {d: int(random.choice([1, 1, 2, 4])) for d in range(len(sizes))}
    reach = [sum(steps[d] * (sizes[d] - 1) for d in own) for own in dims]
    held = tuple(a + b + 1 + int(random.integers(0, 3)) for a, b in zip(starts, reach, strict=True))
    lies = [int(d) for d in random.permutation(len(held))] + ([-1] if random.random() < 0.35 else [])
    stride = row_major(held)
    by_dim = {d: steps[d] * step for own, step in zip(dims, stride, strict=True) for d in own}
    offset = sum(start * step for start, step in zip(starts, stride, strict=True))
    return buffer(name, held, lies, dtype, role), (offset, tuple(by_dim[d] for d in range(len(sizes))))


def drawn(seed):
    random = np.random.default_rng(seed)
    dtype = str(random.choice(DTYPES, p=HOW_OFTEN))
    sizes = tuple(int(size) for size in random.choice(SIZES, random.integers(1, 4)))
    while np.prod(sizes) > MOST_ELEMENTS:
        sizes = sizes[:-1]
    here, read = side("x", sizes, dtype, ir.Role.INPUT, random)
    there, written = side("y", sizes, dtype, ir.Role.UPDATE, random)
    return move(sizes, read, written, here, there)


def given(sizes, read, written, here, there, dtype="float16"):
    """Of a buffer: its size, and how it lies."""
    return move(
        sizes,
        read,
        written,
        buffer("x", *here, dtype, ir.Role.INPUT),
        buffer("y", *there, dtype, ir.Role.UPDATE),
    )


FAILED_ONCE = {
    # From window to window it is 4 rows, a window has 9: no gap says that.
    "windows of rows": given((5, 30, 9), (0, (128, 4, 1)), (0, (270, 9, 1)), ((5, 128), [1, 0, -1]), ((5, 30, 9), [1, 0, 2])),
    # 6 of 11 rows are left out behind 5, which are not padded.
    "more left out than walked": given((30, 5), (5, (1, 37)), (166, (1, 33)), ((5, 37), [1, 0, -1]), ((11, 33), [0, 1]), "float32"),
    # Neither reading of the gap is as long as the argument, of which it is a part in the middle.
    "rows in the middle": given((30, 70), (70, (2, 130)), (300, (2, 60)), ((140, 65), [0, 1]), ((77, 60), [0, 1, -1])),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILED_ONCE)
def test_moves_that_failed_once(name):
    agrees(pipeline.run(FAILED_ONCE[name], verify=True))


@pytest.mark.parametrize("first", range(0, COUNT, BLOCK))
def test_random_moves(first):
    for seed in range(first, min(first + BLOCK, COUNT)):
        try:
            agrees(pipeline.run(drawn(seed), verify=True))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {drawn(seed)}") from error
