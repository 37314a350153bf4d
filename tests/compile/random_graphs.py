"""Random graphs: recipes of views, pointwise ops, reductions, products, gathers, writes in place, rows and numbers of the host.

A recipe is plain data and follows from a seed; every number in it is taken modulo whatever is possible at its place. Values
are of two sorts. Whole ones stay small whole numbers, so that compiled, eager and CPU agree exactly. Real ones, which row
operators make, are judged by what their formats round; nothing whole is ever made of them.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass, replace

import torch
from random_forms import inputs_of
from random_numbers import NUMBERS
from random_reals import REALS
from random_values import VALUES
from random_views import VIEWS
from random_writes import WRITES

MAX_ELEMENTS = 8192
_EXTENTS = (0, 1, 1, 1, 2, 2, 3, 3, 5, 8, 31, 33, 63, 64, 64, 65, 128)
_FLOATS = (torch.float32, torch.float32, torch.float16, torch.float16, torch.bfloat16)
_DTYPES = (*_FLOATS, torch.int32, torch.int64, torch.bool)
_WHOLE = VIEWS | VALUES | WRITES
_ROWS = (1, 3, 8, 16, 17, 24)
_WIDE = (63, 64, 64, 65, 128, 128, 130, 192)  # rows of whole sticks, and of not quite whole ones
_ROW_KINDS = (*REALS, "real_row", "real_row_and_copy", "real_row_and_copy")
# What steps a graph is made of: whole numbers alone, all, or mostly rows.
_FLAVOURS = (
    (VIEWS, VALUES, VALUES, WRITES, NUMBERS),
    (VIEWS, VALUES, WRITES, NUMBERS, REALS),
    (_ROW_KINDS, _ROW_KINDS, _ROW_KINDS, VALUES),
)


@dataclass(frozen=True)
class Recipe:
    """Sizes and dtypes of the inputs, steps: (kind, four numbers), and the number of the host that a graph gets as well."""

    inputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    steps: tuple[tuple[str, int, int, int, int], ...]
    results: tuple[int, ...]
    reals: tuple[int, ...] = ()
    number: tuple[int, torch.dtype] = (2, torch.float32)
    forms: int | None = None  # seed of how the inputs lie (random_forms.py); None: each as it is


class Values(list):
    """Whole values, inputs first, and `reals` beside them."""

    def __init__(self, inputs):
        super().__init__(inputs)
        self.reals = []

    def take(self, made, real):
        """Keeps what a step returned: nothing, a tensor, or several."""
        for value in made if isinstance(made, (tuple, list)) else (made,):
            if value is not None and value.dim() <= 6 and value.numel() <= MAX_ELEMENTS:
                (self.reals if real else self).append(value)


def recipe_of(seed: int) -> Recipe:
    choose = random.Random(seed)
    flavour = choose.choice(_FLAVOURS)
    rows = flavour is _FLAVOURS[-1]
    kinds = [choose.choice(sorted(choose.choice(flavour))) for _ in range(choose.randint(2, 10))]
    dtypes = _FLOATS if rows else _DTYPES
    return Recipe(
        tuple((_size(choose, rows), choose.choice(dtypes)) for _ in range(choose.randint(1, 3))),
        tuple((kind, *(choose.randint(0, 11) for _ in range(4))) for kind in kinds),
        tuple(choose.randint(0, 40) for _ in range(choose.randint(1, 5))),
        tuple(choose.randint(0, 40) for _ in range(choose.randint(1, 8))),
        (choose.randint(-2, 3), choose.choice((torch.float32, torch.int64, torch.int32, torch.bool))),
    )


def _size(choose: random.Random, rows: bool) -> tuple[int, ...]:
    while True:
        size = tuple(choose.choice(_EXTENTS) for _ in range(choose.randint(0, 4)))
        if rows:
            size = (*size[:1], choose.choice(_ROWS), choose.choice(_WIDE))
        if math.prod(size) <= MAX_ELEMENTS // 2:
            return size


def draw_number(recipe: Recipe) -> torch.Tensor:
    value, dtype = recipe.number
    return torch.tensor(value, dtype=dtype)


def function_of(recipe: Recipe, tell=lambda line: None):
    """Returns the whole values that the recipe chooses, any of them perhaps twice, and the real ones."""

    def compute(number, *inputs):
        values = Values(inputs)
        for kind, *picks in recipe.steps:
            known = len(values), len(values.reals)
            if kind in NUMBERS:
                made = NUMBERS[kind](values, number, *picks)
            else:
                made = (REALS if kind in REALS else _WHOLE)[kind](values, *picks)
            values.take(made, kind in REALS)
            tell((kind, picks, known, values))
        whole = [values[number % len(values)] for number in recipe.results]
        return whole, [values.reals[number % len(values.reals)] for number in recipe.reals if values.reals]

    return compute


def text_of(recipe: Recipe) -> str:
    """What a recipe does, a line per step, with the sizes that come of it."""
    lines = [f"{recipe}"]

    def tell(step):
        kind, picks, (whole, reals), values = step
        made = [f"v{whole + n} {_told(v)}" for n, v in enumerate(values[whole:])]
        made += [f"r{reals + n} {_told(v)}" for n, v in enumerate(values.reals[reals:])]
        lines.append(f"  {kind}{tuple(picks)} -> {', '.join(made) or 'nothing new'}")

    whole, reals = function_of(recipe, tell)(draw_number(recipe), *inputs_of(recipe, "cpu")[1])
    return "\n".join([*lines, f"  returns {[_told(v) for v in whole]} and {[_told(v) for v in reals]}"])


def _told(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def shrunk(recipe: Recipe, fails) -> Recipe:
    """The recipe without the steps and results that it fails without."""
    smaller = True
    while smaller:
        smaller = False
        for field in ("steps", "results", "reals"):
            parts = getattr(recipe, field)
            for place in reversed(range(len(parts))):
                fewer = replace(recipe, **{field: parts[:place] + parts[place + 1 :]})
                if (field != "results" or len(parts) > 1) and fails(fewer):
                    recipe, smaller = fewer, True
                    break
    return recipe


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        print(text_of(recipe_of(int(wanted))))
