"""What is below or above every integer: padding of integer pools, identities of masked reductions, and numbers at int64's ends."""

import pytest
import torch
import torch.nn.functional as F

ENDS = torch.iinfo(torch.int64)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
@pytest.mark.parametrize(
    "options", [{"padding": 1}, {"stride": 2, "padding": 1}, {"padding": 1, "dilation": 2}], ids=str
)
def test_a_pool_of_integers_may_be_padded(dtype, options):
    low = 0 if dtype is torch.uint8 else -100
    x = torch.randint(low, 1 if low else 100, (2, 3, 8, 9)).to(dtype)  # below the padding, if that were 0
    want = F.max_pool2d(x, 3, return_indices=True, **options)
    got = F.max_pool2d(x.to("spyre"), 3, return_indices=True, **options)
    for mine, theirs in zip(got, want, strict=True):
        assert torch.equal(mine.cpu(), theirs) and mine.dtype == theirs.dtype


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.int8])
@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin", "sum", "prod", "logsumexp"])
def test_masked_reductions(name, dtype):
    x = torch.tensor([[3, 1, 2], [5, 0, 4]]).to(dtype)
    mask = torch.tensor([[True, False, True], [False, True, True]])
    keywords = {"dtype": torch.float32} if name == "logsumexp" else {}
    reduce = getattr(torch.masked, name)
    want, got = (reduce(x.to(d), dim=1, mask=mask.to(d), **keywords) for d in ("cpu", "spyre"))
    assert got.dtype == want.dtype
    torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("end", "held"), [(ENDS.min, -(2**31)), (ENDS.max, 2**31 - 1)])
def test_numbers_at_the_ends_of_int64_become_the_cards_ends(end, held):
    assert torch.tensor(end, device="spyre").item() == held
    assert torch.full((3,), end, dtype=torch.int64, device="spyre").tolist() == [held] * 3
    x = torch.tensor([5, -7], device="spyre")
    assert x.masked_fill(x > 0, end).tolist() == [held, -7]
    assert x.clamp(min=ENDS.min, max=ENDS.max).tolist() == [5, -7]
    with pytest.raises(RuntimeError, match="cannot hold"):  # an element of a tensor is data, and data is not changed
        torch.tensor([end]).to("spyre")
    with pytest.raises(RuntimeError, match="does not fit"):
        x.masked_fill(x > 0, end // 2)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 1e30, -2147483649.0, 2147483648.0])
def test_floats_that_no_integer_of_the_card_holds_raise_and_are_named(number, dtype):
    x = torch.zeros(3, dtype=dtype, device="spyre")
    with pytest.raises(RuntimeError, match=f"the number {number:f} does not fit"):
        x.fill_(number)
    assert x.fill_(-0.9).tolist() == [0] * 3  # truncated towards 0
    for edge in (-2147483648.9, 2147483647.9):  # within int64; of int32 torch asks before it truncates
        if dtype is torch.int64:
            assert x.fill_(edge).tolist() == [int(edge)] * 3
            continue
        for tensor in (x, x.cpu()):
            with pytest.raises(RuntimeError):
                tensor.fill_(edge)
