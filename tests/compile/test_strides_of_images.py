"""Results of operators on images have the strides that torch gives them on the CPU: eager, described by fake tensors, and compiled."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
LAST, LAST_3D = torch.channels_last, torch.channels_last_3d


def _weight(x, *size):
    return torch.full(size, 0.1, device=x.device, dtype=x.dtype)


_OPERATORS = {
    "places of numbers": lambda x: torch.nonzero_static(x > 1, size=20),
    "conv2d": lambda x: F.conv2d(x, _weight(x, 4, 8, 3, 3)),
    "conv2d with bias and padding": lambda x: F.conv2d(x, _weight(x, 4, 8, 3, 3), _weight(x, 4), 2, 1),
    "conv2d with such a weight": lambda x: F.conv2d(x, _weight(x, 4, 8, 3, 3).contiguous(memory_format=LAST)),
    "conv2d of points": lambda x: F.conv2d(x, _weight(x, 4, 8, 1, 1)),
    "conv2d to one channel": lambda x: F.conv2d(x, _weight(x, 1, 8, 1, 1)),
    "conv2d in groups": lambda x: F.conv2d(x, _weight(x, 8, 1, 3, 3), groups=8),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, _weight(x, 8, 4, 3, 3), stride=2),
    "conv_transpose2d with such a weight": lambda x: F.conv_transpose2d(
        x, _weight(x, 8, 4, 3, 3).contiguous(memory_format=LAST), stride=2
    ),
    "gradients of conv2d": lambda x: torch.ops.aten.convolution_backward(
        x, x, _weight(x, 8, 8, 1, 1), [8], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
    ),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (3, 3)),
    "adaptive_avg_pool2d to one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_avg_pool2d that does not divide": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (3, 3)),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "max_pool2d": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "area": lambda x: F.interpolate(x, size=(4, 5), mode="area"),
    "nearest": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)),
    "reflect": lambda x: F.pad(x, (1, 2, 0, 1), mode="reflect"),
    "group_norm": lambda x: F.group_norm(x, 4),
    "softmax": lambda x: x.softmax(1),
    "prelu": lambda x: F.prelu(x, _weight(x, 8)),
    "glu": lambda x: F.glu(x, 1),
    "cat": lambda x: torch.cat([x, x], 1),
    "sum": lambda x: x.sum(1, keepdim=True),
    "cumsum": lambda x: x.cumsum(1),
    "flip": lambda x: x.flip(2),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "half": lambda x: x.half(),
    "index_select": lambda x: x.index_select(1, torch.tensor([1, 0, 2], device=x.device)),
    "topk": lambda x: x.topk(2, 1),
    "conv1d": lambda x: F.conv1d(x[0], _weight(x, 4, 6, 3)),
    "conv1d with a turned weight": lambda x: F.conv1d(x[0], _weight(x, 4, 3, 6).mT),
    "conv3d": lambda x: F.conv3d(x.unsqueeze(2).contiguous(memory_format=LAST_3D), _weight(x, 4, 8, 1, 2, 2)),
}
_FORMATS = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=LAST),
    "turned": lambda x: x.permute(0, 1, 3, 2),
    "part of channels_last": lambda x: x.repeat(1, 1, 2, 1).contiguous(memory_format=LAST)[:, :, ::2],
    "batch inside": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
}
# torch's own fake tensors contradict its CPU here, and graphs have to believe them: roll, channel_shuffle, batch_norm of turned images.


def _strides(found):
    return [tensor.stride() for tensor in (found if isinstance(found, tuple) else (found,))]


def _image(name):
    return _FORMATS[name](torch.arange(2.0 * 8 * 6 * 6).reshape(2, 8, 6, 6) / 100)


@pytest.fixture(autouse=True)
def _silence():
    torch.spyre.set_fallback_mode("silent")  # some of them fall back


@pytest.mark.parametrize("name", _FORMATS)
def test_eager_and_fake_results_have_the_cpus_strides(name):
    x = _image(name)
    card = torch.empty_strided(x.shape, x.stride(), device="spyre").copy_(x)
    wrong = {}
    for operator, function in _OPERATORS.items():
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            described = _strides(function(mode.from_tensor(card)))
        told = {"cpu": _strides(function(x)), "eager": _strides(function(card)), "fake": described}
        if not told["cpu"] == told["eager"] == told["fake"]:
            wrong[operator] = told
    assert not wrong


@pytest.mark.parametrize("name", ["contiguous", "channels_last", "part of channels_last"])
def test_compiled_results_have_the_cpus_strides(name):
    x = _image(name)
    card = torch.empty_strided(x.shape, x.stride(), device="spyre").copy_(x)

    def all_of_them(x):
        return [function(x) for function in _OPERATORS.values()]

    for operator, want, got in zip(_OPERATORS, all_of_them(x), torch.compile(all_of_them)(card), strict=True):
        assert (operator, _strides(got)) == (operator, _strides(want))
        for mine, theirs in zip(_tensors(got), _tensors(want), strict=True):
            torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-2, atol=1e-2)


def _tensors(found):
    return found if isinstance(found, tuple) else (found,)
