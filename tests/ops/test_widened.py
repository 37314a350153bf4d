"""Functions of 16 bits as sequences of the hardware's float32 ops: every operand there is, against torch in float64."""

import numpy as np
import pytest
import torch
from oracle import _sen169_place, fetch

from openspyre.spec.encodings import sen169_decode
from openspyre.spec.ops import TABLE

_MOST_OFF = 10  # of 65,536: exact values too near to a tie


def every_number():
    """But for the one whose bits the sanitizer takes for memory that a copy left alone."""
    decoded = sen169_decode(np.delete(np.arange(1 << 16, dtype=np.uint16), 0xA5A5)).astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(decoded[np.isfinite(decoded)]))


@pytest.mark.parametrize("name", ["expm1", "log1p", "log2", "log10", "exp2", "erf", "erfc", "logit"])
def test_all_but_a_few_operands_give_the_nearest_number(name):
    assert TABLE[name].widened is not None
    function, numbers = getattr(torch, name), every_number()
    x = numbers.to("spyre").to(torch.bfloat16)  # narrowed on the card, which holds them all
    assert torch.equal(fetch(x), numbers)
    got, exact = fetch(function(x)).double(), function(numbers.double())
    assert torch.equal(got.isnan(), exact.isnan())
    off = (_sen169_place(got) - _sen169_place(exact)).abs()[~exact.isnan()]
    assert off.max() <= 1
    assert (off > 0).sum() <= _MOST_OFF


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_powers_are_c_s(dtype):
    """Signs, zeros, infinities and NaN on both sides."""
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 0.3, 7.5, *map(float, ("inf", "-inf", "nan"))]
    base, exponent = torch.meshgrid(torch.tensor(edges, dtype=dtype), torch.tensor(edges, dtype=dtype), indexing="ij")
    got = fetch(torch.pow(base.contiguous().to("spyre"), exponent.contiguous().to("spyre"))).double()
    held = [fetch(each.contiguous().to("spyre")).double() for each in (base, exponent)]
    exact = torch.pow(*held)
    assert torch.equal(got.isnan(), exact.isnan())
    off = (_sen169_place(got) - _sen169_place(exact)).abs()[~exact.isnan()]
    assert off.max() <= 1
