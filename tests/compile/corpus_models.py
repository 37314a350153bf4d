"""Blocks of well-known models in fp16, as their users write them."""

import math

import torch
import torch.nn.functional as F
from graphs import graph, half, int64
from torch import nn


class RMSNorm(nn.Module):
    """In float32, as Hugging Face has it."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def rotated(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


class Llama(nn.Module):
    """Angles are given, or computed here of the places; attention is torch's, or written out."""

    def __init__(self, width=128, heads=4, groups=2, inner=256, by_hand=False):
        super().__init__()
        self.heads, self.groups, self.head, self.by_hand = heads, groups, width // heads, by_hand
        self.before, self.between = RMSNorm(width), RMSNorm(width)
        self.query, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(width, groups * self.head, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        self.register_buffer("inverse", 1.0 / 1e4 ** (torch.arange(0, self.head, 2) / self.head))

    def angles(self, x):
        places = torch.arange(x.shape[1], device=x.device).float()
        angles = places[:, None] * self.inverse.float()
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def attended(self, query, key, value):
        if not self.by_hand:
            return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        key, value = (part.repeat_interleave(self.heads // self.groups, 1) for part in (key, value))
        places = query.shape[2]
        mask = torch.full((places, places), float("-inf"), device=query.device, dtype=query.dtype).triu(1)
        scores = (query @ key.mT) / math.sqrt(self.head) + mask
        return scores.float().softmax(-1).to(query.dtype) @ value

    def forward(self, x, cos=None, sin=None):
        batch, places, width = x.shape
        cos, sin = self.angles(x) if cos is None else (cos, sin)
        normed = self.before(x)
        query, key, value = (
            part(normed).view(batch, places, -1, self.head).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        query, key = (part * cos + rotated(part) * sin for part in (query, key))
        x = x + self.out(self.attended(query, key, value).transpose(1, 2).reshape(batch, places, width))
        normed = self.between(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class GPT2(nn.Module):
    """With its own gelu."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, places, width = x.shape
        parts = self.joint(self.before(x)).split(width, -1)
        query, key, value = (part.view(batch, places, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, places, width))
        h = self.up(self.between(x))
        h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))
        return x + self.down(h)


class Bert(nn.Module):
    """Attention over places that a mask of numbers allows."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.parts, self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(3)), nn.Linear(width, width)
        self.after, self.last = (nn.LayerNorm(width, eps=1e-5) for _ in range(2))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, places, width = x.shape
        away = (1.0 - mask[:, None, None, :].to(x.dtype)) * -6e4
        query, key, value = (part(x).view(batch, places, self.heads, -1).transpose(1, 2) for part in self.parts)
        weights = torch.softmax(query @ key.mT / math.sqrt(width // self.heads) + away, -1)
        x = self.after(x + self.out((weights @ value).transpose(1, 2).reshape(batch, places, width)))
        return self.last(x + self.down(F.gelu(self.up(x))))


class Tied(nn.Module):
    """Words, places, a norm, and a head with the words' weights."""

    def __init__(self, words=100, places=64, width=128):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.words(tokens) + self.places(places)))


class Patches(nn.Module):
    """How a vision transformer begins."""

    def __init__(self, width=128):
        super().__init__()
        self.cut = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width))

    def forward(self, image):
        patches = self.cut(image).flatten(2).transpose(1, 2)
        return torch.cat((self.first.expand(len(image), -1, -1), patches), 1) + self.places


class Residual(nn.Module):
    """A block of a ResNet."""

    def __init__(self, channels=64):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        inner = F.relu(self.norms[0](self.first(x)))
        return F.relu(x + self.norms[1](self.second(inner)))


def in_fp16(make):
    return lambda: make().half()


@torch.no_grad()
def evaluated(module, *inputs):
    return module.eval()(*inputs)


def gradients_of_parameters(module, x, y):
    loss = F.mse_loss(module(x), y)
    return (loss.detach(), *torch.autograd.grad(loss, list(module.parameters())))


TOKENS = half(2, 64, 128)

GRAPHS = (
    graph("llama", evaluated, TOKENS, half(64, 32), half(64, 32), module=in_fp16(Llama)),
    graph("llama_with_angles", evaluated, TOKENS, module=in_fp16(Llama)),
    graph("llama_by_hand", evaluated, TOKENS, half(64, 32), half(64, 32), module=in_fp16(lambda: Llama(by_hand=True))),
    graph("llama_with_wide_heads", evaluated, half(2, 37, 256), half(37, 128), half(37, 128), module=in_fp16(lambda: Llama(256, 2, 1, 512))),
    graph("gpt2", evaluated, TOKENS, module=in_fp16(GPT2)),
    graph("bert", evaluated, TOKENS, half(2, 64, low=0, high=1).seen(torch.round), module=in_fp16(Bert)),
    graph("bert_with_a_mask_of_integers", evaluated, TOKENS, int64(2, 64, high=2), module=in_fp16(Bert)),
    graph("embeddings_and_tied_head", evaluated, int64(2, 16, high=100), module=in_fp16(Tied)),
    graph("vision_patches", evaluated, half(2, 3, 64, 64), module=in_fp16(Patches)),
    graph("resnet_block", evaluated, half(2, 64, 14, 14), module=in_fp16(Residual)),
    graph("resnet_block_in_training", lambda m, x: m.train()(x), half(2, 64, 14, 14), module=in_fp16(Residual)),
    graph("lstm_cell_in_fp16", evaluated, half(8, 64), module=in_fp16(lambda: nn.LSTMCell(64, 128))),
    graph("gru_cell_in_fp16", evaluated, half(8, 64), module=in_fp16(lambda: nn.GRUCell(64, 128))),
    graph("mlp_with_gradients", gradients_of_parameters, half(16, 64), half(16, 10), bundles=2,
          module=in_fp16(lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))),
)  # fmt: skip
