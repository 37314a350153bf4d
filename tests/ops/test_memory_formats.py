"""A memory format is a statement about strides, and strides are the host's: values and strides are those of torch on the CPU."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

LAST = torch.channels_last
LAST_3D = torch.channels_last_3d


def _last(x):
    return x.contiguous(memory_format=LAST)


_KEEPING = {
    "contiguous": _last,
    "clone": lambda x: x.clone(memory_format=LAST),
    "to": lambda x: x.to(memory_format=LAST),
    "to a dtype": lambda x: x.to(torch.float16, memory_format=LAST),
    "empty_like": lambda x: torch.empty_like(x, memory_format=LAST).zero_(),
    "zeros_like": lambda x: torch.zeros_like(_last(x)),
    "full_like": lambda x: torch.full_like(x, 2.0, memory_format=LAST),
    "empty": lambda x: torch.empty(2, 3, 4, 5, device=x.device, memory_format=LAST).fill_(1.0),
    "resize_": lambda x: x.clone().resize_(2, 3, 4, 5, memory_format=LAST).zero_(),
    "resize_ of nothing": lambda x: x.new_empty(0).resize_(2, 3, 4, 5, memory_format=LAST).fill_(3.0),
    "back": lambda x: _last(x).contiguous(),
    "add": lambda x: _last(x) + 1,
    "add mixed": lambda x: _last(x) + x,
    "relu": lambda x: F.relu(_last(x)),
    "in place": lambda x: _last(x).mul_(2).relu_(),
    "cast": lambda x: _last(x).half(),
    "where": lambda x: torch.where(_last(x) > 0, x, 0.0),
    "sum": lambda x: _last(x).sum(1, keepdim=True),
    "cat": lambda x: torch.cat([_last(x)] * 2, 1),
    "slice": lambda x: _last(x)[:, 1:3, ::2] * 2,
    "pad": lambda x: F.pad(_last(x), (1, 2, 0, 1)),
    "pad permuted": lambda x: F.pad(x.permute(0, 2, 3, 1), (1, 2, 0, 1), value=1.5),
    "max_pool2d": lambda x: F.max_pool2d(_last(x), 2),
    "max_pool2d permuted": lambda x: F.max_pool2d(x.permute(0, 3, 1, 2), 2, padding=1),
    "avg_pool2d": lambda x: F.avg_pool2d(_last(x), 2),
    "nearest": lambda x: F.interpolate(_last(x), scale_factor=2, mode="nearest"),
    "bilinear": lambda x: F.interpolate(_last(x), scale_factor=2, mode="bilinear"),
    "batch_norm": lambda x: F.batch_norm(_last(x), None, None, training=True),
    "group_norm": lambda x: F.group_norm(_last(x), 5),
    "conv2d": lambda x: F.conv2d(_last(x), torch.ones(4, 5, 3, 3, device=x.device)),
    "conv2d with such a weight": lambda x: F.conv2d(x, _last(torch.ones(4, 5, 3, 3, device=x.device))),
    "channels_last_3d": lambda x: x.unsqueeze(2).contiguous(memory_format=LAST_3D) * 2,
}


@pytest.mark.parametrize("name", _KEEPING)
def test_values_and_strides_are_the_cpus(name):
    x = torch.randn(2, 5, 6, 8, dtype=torch.float32)
    want, got = _KEEPING[name](x.clone()), _KEEPING[name](x.to("spyre"))
    torch.testing.assert_close(got.cpu(), want, rtol=1e-3, atol=1e-3)
    assert got.device.type == "spyre"
    assert got.stride() == want.stride()


@pytest.mark.parametrize("name", [n for n in _KEEPING if "pool" in n or n in ("pad", "nearest", "bilinear", "conv2d")])
def test_gradients_arrive(name):
    torch.spyre.set_fallback_mode("silent")  # pools and interpolations go back on the CPU
    x = torch.randn(2, 5, 6, 8)
    grads = []
    for device in ("cpu", "spyre"):
        leaf = x.clone().to(device).requires_grad_()
        _KEEPING[name](leaf).square().sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("size", [(0, 3, 4, 5), (1, 1, 1, 1), (2, 1, 3, 3), (2, 3, 1, 1), (2, 0, 4, 4)])
def test_sizes_of_zero_and_one(size):
    x = torch.ones(size)
    for make in (_last, lambda x: torch.empty_like(x, memory_format=LAST).fill_(1), lambda x: x.to(memory_format=LAST)):
        want, got = make(x), make(x.to("spyre"))
        assert got.stride() == want.stride() and torch.equal(got.cpu(), want)
        assert got.is_contiguous(memory_format=LAST) == want.is_contiguous(memory_format=LAST)


def test_a_module_is_told_once():
    torch.manual_seed(0)
    torch.spyre.set_fallback_mode("silent")
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 2, 2))
    card = copy.deepcopy(model).to("spyre").to(memory_format=LAST)
    x = torch.randn(2, 3, 9, 9)
    assert card[0].weight.is_contiguous(memory_format=LAST)
    both = [model.to(memory_format=LAST)(_last(x)), card(_last(x.to("spyre")))]
    torch.testing.assert_close(both[1].cpu(), both[0], rtol=1e-3, atol=1e-3)
    for result in both:
        result.sum().backward()
    for mine, theirs in zip(card.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-3)


def test_a_module_moves_and_is_told_in_one_call():
    torch.spyre.set_fallback_mode("silent")
    moved = nn.Conv3d(2, 3, 2).to("spyre", torch.float16, memory_format=LAST_3D)
    assert moved.weight.is_contiguous(memory_format=LAST_3D)
    assert moved(torch.ones(1, 2, 3, 3, 3, dtype=torch.float16, device="spyre")).shape == (1, 3, 2, 2, 2)


def test_the_wrong_rank_is_torchs_error():
    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        torch.empty(2, 3, device="spyre", memory_format=LAST)
    with pytest.raises(RuntimeError, match="required rank 5 tensor"):
        torch.empty(2, 3, 4, 5, device="spyre", memory_format=LAST_3D)
