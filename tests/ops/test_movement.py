"""Elements go somewhere else, unchanged: clone, cat, stack, pad, roll, repeat, scattered slices, conversions."""

import pytest
import torch
from moved import DTYPES, SHAPES, VIEWS, same, values

from torch_spyre.device.layouts import get_spyre_tensor_layout, set_spyre_tensor_layout

by_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
by_dtype = pytest.mark.parametrize("dtype", DTYPES)
by_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@by_view
@by_dtype
@by_shape
def test_clones_and_contiguous_copies(shape, dtype, view):
    host = values(shape, dtype)
    card = view(host.to("spyre"))
    same(card.clone(), view(host).clone())
    copy = card.contiguous()
    assert copy.is_contiguous()
    same(copy, view(host).contiguous())


def test_a_clone_keeps_its_layout():
    card = values((70, 130), torch.float16).to("spyre")
    turned = type(get_spyre_tensor_layout(card))([70, 130], [130, 1], torch.float16, [1, 0])
    set_spyre_tensor_layout(card, turned)
    assert get_spyre_tensor_layout(card.clone()) == turned
    same(card.clone(), values((70, 130), torch.float16))


@by_dtype
@by_shape
def test_cat_along_every_dim(shape, dtype):
    host = values(shape, dtype)
    card = host.to("spyre")
    for dim in range(-1, len(shape)):
        pieces = [x.narrow(dim, 0, 1) for x in (host, card)]
        same(torch.cat([card, pieces[1], card], dim), torch.cat([host, pieces[0], host], dim))
        same(torch.stack([card, card], dim), torch.stack([host, host], dim))


def test_cat_of_views_types_and_nothing():
    host = values((70, 130), torch.float32)
    card = host.to("spyre")
    same(torch.cat([card.t(), card.t()[:3]]), torch.cat([host.t(), host.t()[:3]]))
    same(torch.cat([card, card.half()], 1), torch.cat([host, host.half()], 1))
    same(torch.cat([card, torch.ones(0).to("spyre")]), host)
    same(torch.cat([card[:0], card]), host)
    same(torch.cat([card, card], out=torch.empty(0).to("spyre")), torch.cat([host, host]))
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([card, card[:, :3]])


@by_dtype
def test_padding_and_cropping(dtype):
    host = values((2, 65, 130), dtype)
    card = host.to("spyre")
    for widths in ((1, 2), (0, 0, 3, 4), (-1, 2, 3, -4), (64, 0)):
        same(torch.nn.functional.pad(card, widths, value=1), torch.nn.functional.pad(host, widths, value=1))


@by_dtype
@by_shape
def test_rolling(shape, dtype):
    host = values(shape, dtype)
    card = host.to("spyre")
    for dim in range(len(shape)):
        same(card.roll(3, dim), host.roll(3, dim))
    same(card.roll((1, -2), (0, -1)), host.roll((1, -2), (0, -1)))
    same(card.transpose(0, -1).roll(7), host.transpose(0, -1).roll(7))


@by_dtype
@by_shape
def test_flipping(shape, dtype):
    host = values(shape, dtype)
    card = host.to("spyre")
    for dim in range(len(shape)):
        same(card.flip(dim), host.flip(dim))
    same(card.flip(tuple(range(len(shape)))), host.flip(tuple(range(len(shape)))))
    same(card.transpose(0, -1).flip(0), host.transpose(0, -1).flip(0))
    same(card[..., ::2].flip(-1), host[..., ::2].flip(-1))


@by_dtype
def test_repeats(dtype):
    host = values((3, 70), dtype)
    card = host.to("spyre")
    same(card.repeat(2, 3), host.repeat(2, 3))
    same(card.repeat_interleave(2, 1), host.repeat_interleave(2, 1))
    same(card[:1].expand(4, 70).contiguous(), host[:1].expand(4, 70).contiguous())


@by_dtype
def test_slices_written_into_copies(dtype):
    host, part = values((3, 70, 65), dtype), values((3, 2, 65), dtype, seed=1)
    card, piece = host.to("spyre"), part.to("spyre")
    same(torch.slice_scatter(card, piece, 1, 3, 5), torch.slice_scatter(host, part, 1, 3, 5))
    same(torch.select_scatter(card, piece[:, 0], 1, 3), torch.select_scatter(host, part[:, 0], 1, 3))
    same(
        torch.as_strided_scatter(card, piece[0, 0], (65,), (3,), 5),
        torch.as_strided_scatter(host, part[0, 0], (65,), (3,), 5),
    )


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_conversions_stay_on_the_card(source, target):
    host = values((3, 70), source)
    host = host.abs() if source is not torch.bool else host
    same(host.to("spyre").to(target), host.to(target))
