"""Tensors made on the card: fill, arange, eye, triangles."""

import pytest
import torch
from moved import DTYPES, SHAPES, VIEWS, same, values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (), (0, 3)])
def test_filled_tensors_hold_the_number_everywhere(shape, dtype):
    same(torch.zeros(shape, dtype=dtype, device="spyre"), torch.zeros(shape, dtype=dtype))
    same(torch.ones(shape, dtype=dtype, device="spyre"), torch.ones(shape, dtype=dtype))
    same(torch.full(shape, 3, dtype=dtype, device="spyre"), torch.full(shape, 3, dtype=dtype))


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_filling_a_view_leaves_its_neighbours_alone(view, dtype):
    host = values((5, 130), dtype)
    card = host.to("spyre")
    for x in (card, host):
        view(x).fill_(1)
        view(x)[1:].zero_()
    same(card, host)


def test_a_number_on_the_card_fills_too():
    same(torch.zeros(3, 70).to("spyre").fill_(torch.tensor(2.5).to("spyre")), torch.full((3, 70), 2.5))
    same(torch.zeros(3, 70).to("spyre").fill_(torch.tensor(2.5)), torch.full((3, 70), 2.5))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), -0.0, 65504.0])
def test_numbers_at_the_edge_of_a_format(value):
    same(torch.full((70,), value, device="spyre"), torch.full((70,), value))


@pytest.mark.parametrize("span", [(0, 7, 1), (3, 200, 2), (10, -60, -3), (5, 5, 1)])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not torch.bool])
def test_arange_counts(span, dtype):
    if dtype is torch.uint8 and span[1] < 0:
        span = (0, 100, 1)
    same(torch.arange(*span, dtype=dtype, device="spyre"), torch.arange(*span, dtype=dtype))


def test_arange_of_fractions():
    same(torch.arange(0.5, 40, 0.25, device="spyre"), torch.arange(0.5, 40, 0.25))


def test_arange_gives_an_out_tensor_its_size():
    out = torch.empty(0, dtype=torch.int64, device="spyre")
    torch.arange(130, out=out)
    same(out, torch.arange(130))


def test_linspace_ends_where_it_should():
    same(torch.linspace(-2, 2, 65, device="spyre"), torch.linspace(-2, 2, 65))


@pytest.mark.parametrize("size", [(5, 5), (3, 70), (70, 3), (1, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_eye(size, dtype):
    same(torch.eye(*size, dtype=dtype, device="spyre"), torch.eye(*size, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("diagonal", [-3, 0, 2, 200])
@pytest.mark.parametrize("triangle", ["tril", "triu"])
def test_triangles(triangle, diagonal, dtype):
    for shape in ((4, 128), (2, 70, 65)):
        host = values(shape, dtype)
        for view in (VIEWS["whole"], VIEWS["transposed"], VIEWS["sliced"]):
            same(getattr(view(host.to("spyre")), triangle)(diagonal), getattr(view(host), triangle)(diagonal))
    card = values((4, 128), dtype).to("spyre")
    getattr(card, f"{triangle}_")(diagonal)
    same(card, getattr(values((4, 128), dtype), triangle)(diagonal))


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_fill(dtype):
    host = values((3, 70), dtype)
    mask = values((70,), torch.bool)
    same(host.to("spyre").masked_fill(mask.to("spyre"), 1), host.masked_fill(mask, 1))
    same(host.to("spyre").masked_fill_(mask.to("spyre"), 0), host.masked_fill(mask, 0))


def test_likenesses():
    like = values((3, 70), torch.float16).to("spyre")
    same(torch.full_like(like, 7), torch.full((3, 70), 7, dtype=torch.float16))
    same(like.new_zeros(5), torch.zeros(5, dtype=torch.float16))
    same(torch.scalar_tensor(3.5, device="spyre"), torch.scalar_tensor(3.5))
