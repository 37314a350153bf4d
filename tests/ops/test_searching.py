"""isin, searchsorted, bucketize on the card, against torch on the CPU; sizes of ranges."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

DTYPES = (torch.int64, torch.int32, torch.int8, torch.float32, torch.float16)


def _numbers(shape: tuple[int, ...], dtype: torch.dtype, below: int) -> torch.Tensor:
    numbers = torch.randint(0, below, shape).to(dtype)
    if dtype.is_floating_point and numbers.numel() > 2:
        numbers.view(-1)[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")]).to(dtype)
    return numbers


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("invert", (False, True))
def test_isin_says_what_the_cpu_says(dtype: torch.dtype, invert: bool) -> None:
    for size, tests in product(
        [(), (1,), (3, 5), (0,), (70, 90), (4000,)], [(), (1,), (2,), (17,), (3, 4), (0,), (1000,)]
    ):
        x, y = _numbers(size, dtype, 100), _numbers(tests, dtype, 60)
        for a, b in ((x, y), (x, 5), (5, y)):
            expected = torch.isin(a, b, invert=invert)
            got = torch.isin(*(t.to("spyre") if isinstance(t, torch.Tensor) else t for t in (a, b)), invert=invert)
            assert got.device.type == "spyre" and got.shape == expected.shape
            assert torch.equal(got.cpu(), expected), (size, tests, a is x, b is y)


def test_isin_promotes_as_torch_does_and_writes_into_what_it_is_given() -> None:
    x, y = torch.arange(6), torch.tensor([1.5, 2.0, 5.0])
    out = torch.empty(0, dtype=torch.bool).to("spyre")
    assert torch.isin(x.to("spyre"), y.to("spyre"), out=out).tolist() == [False, False, True, False, False, True]
    assert out.tolist() == torch.isin(x, y).tolist()


def test_isin_refuses_what_torch_refuses() -> None:
    truths = torch.ones(3, dtype=torch.bool)
    with pytest.raises(RuntimeError) as expected:
        torch.isin(truths, truths)
    with pytest.raises(RuntimeError) as got:
        torch.isin(truths.to("spyre"), truths.to("spyre"))
    assert str(got.value).splitlines()[0] == str(expected.value).splitlines()[0]
    with pytest.raises(RuntimeError, match="same device"):
        torch.isin(torch.ones(3).to("spyre"), torch.ones(3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("right", (False, True))
def test_searchsorted_and_bucketize_find_numpys_places(dtype: torch.dtype, right: bool) -> None:
    side = "right" if right else "left"
    for count in (1, 2, 3, 64, 65, 100):
        row, values = torch.randint(0, 100, (count,)).to(dtype).sort()[0], _numbers((5, 33), dtype, 110)
        expected = np.searchsorted(row.numpy(), values.numpy(), side=side)
        for got in (
            torch.searchsorted(row.to("spyre"), values.to("spyre"), side=side),
            torch.bucketize(values.to("spyre"), row.to("spyre"), right=right),
        ):
            assert got.dtype is torch.int64 and np.array_equal(got.cpu().numpy(), expected), count


def test_searchsorted_takes_a_row_per_row_an_order_and_an_out() -> None:
    rows, values = torch.randn(4, 50), torch.randn(4, 7)
    order = rows.argsort(-1)
    expected = torch.searchsorted(rows, values, sorter=order)
    on_card = [t.to("spyre") for t in (rows, values, order)]
    assert torch.equal(torch.searchsorted(*on_card[:2], sorter=on_card[2]).cpu(), expected)
    out = torch.empty(0, dtype=torch.int32).to("spyre")
    torch.searchsorted(*on_card[:2], sorter=on_card[2], out_int32=True, out=out)
    assert torch.equal(out.cpu(), expected.to(torch.int32))
    with pytest.raises(RuntimeError, match="first N-1 dimensions"):
        torch.searchsorted(torch.ones(3, 4).to("spyre"), torch.ones(2, 4).to("spyre"))


@pytest.mark.parametrize(
    "numbers",
    [(7,), (0,), (3, 7), (7, 3, -1), (0, 10, 3), (1, 2.5), (5, 5), (-3, 4, 2)],
)
def test_a_range_has_torchs_size(numbers: tuple[float, ...]) -> None:
    for dtype in (None, torch.float32, torch.int64, torch.float16):
        expected = torch.arange(*numbers, dtype=dtype)
        got = torch.arange(*numbers, dtype=dtype, device="spyre")
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)


def test_a_range_of_floats_counts_in_double() -> None:
    for numbers in ((0.0, 1.0, 0.1), (0.1, 0.7, 0.2), (0, 1, 1 / 3)):
        assert torch.arange(*numbers, device="spyre").shape == torch.arange(*numbers).shape


@pytest.mark.parametrize("numbers", [(0, 5, -1), (0, 5, 0), (0, float("inf"))])
def test_a_range_that_is_none_has_torchs_words(numbers: tuple[float, ...]) -> None:
    with pytest.raises(RuntimeError) as expected:
        torch.arange(*numbers)
    with pytest.raises(RuntimeError) as got:
        torch.arange(*numbers, device="spyre")
    assert str(got.value).splitlines()[0] == str(expected.value).splitlines()[0]
