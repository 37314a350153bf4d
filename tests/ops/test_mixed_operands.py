"""Operands of two dtypes, tensors and points: what torch's CPU gives, for every operator of two operands.

Dtypes were tested on ones, and operators on operands of one dtype; a point of a wider dtype is cut before it is used.
"""

import itertools

import pytest
import torch
from calls import packet, parameters, rows

from openspyre.spec.errors import ValueOutOfRange
from openspyre.spec.ops import Kind
from torch_spyre import _torch

pytestmark = pytest.mark.filterwarnings("ignore")  # fallbacks are counted elsewhere
DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32),
)
PAIRS = list(itertools.product(DTYPES, DTYPES))
ONE_DTYPE = ("backward", "prelu", "heaviside")  # torch has no meaning for two
BINARY = [row for row in rows(Kind.POINTWISE) if row.operands == 2 and not any(part in row.name for part in ONE_DTYPE)]
_FIRST = {torch.bool: [1, 0, 1], torch.uint8: [5, 200, 3], torch.int8: [-5, 100, 3], torch.int16: [-500, 100, 3]}
_WHOLE, _REAL = [-70000, 100, 3], [-2.5, 3.0, 0.5]


def first(dtype, form):
    values = _FIRST.get(dtype, _REAL if dtype.is_floating_point else _WHOLE)
    return torch.tensor(values[0] if form == "point" else values).to(dtype)


def second(dtype, form):
    return torch.tensor([3, 2, 1][0] if form == "point" else [3, 2, 1]).to(dtype)


def answer(row, one, other):
    try:
        return packet(row)(one, other, **parameters(row, torch.result_type(one, other)))
    except (RuntimeError, TypeError):
        return None


def holds_more(one, other, result):
    """Integers beyond float16, sums beyond int32: the card's range is another one (N1, N8)."""
    real = result.dtype in (torch.float16, torch.bfloat16)
    wide = any(
        not t.dtype.is_floating_point and t.abs().max() > 2048 for t in (one, other) if t.dtype is not torch.bool
    )
    return (real and wide) or (result.dtype is torch.int64 and result.abs().max() > 2**31 - 1)


@pytest.mark.parametrize("row", BINARY, ids=lambda row: row.name)
@pytest.mark.parametrize("forms", [("tensor", "tensor"), ("point", "tensor"), ("tensor", "point")], ids=" and ".join)
def test_dtypes_meet_as_in_torch(row, forms):
    torch.spyre.set_fallback_mode("silent")  # points of a wider dtype are cut by the CPU
    tried = 0
    for kinds in PAIRS[BINARY.index(row) % 4 :: 4]:
        one, other = first(kinds[0], forms[0]), second(kinds[1], forms[1])
        right = answer(row, one, other)
        if right is None or holds_more(one, other, right):
            continue
        found = answer(row, one.to("spyre"), other.to("spyre"))
        assert found is not None, f"{kinds}: torch computes it"
        assert found.dtype == right.dtype, f"{kinds}: {found.dtype} is not {right.dtype}"
        near = 2**-7 if torch.bfloat16 in kinds else 2**-8 if torch.float16 in kinds else 2**-20
        close = torch.isclose(found.cpu().double(), right.double(), rtol=near, atol=1e-6, equal_nan=True)
        assert close.all(), f"{kinds}: {found.cpu()} is not {right}"
        tried += 1
    assert tried > 2


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_a_number_of_the_host_is_divided(dtype, mode):
    """torch's own description of it fails, and the CPU's was asked with zeros."""
    divisor = torch.tensor([3, 2, 1], dtype=dtype)
    mine = torch.div(torch.tensor(7), divisor.to("spyre"), rounding_mode=mode)
    assert torch.equal(mine.cpu(), torch.div(torch.tensor(7), divisor, rounding_mode=mode))


def test_truth_values_are_not_subtracted_from_real_ones():
    truth, real = torch.tensor([True, False]).to("spyre"), torch.tensor([1.0, 2.0]).to("spyre")
    for one, other in itertools.permutations((truth, real)):
        with pytest.raises(RuntimeError, match="Subtraction"):
            torch.sub(one, other)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_real_number_among_integers_is_cut_and_not_rounded(dtype, compiled):
    """It went through float32, which holds 24 bits, and was cut at the end."""

    def fill(x):
        return x.masked_fill(x > 1, 16777217.0), torch.addcmul(x, x, x, value=2.5), x.masked_fill(x > 1, -3.75)

    x = torch.tensor([1, 2, 3], dtype=dtype)
    mine = (torch.compile(fill) if compiled else fill)(x.to("spyre"))
    for found, right in zip(mine, fill(x), strict=True):
        assert torch.equal(found.cpu(), right)


@pytest.mark.parametrize("number", [1e10, float("inf"), float("-inf"), float("nan")])
def test_a_real_number_that_no_integer_holds_is_an_error(number):
    _torch.clear_eager_cache()  # the first call of a kind is described by torch, later ones are not
    x = torch.tensor([1, 2, 3]).to("spyre")
    for _ in range(2):
        with pytest.raises(ValueOutOfRange, match="does not fit"):
            x.masked_fill(x > 1, number)
