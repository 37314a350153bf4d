"""Reductions and contractions in float32, in the order that the numerics contract fixes."""

from collections.abc import Callable

import numpy as np

from .errors import BundleError
from .sdsc import Operation

LANES = 64
Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]

IDENTITIES: dict[str, tuple[Combine, float]] = {
    "sum": (np.add, 0.0),
    "mean": (np.add, 0.0),
    "prod": (np.multiply, 1.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}


def fold(operation: Operation, values: np.ndarray, combine: Combine, identity: float) -> np.ndarray:
    """All cores' values reduced over the dims the result lacks, which stay as axes of length 1."""
    reduced = operation.reduced
    if values.dtype.kind == "i":  # no integer is infinite
        identity = int(np.clip(identity, -(2.0**62), 2.0**62))
    values = _stretch(operation, values, reduced)
    (stick,) = operation.inputs[0].sticks
    over = [operation.axis(dim) for dim in reduced if dim != stick]
    if stick in reduced:
        values = _into_lanes(values, operation.axis(stick), identity)
        over.append(operation.axis(stick))
    else:
        values = values[..., np.newaxis]
    steps = np.moveaxis(values, over, range(len(over)))
    steps = steps.reshape(-1, *steps.shape[len(over) :])
    total = np.full(steps.shape[1:], identity, dtype=steps.dtype)
    for step in steps:
        total = combine(total, step)
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = combine(total[..., :half], total[..., half:])
    total = np.expand_dims(total[..., 0], sorted(over))
    return across_cores(operation, total, combine)


def _into_lanes(values: np.ndarray, axis: int, identity: float) -> np.ndarray:
    """Element r of the stick dim to lane r mod 64: lanes are a last axis of their own."""
    length = values.shape[axis]
    pads = [(0, 0)] * values.ndim
    pads[axis] = (0, -length % LANES)
    values = np.pad(values, pads, constant_values=identity)
    shape = (*values.shape[:axis], -1, LANES, *values.shape[axis + 1 :])
    return np.moveaxis(values.reshape(shape), axis + 1, -1)


def across_cores(operation: Operation, partial: np.ndarray, combine: Combine) -> np.ndarray:
    """The parts of cores that share a place in the result, combined by ascending slice; each core gets the whole."""
    cores = sorted(operation.slices)
    kept = [dim for dim in operation.dims if dim not in operation.reduced]
    groups: dict[tuple[int, ...], list[int]] = {}
    for row in sorted(
        range(len(cores)), key=lambda r: [operation.slices[cores[r]].get(d, 0) for d in operation.reduced]
    ):
        groups.setdefault(tuple(operation.slices[cores[row]].get(d, 0) for d in kept), []).append(row)
    whole = np.empty_like(partial)
    for rows in groups.values():
        total = partial[rows[0]]
        for row in rows[1:]:
            total = combine(total, partial[row])
        whole[rows] = total
    return whole


def contract(operation: Operation, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """acc = fma(a, b, acc), k ascending; which dims are k follows from which tensors hold them, not from names."""
    over = [operation.axis(dim) for dim in operation.reduced]
    left, right = (_steps(operation, values, over) for values in (left, right))
    accumulate = _accumulate_exact if _exact_products(operation) else _accumulate_fused
    total = np.zeros(np.broadcast_shapes(left.shape[1:], right.shape[1:]), dtype=np.float32)
    for a, b in zip(left, right, strict=True):
        total = accumulate(total, a, b)
    return across_cores(operation, np.expand_dims(total, sorted(over)), np.add)


def _steps(operation: Operation, values: np.ndarray, over: list[int]) -> np.ndarray:
    steps = np.moveaxis(_stretch(operation, values, operation.reduced), over, range(len(over)))
    return np.ascontiguousarray(steps.reshape(-1, *steps.shape[len(over) :]))


def _stretch(operation: Operation, values: np.ndarray, dims: tuple[str, ...]) -> np.ndarray:
    """A reduced dim that an input only broadcasts is walked all the same."""
    shape = list(values.shape)
    for dim in dims:
        shape[operation.axis(dim)] = operation.per_core(operation.inputs[0], dim)
    return np.broadcast_to(values, shape)


def _exact_products(operation: Operation) -> bool:
    """Of 16- and 8-bit floats every product is exact in float32, so that its sum is the fused one."""
    return all(tensor.format.word.itemsize <= 2 for tensor in operation.inputs)


def _accumulate_exact(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return total + a * b


def _accumulate_fused(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A float32 fma: the product is exact in float64; rounding the sum to odd keeps the second rounding honest."""
    exact = a.astype(np.float64) * b
    addend = total.astype(np.float64)
    near = exact + addend
    part = near - exact
    error = (exact - (near - part)) + (addend - part)
    even = near.view(np.int64) % 2 == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    odd = np.where((error != 0) & even & np.isfinite(near), np.nextafter(near, towards), near)
    return odd.astype(np.float32)


def moments(operation: Operation, values: np.ndarray) -> np.ndarray:
    """exx2: mean and mean of squares, on a new last axis."""
    scale = np.float32(operation.constants["exx2scale"])
    mean = fold(operation, values, np.add, 0.0) * scale
    square = fold(operation, values * values, np.add, 0.0) * scale
    if operation.constants.get("useZeroMean", 0.0):
        mean = np.zeros_like(mean)
    return np.stack([mean, square], axis=-1)


def ranking(operation: Operation, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest values of the reduced dim and their indices, each core its own ranks; ties to the lowest index."""
    table, result = operation.inputs[0], operation.output
    over = [d for d in operation.dims if table.walks(d) and not result.walks(d) and operation.sizes[d] > 1]
    ranks = [d for d in operation.dims if result.walks(d) and not table.walks(d)]
    if len(over) != 1 or len(ranks) != 1 or any(s[over[0]] for s in operation.slices.values()):
        raise BundleError(f"ranks {ranks} of {over}: one undivided dim and one of ranks are understood")
    axis, rank_axis = operation.axis(over[0]), operation.axis(ranks[0])
    order = np.lexsort((-values, ~np.isnan(values)), axis=axis)
    count = operation.per_core(result, ranks[0])
    first = np.array([count * operation.slices[core][ranks[0]] for core in sorted(operation.slices)])
    shape = [1] * values.ndim
    shape[0], shape[axis] = len(first), count
    chosen = np.take_along_axis(order, (first[:, None] + np.arange(count)).reshape(shape), axis)
    best = np.take_along_axis(values, chosen, axis)
    return np.swapaxes(best, axis, rank_axis), np.swapaxes(chosen, axis, rank_axis)
