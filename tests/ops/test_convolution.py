"""Convolutions of float32 row by row, and those whose rows are no whole sticks beside them, against the CPU and in their own order."""

import pytest
import torch
import torch.nn.functional as F
from test_contraction import fma_chain

# image, weight and what else: rows of the result are whole sticks of 32 in all but the last few
_CASES = {
    "padded": ((2, 4, 6, 32), (5, 4, 3, 3), {"padding": 1}),
    "one image": ((1, 3, 5, 64), (4, 3, 3, 3), {"padding": 1}),
    "not padded": ((2, 4, 9, 66), (5, 4, 3, 3), {}),
    "no square": ((2, 4, 6, 64), (5, 4, 2, 5), {"padding": (1, 2)}),
    "more padding than kernel": ((1, 2, 4, 30), (3, 2, 3, 3), {"padding": (4, 2)}),
    "strided": ((2, 4, 9, 64), (5, 4, 3, 3), {"padding": 1, "stride": 2}),
    "strided further than the kernel": ((1, 3, 20, 96), (4, 3, 2, 2), {"stride": 3}),
    "dilated along rows": ((2, 4, 6, 64), (5, 4, 3, 3), {"padding": (1, 3), "dilation": (1, 3)}),
    "dilated across rows": ((2, 4, 9, 32), (5, 4, 3, 3), {"padding": (2, 1), "dilation": (2, 1)}),
    "in groups": ((2, 6, 5, 32), (4, 3, 3, 3), {"padding": 1, "groups": 2}),
    "depthwise": ((2, 6, 5, 64), (6, 1, 3, 3), {"padding": 1, "groups": 6}),
    "depthwise, one image": ((1, 3, 40, 128), (3, 1, 5, 5), {"padding": 2, "groups": 3}),
    "depthwise, two of each": ((2, 3, 5, 64), (6, 1, 3, 3), {"padding": 1, "groups": 3}),
    "depthwise, strided and dilated": ((2, 3, 9, 67), (3, 1, 2, 3), {"stride": (1, 2), "dilation": (1, 2), "groups": 3}),
    "depthwise, in parts": ((3, 8, 60, 128), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    "in groups and parts": ((2, 6, 150, 64), (8, 3, 3, 3), {"padding": (1, 2), "dilation": (1, 2), "groups": 2}),
    "points": ((2, 5, 3, 64), (7, 5, 1, 1), {}),
    "points in groups": ((2, 6, 3, 32), (4, 3, 1, 1), {"groups": 2}),
    "points, whose sticks the cores of a product divide": ((3, 2, 5, 128), (10, 1, 1, 1), {"groups": 2}),
    "points, padded": ((2, 5, 3, 62), (7, 5, 1, 1), {"padding": 1}),
    "points, strided": ((2, 5, 3, 64), (7, 5, 1, 1), {"stride": 2}),
    "one dim": ((2, 4, 64), (5, 4, 3), {"padding": 1}),
    "one dim, depthwise": ((2, 4, 67), (4, 1, 4), {"groups": 4}),
    "one dim, strided": ((2, 4, 64), (5, 4, 3), {"padding": 1, "stride": 2}),
    "rows of no whole stick": ((2, 4, 6, 33), (5, 4, 3, 3), {"padding": 1}),
    "depthwise, rows of no whole stick": ((2, 4, 6, 50), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
}  # fmt: skip


def convolve(x, weight, bias=None, **geometry):
    return (F.conv2d if x.dim() == 4 else F.conv1d)(x, weight, bias, **geometry)


def draw(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("case", _CASES)
def test_float32_is_the_cpus(case, with_bias):
    size, kernel, geometry = _CASES[case]
    x, weight, bias = draw(size, 0), draw(kernel, 1), draw(kernel[:1], 2) if with_bias else None
    found = convolve(x.to("spyre"), weight.to("spyre"), None if bias is None else bias.to("spyre"), **geometry)
    want = convolve(x.double(), weight.double(), None if bias is None else bias.double(), **geometry)
    torch.testing.assert_close(found.cpu(), want.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", _CASES)
def test_float16_is_near_float32(case):
    size, kernel, geometry = _CASES[case]
    x, weight = draw(size, 0).half(), draw(kernel, 1).half()
    found = convolve(x.to("spyre"), weight.to("spyre"), **geometry).cpu().float()
    want = convolve(x.float(), weight.float(), **geometry)
    torch.testing.assert_close(found, want, rtol=2**-9, atol=2**-5)  # operands have 9 bits


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("case", ["padded", "depthwise", "points", "one dim"])
def test_nan_and_infinities_reach_what_they_meet(case, value):
    size, kernel, geometry = _CASES[case]
    x, weight = draw(size, 0), draw(kernel, 1)
    x.view(-1)[[0, 17, x.numel() - 1]] = value
    found = convolve(x.to("spyre"), weight.to("spyre"), **geometry).cpu()
    torch.testing.assert_close(found, convolve(x, weight, **geometry), rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.contiguous(memory_format=torch.channels_last),
        lambda x: x.transpose(2, 3),
        lambda x: x.repeat(2, 1, 1, 1)[::2],
        lambda x: F.pad(x, (5, 3))[..., 5:-3],
        lambda x: x[:1].expand_as(x),
    ],
    ids=["channels_last", "transposed", "every_other", "middle", "expanded"],
)
def test_float32_through_views(view):
    x, weight = draw((2, 4, 32, 32), 0), draw((5, 4, 3, 3), 1)
    found = F.conv2d(view(x.to("spyre")), weight.to("spyre"), padding=1)
    want = F.conv2d(view(x), weight, padding=1)
    assert found.stride() == want.stride()
    torch.testing.assert_close(found.cpu(), want, rtol=1e-4, atol=1e-4)


def chain(x, weight, order):
    """The products' sums one after the other (N5), k in an order of a window's dims: channels, rows and columns of the kernel."""
    each = weight.shape[1]
    windows = x.unfold(2, weight.shape[2], 1).unfold(3, weight.shape[3], 1)
    found = []
    for group, own in enumerate(weight.split(each)):
        met = windows[0, group * each : (group + 1) * each].permute(0, 3, 4, 1, 2).permute(*order, 3, 4)
        rows = own.permute(0, *(1 + dim for dim in order)).reshape(each, -1)
        found.append(fma_chain(rows, met.reshape(rows.shape[1], -1)))
    return torch.cat(found).view(1, len(weight), *windows.shape[2:4])


@pytest.mark.parametrize("groups", [1, 4])
def test_float32_is_a_chain_by_rows_columns_and_channels_of_the_kernel(groups):
    x, weight = draw((1, 4, 5, 34), 0), draw((4, 4 // groups, 2, 3), 1)
    found = F.conv2d(x.to("spyre"), weight.to("spyre"), groups=groups).cpu()
    assert torch.equal(found, chain(x, weight, (1, 2, 0)))


def test_a_chain_by_channels_rows_and_columns_of_the_kernel():
    x, weight = draw((1, 4, 5, 33), 0), draw((4, 4, 2, 3), 1)
    assert torch.equal(F.conv2d(x.to("spyre"), weight.to("spyre")).cpu(), chain(x, weight, (0, 1, 2)))


@pytest.mark.parametrize(
    "case", ["padded", "strided", "depthwise", "in groups", "dilated along rows", "points", "one dim"]
)
def test_gradients_of_float32_are_the_cpus(case):
    size, kernel, geometry = _CASES[case]
    found = []
    for device in ("cpu", "spyre"):
        leaves = [t.to(device).requires_grad_() for t in (draw(size, 0), draw(kernel, 1), draw(kernel[:1], 2))]
        result = convolve(*leaves, **geometry)
        (result * torch.linspace(-1, 1, result.numel(), device=device).view_as(result)).sum().backward()
        found.append([leaf.grad.cpu() for leaf in leaves])
    for got, want in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
