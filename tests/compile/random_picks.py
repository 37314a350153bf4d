"""How steps of random graphs take their operands from the numbers of a recipe."""

import torch


def pick(values, number):
    """Late values are more interesting."""
    return values[-1 - number % len(values)]


def small(value):
    """Keeps numbers small and whole, so that every format holds them."""
    return value.clamp(-4, 4) if value.dtype is not torch.bool else value


def dim_of(x, number):
    """A dim that has elements, or None."""
    dims = [dim for dim, extent in enumerate(x.shape) if extent]
    return dims[number % len(dims)] if dims else None


def places(x, dim, count, step, start):
    """An index along a dim: no two numbers of a recipe go through it in the same order."""
    return (torch.arange(count, device=x.device) * (step + 1) + start) % x.shape[dim]
