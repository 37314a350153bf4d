"""Steps of random graphs that look at a value another way: torch makes most of them without touching an element."""

import torch
from random_picks import dim_of, pick


def _permute(values, a, b, c, d):
    x = pick(values, a)
    order = sorted(range(x.dim()), key=lambda dim: ((dim + 1) * (2 * b + 1) + c * dim * dim) % 7)
    return x.permute(order)


def _slice(values, a, b, c, d):
    x = pick(values, a)
    if x.dim() == 0:
        return None
    dim = b % x.dim()
    start = c % (x.shape[dim] + (d == 11)) if x.shape[dim] else 0  # now and then nothing is left
    return x[(slice(None),) * dim + (slice(start, None, 1 + d % 3),)]


def _select(values, a, b, c, d):
    x = pick(values, a)
    dim = b % x.dim() if x.dim() else 0
    return x.select(dim, c % x.shape[dim]) if x.dim() and x.shape[dim] else None


def _reshape(values, a, b, c, d):
    x = pick(values, a)
    if x.dim() > 1 and b % 2:
        dim = c % (x.dim() - 1)
        return x.flatten(dim, dim + 1)
    for dim, extent in enumerate(x.shape):
        factor = next((f for f in (2, 3, 5, 11, 31) if extent > f and extent % f == 0), None)
        if factor and x.dim() < 6:
            return x.unflatten(dim, (factor, -1) if d % 2 else (-1, factor))
    return x.reshape(-1)


def _unsqueeze(values, a, b, c, d):
    x = pick(values, a)
    return x.unsqueeze(b % (x.dim() + 1)) if c % 2 else x.squeeze()


def _expand(values, a, b, c, d):
    """A new dim anywhere, or one of a single element made longer."""
    x = pick(values, a)
    ones = [dim for dim, extent in enumerate(x.shape) if extent == 1]
    if ones and c % 2:
        dim = ones[b % len(ones)]
        return x.expand(*x.shape[:dim], 2 + d, *x.shape[dim + 1 :])
    dim = c % (x.dim() + 1)
    wide = x.unsqueeze(dim)
    return wide.expand(*wide.shape[:dim], 2 + b % 3, *wide.shape[dim + 1 :]) if x.dim() < 5 else None


def _diagonal(values, a, b, c, d):
    x = pick(values, a)
    return x.diagonal(0, b % x.dim(), (b + 1 + c % (x.dim() - 1)) % x.dim()) if x.dim() > 1 else None


def _unfold(values, a, b, c, d):
    """Windows. torch refuses to write where they overlap, and compiled, on the CPU too, zeroes what lies between: copied."""
    x = pick(values, a)
    dim = dim_of(x, b)
    if dim is None or x.dim() > 5:
        return None
    size, step = 1 + c % x.shape[dim], 1 + d % 4
    windows = x.unfold(dim, size, step)
    return windows if step == size and x.shape[dim] % size == 0 else windows.clone()


def _part(values, a, b, c, d):
    x = pick(values, a)
    dim = dim_of(x, b)
    return None if dim is None else pick(x.chunk(1 + c % 4, dim), d)


def _flip(values, a, b, c, d):
    x = pick(values, a)
    dims = [dim for dim in range(x.dim()) if (b + 1) >> dim & 1]
    return x.flip(dims)


def _roll(values, a, b, c, d):
    x = pick(values, a)
    dim = dim_of(x, b)
    return None if dim is None else torch.roll(x, c - 5, dim)


VIEWS = {
    "diagonal": _diagonal,
    "expand": _expand,
    "flip": _flip,
    "part": _part,
    "permute": _permute,
    "reshape": _reshape,
    "roll": _roll,
    "select": _select,
    "slice": _slice,
    "unfold": _unfold,
    "unsqueeze": _unsqueeze,
}
