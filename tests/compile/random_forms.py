"""How a random graph's inputs lie: as they are, turned, parts and steps of wider tensors, stretched, in other layouts, in one storage."""

from __future__ import annotations

import math
import random

import torch

KINDS = ("plain", "turned", "window", "step", "stretched", "layout", "flat")


def draw(seed, size, dtype):
    return torch.randint(-2, 3, size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def inputs_of(recipe, device):
    """The tensors that hold the inputs, and the inputs: views of them, some of one another's memory."""
    choose = random.Random(f"forms {recipe.forms}")
    share = choose.random() < 0.35
    bases, views = [], []
    for place, (size, dtype) in enumerate(recipe.inputs):
        if recipe.forms is not None and share and place and choose.random() < 0.7:
            views.append(_of_the_first(choose, bases[0], views[0]))
            continue
        base, view = _made(choose, place, size, dtype, device, recipe.forms is None)
        bases.append(base)
        views.append(view)
    return bases, views


def _of_the_first(choose, base, first):
    how = choose.choice(("same", "turned", "part", "beside"))
    if how == "same" or first.dim() == 0:
        return first
    if how == "turned":
        return first.mT if first.dim() > 1 else first
    if how == "part":
        dim = choose.randrange(first.dim())
        return first.narrow(dim, first.shape[dim] // 3, first.shape[dim] - first.shape[dim] // 3)
    flat = base.reshape(-1) if base.is_contiguous() else base
    return flat[flat.shape[0] // 2 :]


def _made(choose, seed, size, dtype, device, plain):
    kind = "plain" if plain or not size else choose.choice(KINDS if math.prod(size) else KINDS[:2])
    order = choose.sample(range(len(size)), len(size))
    dim, odd, room = choose.randrange(len(size) or 1), choose.randint(0, 1), choose.randint(0, 36)

    def base(extents):
        return draw(seed, extents, dtype).to(device)

    if kind == "turned":
        made = base([size[d] for d in order])
        return made, made.permute([order.index(d) for d in range(len(size))])
    if kind == "window":
        wide = [(choose.randint(0, 3), choose.randint(0, 3)) for _ in size]
        made = base([before + n + after for n, (before, after) in zip(size, wide, strict=True)])
        return made, made[tuple(slice(before, before + n) for n, (before, _) in zip(size, wide, strict=True))]
    if kind == "step":
        made = base([n * 2 + odd if d == dim else n for d, n in enumerate(size)])
        steps = [slice(odd, odd + 2 * n, 2) if d == dim else slice(None) for d, n in enumerate(size)]
        return made, made[tuple(steps)]
    if kind == "stretched":
        made = base([1 if d == dim else n for d, n in enumerate(size)])
        return made, made.expand(size)
    if kind == "flat":
        made, strides, step = base([room + math.prod(size) + odd]), [0] * len(size), 1
        for d in order:
            strides[d], step = step, step * size[d]
        return made, made.as_strided(size, strides, room)
    made = draw(seed, size, dtype)
    if kind == "layout" and device != "cpu":
        layout = torch.spyre.SpyreTensorLayout(list(size), list(made.stride()), dtype, order)
        made = made.to(device, device_layout=layout)
    made = made.to(device)
    return made, made
