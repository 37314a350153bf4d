"""Tensors go to the card and come back: every dtype, odd shapes, strided sources, views as targets."""

import numpy as np
import pytest
import torch

from openspyre.spec.encodings import sen169_decode, sen169_encode

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2fnuz]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SHAPES = [
    (),
    (1,),
    (64,),
    (100,),
    (33, 70),
    (7, 1),
    (1, 7),
    (3, 5, 130),
    (2, 3, 4, 65),
    (2, 3, 4, 5, 6),
    (2, 2, 2, 2, 2, 100),
]


def on_card(x: torch.Tensor) -> torch.Tensor:
    """What a 16-bit host tensor reads like after the card's format: the spec's arithmetic, not the card's."""
    if x.dtype not in (torch.float16, torch.bfloat16):
        return x
    codes = sen169_encode(x.float().numpy())
    return torch.from_numpy(np.asarray(sen169_decode(codes), dtype=np.float32)).reshape(x.shape).to(x.dtype)


def sample(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(len(shape))
    if dtype is torch.bool:
        return torch.rand(shape) > 0.5
    if dtype in INTEGERS:
        return torch.randint(0 if dtype is torch.uint8 else -100, 100, shape).to(dtype)
    return (torch.randn(shape) * 3).to(dtype)


def same(a: torch.Tensor, b: torch.Tensor) -> None:
    assert a.dtype == b.dtype and a.shape == b.shape and a.device == b.device
    if a.dtype.itemsize == 1 and a.dtype.is_floating_point:
        a, b = a.view(torch.uint8), b.view(torch.uint8)
    torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_round_trip_changes_nothing_but_the_16_bit_rounding(shape, dtype, no_leak):
    x = sample(shape, dtype)
    same(x.to("spyre").cpu(), on_card(x))


def test_all_fp16_patterns_round_as_the_contract_says():
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    same(x.to("spyre").cpu(), on_card(x))


def test_float32_to_float16_rounds_once():
    x = torch.tensor([1 + 2**-10 + 2**-20, 1e-9, 65504.0, 8.5e9, -9e9, float("inf"), float("nan")])
    wide = torch.empty(7).copy_(x.to("spyre", torch.float16))
    expected = torch.from_numpy(np.asarray(sen169_decode(sen169_encode(x.numpy())), dtype=np.float32))
    torch.testing.assert_close(wide, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64], ids=str)
def test_strided_and_offset_host_tensors(dtype):
    base = sample((20, 200), dtype)
    for x in (
        base.t(),
        base[3:, 7:],
        base[::2, ::3],
        base[:, 5],
        base[2].expand(4, 200),
        base.reshape(4, 5, 200).permute(2, 0, 1),
    ):
        same(x.to("spyre").cpu(), on_card(x))


def test_a_view_of_the_card_is_a_target_and_a_source():
    host = torch.zeros(10, 130, dtype=torch.float32)
    card = host.to("spyre")
    patch = torch.arange(24.0).reshape(4, 6)
    for view in (lambda t: t[2:6, 60:66], lambda t: t.t()[70:74, 1:7], lambda t: t.reshape(5, 260)[1:5, 127:133]):
        view(card).copy_(patch)
        view(host).copy_(patch)
        same(card.cpu(), host)
        same(view(card).cpu(), view(host).contiguous())


def test_copy_converts_between_dtypes_on_the_card():
    x = torch.tensor([0.0, 1.5, -2.75, 300.0])
    card = x.to("spyre")
    for dtype in (torch.float16, torch.int32, torch.int64, torch.bool, torch.bfloat16):
        same(card.to(dtype).cpu(), x.to(dtype))
    assert card.to(torch.float16).to(torch.float32).cpu().tolist() == x.tolist()


def test_large_values_keep_their_range_between_layouts():
    big = torch.tensor([[5e9, -5e9] * 40] * 3).to("spyre").to(torch.float16)  # beyond fp16, within the card's format
    turned = big.t().contiguous()
    expected = sen169_decode(sen169_encode(np.float32([5e9])))[0]
    assert turned.float().cpu()[0, 0].item() == pytest.approx(float(expected), rel=0)


def test_pinned_memory_and_non_blocking_copies():
    x = torch.randn(512, 300).pin_memory()
    assert x.is_pinned() and x[3:, 5:].is_pinned()
    assert not torch.randn(3).is_pinned()
    card = x.to("spyre", non_blocking=True)
    back = torch.empty_like(x).pin_memory()
    back.copy_(card, non_blocking=True)
    torch.spyre.synchronize()
    same(back, x)


def test_a_pageable_source_may_change_right_after_a_non_blocking_copy():
    x = torch.ones(1000, 1000)
    card = x.to("spyre", non_blocking=True)
    x.zero_()
    assert card.cpu().min().item() == 1


def test_float64_goes_through_what_the_card_holds():
    x = torch.randn(5, dtype=torch.float64)
    card = torch.empty(5, device="spyre").copy_(x)
    same(card.cpu(), x.float())
    same(torch.empty(5, dtype=torch.float64).copy_(card), x.float().double())
