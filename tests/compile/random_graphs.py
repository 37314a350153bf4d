"""Random graphs: recipes of views, pointwise ops, reductions, products, gathers, writes in place and numbers of the host.

A recipe is plain data, so that hypothesis can shrink it: every number is taken modulo whatever is possible at its place.
Values stay small whole numbers, so that compiled, eager and CPU agree exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from random_numbers import NUMBERS
from random_values import VALUES
from random_views import VIEWS
from random_writes import WRITES

MAX_ELEMENTS = 4096
_EXTENTS = (1, 1, 2, 3, 5, 8, 31, 33, 63, 64, 65)
_DTYPES = (torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool)
_STEPS = VIEWS | VALUES | WRITES


@dataclass(frozen=True)
class Recipe:
    """Sizes and dtypes of the inputs, steps: (kind, four numbers), and the number of the host that a graph gets as well."""

    inputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    steps: tuple[tuple[str, int, int, int, int], ...]
    results: tuple[int, ...]
    number: tuple[int, torch.dtype] = (2, torch.float32)


def draw_inputs(recipe):
    return [
        torch.randint(-2, 3, size, generator=torch.Generator().manual_seed(seed)).to(dtype)
        for seed, (size, dtype) in enumerate(recipe.inputs)
    ]


def draw_number(recipe):
    value, dtype = recipe.number
    return torch.tensor(value, dtype=dtype)


def function_of(recipe):
    def compute(number, *inputs):
        values = list(inputs)
        for kind, *picks in recipe.steps:
            made = NUMBERS[kind](values, number, *picks) if kind in NUMBERS else _STEPS[kind](values, *picks)
            if made is not None and made.dim() <= 6 and made.numel() <= MAX_ELEMENTS:
                values.append(made)
        return [values[number % len(values)] for number in recipe.results]

    return compute


def recipes():
    extents = st.one_of(st.sampled_from(_EXTENTS), st.sampled_from(_EXTENTS), st.sampled_from((0, *_EXTENTS)))
    size = st.lists(extents, min_size=0, max_size=4).map(tuple).filter(lambda s: math.prod(s) <= 2000)
    number = st.integers(0, 11)
    step = st.tuples(st.sampled_from(sorted(_STEPS | NUMBERS)), number, number, number, number)
    return st.builds(
        Recipe,
        st.lists(st.tuples(size, st.sampled_from(_DTYPES)), min_size=1, max_size=3).map(tuple),
        st.lists(step, min_size=1, max_size=10).map(tuple),
        st.lists(st.integers(0, 40), min_size=1, max_size=3).map(tuple),
        st.tuples(st.integers(-2, 3), st.sampled_from((torch.float32, torch.int64, torch.int32, torch.bool))),
    )
