"""Layers and modules: norms, convolutions, pools, buffers, tied parameters, nested modules."""

import torch
import torch.nn.functional as F
from graphs import graph, half, int64, single
from torch import nn


class Rotary(nn.Module):
    """A buffer that belongs to the module."""

    def __init__(self):
        super().__init__()
        self.register_buffer("inverse", 1.0 / 100.0 ** (torch.arange(0, 16, 2).float() / 16))

    def forward(self, x):
        angles = torch.arange(x.shape[-2], device=x.device).float()[:, None] * self.inverse
        return x * angles.cos() + x * angles.sin()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.embedding(tokens)))


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class WithConstant(nn.Module):
    """A tensor that is neither a parameter nor a buffer."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(16), requires_grad=False)

    def forward(self, x):
        return x * self.table + torch.tensor([0.5] * 16, device=x.device)


class Counting(nn.Module):
    """A buffer that the module writes in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        return x * self.calls


def nested():
    inner = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
    return nn.Sequential(Residual(inner), Residual(nn.Sequential(nn.RMSNorm(16), nn.Linear(16, 16))), nn.LayerNorm(16))


def forward(module, *inputs):
    return module.eval()(*inputs)


@torch.no_grad()
def evaluated(module, *inputs):
    return module.eval()(*inputs)


IMAGE, SIGNAL = single(2, 4, 9, 11), single(2, 4, 20)


def stacked(norm_first):
    """Batches second, as is the default: layers turn their results."""
    return nn.Sequential(*(nn.TransformerEncoderLayer(64, 2, 96, norm_first=norm_first) for _ in range(2)))


GRAPHS = (
    graph("layer_norm", lambda x, w, b: F.layer_norm(x, (70,), w, b), half(8, 5, 70), half(70), half(70)),
    graph("layer_norm_bare", lambda x: F.layer_norm(x, (70,)) * 2, half(8, 70)),
    graph("layer_norm_of_two_dims", lambda x: F.layer_norm(x, (5, 33)), half(4, 5, 33)),
    graph("layer_norm_in_fp32", lambda x, w, b: F.layer_norm(x, (37,), w, b), single(8, 37), single(37), single(37)),
    graph("rms_norm", lambda x, w: F.rms_norm(x, (70,), w) + x, half(8, 5, 70), half(70)),
    graph("rms_norm_bare", lambda x: F.rms_norm(x, (70,), eps=1e-3), half(8, 70)),
    graph("residual_and_norm", lambda x, y, w: F.rms_norm(x + y, (70,), w) * (x + y), half(4, 70), half(4, 70), half(70)),
    graph("batch_norm", lambda x, w, b: F.batch_norm(x, torch.zeros_like(w), torch.ones_like(w), w, b), half(2, 6, 5, 5), half(6), half(6)),
    graph("batch_norm_of_training", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training=True), single(4, 6, 5), single(6), single(6, low=0.5), single(6), single(6)),
    graph("group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), half(2, 6, 5, 5), half(6), half(6)),
    graph("instance_norm", lambda x: F.instance_norm(x), single(2, 4, 6, 5),
          other_bits="the compiler lays a tensor inside a launch out in another way than eager, and N6 adds along sticks in lanes"),
    graph("conv2d", lambda x, w, b: F.conv2d(x, w, b, padding=1), IMAGE, single(8, 4, 3, 3), single(8)),
    graph("conv2d_in_fp16", lambda x, w: F.conv2d(x, w), half(2, 4, 9, 11), half(8, 4, 3, 3, low=-0.5, high=0.5)),
    graph("conv2d_strided", lambda x, w: F.conv2d(x, w, stride=2, padding=(1, 2)), IMAGE, single(8, 4, 3, 3)),
    graph("conv2d_dilated", lambda x, w: F.conv2d(x, w, dilation=(2, 3)).relu(), IMAGE, single(8, 4, 3, 3)),
    graph("conv2d_grouped", lambda x, w, b: F.conv2d(x, w, b, groups=2), IMAGE, single(8, 2, 3, 3), single(8)),
    graph("conv2d_depthwise", lambda x, w: F.conv2d(x, w, padding=1, groups=4), IMAGE, single(4, 1, 3, 3)),
    graph("conv2d_by_rows", lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(), single(2, 4, 5, 32), single(8, 4, 3, 3), single(8)),
    graph("conv2d_depthwise_by_rows", lambda x, w: F.conv2d(x, w, padding=1, groups=4) * 2, single(2, 4, 5, 64), single(8, 1, 3, 3)),
    graph("conv2d_of_patches", lambda x, w, b: F.conv2d(x, w, b, stride=3).flatten(2).mT, single(2, 3, 9, 12), single(16, 3, 3, 3), single(16)),
    graph("conv2d_pointwise", lambda x, w: F.conv2d(x, w) + 1, IMAGE, single(8, 4, 1, 1)),
    graph("conv2d_without_batch", lambda x, w: F.conv2d(x, w), single(4, 9, 11), single(8, 4, 3, 3)),
    graph("conv1d", lambda x, w, b: F.gelu(F.conv1d(x, w, b, padding=1)), SIGNAL, single(8, 4, 3), single(8)),
    graph("conv1d_strided", lambda x, w: F.conv1d(x, w, stride=2, padding=1), SIGNAL, single(8, 4, 3)),
    graph("conv1d_causal", lambda x, w: F.conv1d(F.pad(x, (3, 0)), w, groups=4), SIGNAL, single(4, 1, 4)),
    graph("avg_pool2d", lambda x: F.avg_pool2d(x, 2) + F.avg_pool2d(x, 3, stride=2, padding=1)[..., :4, :5], IMAGE),
    graph("max_pool2d", lambda x: F.max_pool2d(x, 2) + 1, IMAGE),
    graph("max_pool2d_padded", lambda x: F.max_pool2d(x, 3, stride=2, padding=1), IMAGE),
    graph("adaptive_pool", lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), IMAGE),
    graph("adaptive_pool_of_parts", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGE),
    graph("dropout_of_evaluation", lambda x: F.dropout(x, 0.5, False) * 2, half(4, 33)),
    graph("nested_modules", evaluated, single(5, 16), module=nested),
    graph("nested_modules_with_gradients", forward, single(5, 16), module=nested),
    graph("tied_parameters", evaluated, int64(2, 5, high=20), module=Tied),
    graph("buffer_of_a_module", evaluated, single(2, 6, 8), module=Rotary),
    graph("buffer_written_in_place", evaluated, single(2, 3), module=Counting),
    graph("constant_in_a_module", evaluated, single(4, 16), module=WithConstant),
    graph("encoder_layer", evaluated, single(2, 5, 16), module=lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)),
    graph("two_encoder_layers", evaluated, single(2, 5, 64), module=lambda: stacked(norm_first=False)),
    graph("two_encoder_layers_normalised_first", evaluated, single(2, 5, 64), module=lambda: stacked(norm_first=True)),
    graph("multi_head_attention", lambda m, x: m(x, x, x, need_weights=False)[0], single(2, 5, 16), module=lambda: nn.MultiheadAttention(16, 2, batch_first=True)),
    graph("small_convolutional_net", evaluated, single(2, 3, 8, 8),
          module=lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5))),
    graph("lstm_cell", evaluated, single(3, 8), module=lambda: nn.LSTMCell(8, 16)),
    graph("gru_cell", evaluated, single(3, 8), module=lambda: nn.GRUCell(8, 16)),
    graph("bilinear_upsampling", lambda x: F.interpolate(x, size=(6, 8), mode="bilinear", align_corners=False), single(1, 2, 3, 4)),
)  # fmt: skip
