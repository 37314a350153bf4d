"""A plan serves all numbers that its key does not tell apart: operators with numbers of every kind, one value after the other.

A lowering that looks at a number which is not part of the key computes with the number of an earlier call.
"""

from itertools import product

import pytest
import torch
import torch.nn.functional as F

NUMBERS = (1.0, 0.0, 2.0, -1.0, 0.5, 3.0)
ORDERS = {"upwards": NUMBERS, "downwards": NUMBERS[::-1], "from the middle": NUMBERS[3:] + NUMBERS[:3]}


def matrix(seed, *size):
    return torch.randn(size or (5, 70), generator=torch.Generator().manual_seed(seed))


A, B, C = matrix(0), matrix(1), matrix(2)
OF_ONE = {
    "add": lambda t, n: torch.add(t(A), t(B), alpha=n),
    "sub": lambda t, n: torch.sub(t(A), t(B), alpha=n),
    "rsub": lambda t, n: torch.rsub(t(A), t(B), alpha=n),
    "add of a number": lambda t, n: t(A) + n,
    "mul by a number": lambda t, n: t(A) * n,
    "division of a number": lambda t, n: n / t(A),
    "addcmul": lambda t, n: torch.addcmul(t(A), t(B), t(C), value=n),
    "addcdiv": lambda t, n: torch.addcdiv(t(A), t(B), t(C).abs() + 1, value=n),
    "lerp": lambda t, n: torch.lerp(t(A), t(B), n),
    "pow": lambda t, n: t(A).abs() ** n,
    "pow of a number": lambda t, n: torch.pow(abs(n) + 0.5, t(A)),
    "clamp_min": lambda t, n: t(A).clamp(min=n),
    "clamp_max": lambda t, n: t(A).clamp(max=n),
    "leaky_relu": lambda t, n: F.leaky_relu(t(A), n),
    "elu": lambda t, n: F.elu(t(A), n),
    "softplus": lambda t, n: F.softplus(t(A), beta=abs(n) + 0.25, threshold=n),
    "threshold": lambda t, n: F.threshold(t(A), n, -n),
    "softshrink": lambda t, n: F.softshrink(t(A), abs(n)),
    "hardshrink": lambda t, n: F.hardshrink(t(A), abs(n)),
    "masked_fill": lambda t, n: t(A).masked_fill(t(B) > 0, n),
    "where": lambda t, n: torch.where(t(B) > 0, t(A), n),
    "full": lambda t, n: torch.full_like(t(A), n),
    "comparison": lambda t, n: (t(A) < n).float(),
    "remainder": lambda t, n: torch.remainder(t(A), n or 1.5),
    "layer_norm": lambda t, n: F.layer_norm(t(A), (70,), eps=abs(n) + 1e-5),
    "rms_norm": lambda t, n: F.rms_norm(t(A), (70,), eps=abs(n) + 1e-5),
    "variance": lambda t, n: t(A).var(-1, correction=int(abs(n)) % 2),
    "norm": lambda t, n: torch.linalg.vector_norm(t(A), ord={1.0: 1, 0.0: 0, 2.0: 2}.get(n, float("inf")), dim=-1),
    "attention": lambda t, n: F.scaled_dot_product_attention(*(t(x)[None] for x in (A, B, C)), scale=abs(n) + 0.1),
}


def check(function, *numbers):
    result = function(lambda x: x.to("spyre"), *numbers).cpu()
    torch.testing.assert_close(result, function(lambda x: x, *numbers), rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", OF_ONE)
def test_one_number(name, order):
    for number in ORDERS[order]:
        check(OF_ONE[name], number)


M, V = matrix(3, 70, 33), matrix(4, 70)
OF_TWO = {
    "addmm": lambda t, a, b: torch.addmm(t(matrix(5, 5, 33)), t(A), t(M), alpha=a, beta=b),
    "addmv": lambda t, a, b: torch.addmv(t(matrix(5, 5)), t(A), t(V), alpha=a, beta=b),
    "baddbmm": lambda t, a, b: torch.baddbmm(t(matrix(5, 2, 5, 33)), t(matrix(6, 2, 5, 70)), t(matrix(7, 2, 70, 33)), alpha=a, beta=b),
    "clamp": lambda t, a, b: t(A).clamp(a - 2, b),
    "hardtanh": lambda t, a, b: F.hardtanh(t(A), -abs(a) - 0.5, abs(b) + 0.5),
    "nan_to_num": lambda t, a, b: (t(A) / 0).nan_to_num(posinf=a, neginf=b),
}  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", OF_TWO)
def test_two_numbers(name, order):
    for pair in product(ORDERS[order], repeat=2):
        check(OF_TWO[name], *pair)


@pytest.mark.parametrize("name", ["addmm", "addmv", "baddbmm"])
def test_what_is_not_added_is_not_looked_at(name):
    """As torch has it: with beta 0 a NaN in what is added does not count."""
    shapes = {"addmm": (5, 33), "addmv": (5,), "baddbmm": (2, 5, 33)}
    factors = {"addmm": (A, M), "addmv": (A, V), "baddbmm": (matrix(6, 2, 5, 70), matrix(7, 2, 70, 33))}[name]
    nothing = torch.full(shapes[name], float("nan")).to("spyre")
    result = getattr(torch, name)(nothing, *(f.to("spyre") for f in factors), beta=0)
    assert result.cpu().isfinite().all()
