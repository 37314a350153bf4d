"""Steps of random graphs that compute with a number of the host, a tensor without dims that every launch brings anew."""

import torch
from random_picks import pick, small


def _operand(values, number, a, b, c, d):
    x = pick(values, a)
    operators = (torch.mul, torch.add, torch.maximum, torch.sub)
    if torch.bool in (x.dtype, number.dtype):  # torch does not subtract truth values
        operators = operators[:2]
    operator = operators[b % len(operators)]
    return small(operator(number, x) if c % 2 else operator(x, number))


def _computed(values, number, a, b, c, d):
    """The host computes with it first."""
    return small(pick(values, a) * (number + b % 3))


def _chosen(values, number, a, b, c, d):
    x, mask = pick(values, a), pick(values, b)
    return torch.where(mask > 0, x, number) if x.shape == mask.shape else None


def _filled(values, number, a, b, c, d):
    x = pick(values, a)
    if torch.promote_types(x.dtype, number.dtype) != x.dtype:
        return None
    return x.masked_fill(x > b % 3 - 1, number) if c % 2 else torch.full_like(x, 1).copy_(number)


def _moved(values, number, a, b, c, d):
    return small(pick(values, a) * number.to(values[0].device))


NUMBERS = {
    "number": _operand,
    "number_chosen": _chosen,
    "number_computed": _computed,
    "number_filled": _filled,
    "number_moved": _moved,
}
