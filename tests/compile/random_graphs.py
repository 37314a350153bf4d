"""Random graphs: recipes of views, pointwise ops, reductions, products and writes in place, and what they compute.

A recipe is plain data, so that hypothesis can shrink it: every number is taken modulo whatever is possible at its place.
Values stay small whole numbers in fp32, so that compiled, eager and CPU agree exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

MAX_ELEMENTS = 4096
_EXTENTS = (1, 2, 3, 5, 8, 31, 33, 64, 65)


@dataclass(frozen=True)
class Recipe:
    """Sizes and dtypes of the inputs, and steps: (kind, four numbers)."""

    inputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    steps: tuple[tuple[str, int, int, int, int], ...]
    results: tuple[int, ...]


def draw_inputs(recipe):
    return [
        torch.randint(-2, 3, size, generator=torch.Generator().manual_seed(seed)).to(dtype)
        for seed, (size, dtype) in enumerate(recipe.inputs)
    ]


def function_of(recipe):
    def compute(*inputs):
        values = list(inputs)
        for kind, *numbers in recipe.steps:
            made = _STEPS[kind](values, *numbers)
            if made is not None and made.dim() <= 6 and made.numel() <= MAX_ELEMENTS:
                values.append(made)
        return [values[number % len(values)] for number in recipe.results]

    return compute


def recipes():
    size = st.lists(st.sampled_from(_EXTENTS), min_size=0, max_size=4).map(tuple).filter(lambda s: math.prod(s) <= 2000)
    dtype = st.sampled_from([torch.float32, torch.float32, torch.float16, torch.int32, torch.bool])
    number = st.integers(0, 11)
    step = st.tuples(st.sampled_from(sorted(_STEPS)), number, number, number, number)
    return st.builds(
        Recipe,
        st.lists(st.tuples(size, dtype), min_size=1, max_size=3).map(tuple),
        st.lists(step, min_size=1, max_size=10).map(tuple),
        st.lists(st.integers(0, 40), min_size=1, max_size=3).map(tuple),
    )


def _pick(values, number):
    """Late values are more interesting."""
    return values[-1 - number % len(values)]


def _small(value):
    """Keeps numbers small and whole, so that every format holds them."""
    return value.clamp(-4, 4) if value.dtype is not torch.bool else value


def _permute(values, a, b, c, d):
    x = _pick(values, a)
    order = sorted(range(x.dim()), key=lambda dim: ((dim + 1) * (2 * b + 1) + c * dim * dim) % 7)
    return x.permute(order)


def _slice(values, a, b, c, d):
    x = _pick(values, a)
    if x.dim() == 0:
        return None
    dim = b % x.dim()
    start = c % x.shape[dim] if x.shape[dim] else 0
    return x[(slice(None),) * dim + (slice(start, None, 1 + d % 3),)]


def _select(values, a, b, c, d):
    x = _pick(values, a)
    dim = b % x.dim() if x.dim() else 0
    return x.select(dim, c % x.shape[dim]) if x.dim() and x.shape[dim] else None


def _reshape(values, a, b, c, d):
    x = _pick(values, a)
    if x.dim() > 1 and b % 2:
        dim = c % (x.dim() - 1)
        return x.flatten(dim, dim + 1)
    for dim, extent in enumerate(x.shape):
        factor = next((f for f in (2, 3, 5, 11, 31) if extent > f and extent % f == 0), None)
        if factor and x.dim() < 6:
            return x.unflatten(dim, (factor, -1) if d % 2 else (-1, factor))
    return x.reshape(-1)


def _unsqueeze(values, a, b, c, d):
    x = _pick(values, a)
    return x.unsqueeze(b % (x.dim() + 1)) if c % 2 else x.squeeze()


def _expand(values, a, b, c, d):
    x = _pick(values, a)
    return x.expand(2 + b % 3, *x.shape) if x.dim() < 5 else None


def _pointwise(values, a, b, c, d):
    x, y = _pick(values, a), _pick(values, b)
    operator = (torch.add, torch.mul, torch.maximum, torch.sub)[c % 4]
    if x.dtype is torch.bool or y.dtype is torch.bool:
        operator = torch.mul if c % 2 else torch.add
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return _small(operator(x, y)) if all(1 in pair or len(set(pair)) == 1 for pair in pairs) else None


def _unary(values, a, b, c, d):
    x = _pick(values, a)
    if x.dtype is torch.bool:
        return ~x
    return (_small(x * 2 + 1), -x, x.abs(), torch.relu(x), x > 0, torch.where(x > 0, x, 1 - x), x.clone())[b % 7]


def _cast(values, a, b, c, d):
    return _pick(values, a).to((torch.float32, torch.float16, torch.int32, torch.bool)[b % 4])


def _reduce(values, a, b, c, d):
    x = _pick(values, a)
    if x.dtype is torch.bool or x.numel() == 0:
        return None
    if x.dim() == 0 or c % 5 == 4:
        return _small(x.sum())
    dim = b % x.dim()
    kept = bool(d % 2)
    return (_small(x.sum(dim, keepdim=kept)), x.amax(dim, keepdim=kept), x.argmax(dim, keepdim=kept).int())[c % 3] * 1


def _product(values, a, b, c, d):
    x, y = _pick(values, a), _pick(values, b)
    if x.dim() < 2 or x.dtype != y.dtype or not x.dtype.is_floating_point:
        return None
    if y.dim() < 2 or y.shape[-2] != x.shape[-1] or x.shape[:-2] != y.shape[:-2]:
        y = x.mT
    return _small(x @ y) if x.shape[-1] else None


def _cat(values, a, b, c, d):
    x = _pick(values, a)
    return torch.cat([x, x.flip(b % x.dim())], b % x.dim()) if x.dim() else None


def _write(values, a, b, c, d):
    """A slice of a value (an input, perhaps) is written in place."""
    x, y = _pick(values, a), _pick(values, b)
    if any(stride == 0 and extent > 1 for extent, stride in zip(x.shape, x.stride(), strict=True)):
        return  # torch refuses to write where elements overlap
    part = x
    if x.dim():
        dim = c % x.dim()
        part = x.narrow(dim, 0, (x.shape[dim] + 1) // 2)
    number = 1 + d % 3
    if d % 3 == 0 and part.shape == y.shape:
        part.copy_(y.clone())
    elif d % 3 == 1 and x.dtype is not torch.bool:
        part.mul_(-1).clamp_(-3, 3)
    else:
        part.fill_(number)


def _index(values, a, b, c, d):
    x = _pick(values, a)
    if x.dim() == 0 or not x.shape[0]:
        return None
    rows = (torch.arange(3, device=x.device) * (b + 1) + c) % x.shape[0]
    return x[rows] if d % 2 else x.index_select(0, rows)


_STEPS = {
    "cast": _cast,
    "cat": _cat,
    "expand": _expand,
    "index": _index,
    "permute": _permute,
    "pointwise": _pointwise,
    "product": _product,
    "reduce": _reduce,
    "reshape": _reshape,
    "select": _select,
    "slice": _slice,
    "unary": _unary,
    "unsqueeze": _unsqueeze,
    "write": _write,
}
