"""The blocks that compiled graphs are measured on: written as models write them, in plain torch operators."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Cache = list[tuple[Tensor, Tensor]]


class RMSNorm(nn.Module):
    """The norm of Llama-style models, which compute it in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width) * 0.1 + 1)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def rotary_angles(tokens: int, head: int, first: int = 0) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the places first, first + 1, ..."""
    frequencies = 1e4 ** (-torch.arange(head // 2) / (head // 2))
    angles = torch.outer(torch.arange(first, first + tokens), frequencies)
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class LlamaLayer(nn.Module):
    """Attention with rotary places and an optional cache, then a gated MLP; both around a residual."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        names = ("query", "key", "value", "output")
        self.attention = nn.ModuleDict({name: nn.Linear(width, width, bias=False) for name in names})
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        self.before_attention, self.before_mlp = RMSNorm(width), RMSNorm(width)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, cache: tuple[Tensor, Tensor] | None = None, at: Tensor | None = None
    ) -> Tensor:
        batch, tokens, width = x.shape
        normed = self.before_attention(x)
        query, key, value = (
            self.attention[name](normed).view(batch, tokens, self.heads, -1).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        query, key = rotated(query, cos, sin), rotated(key, cos, sin)
        if cache is not None:
            cache[0].index_copy_(2, at, key)
            cache[1].index_copy_(2, at, value)
            key, value = cache
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=cache is None)
        x = x + self.attention["output"](mixed.transpose(1, 2).reshape(batch, tokens, width))
        normed = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class LlamaStack(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(LlamaLayer(width, heads, inner) for _ in range(layers))

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None = None, at: Tensor | None = None
    ) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x, cos, sin, None if cache is None else cache[number], at)
        return x


class GeluMLP(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(x)))


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.joint, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        query, key, value = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in self.joint(x).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, tokens, width))


class MaskedSoftmax(nn.Module):
    """Scores scaled, masked and normalised, as attention was written before it had an operator."""

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return F.softmax(scores * 0.125 + mask, -1)


class NormBlock(nn.Module):
    """A residual, the norm over it, and a gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.norm(x + y) * torch.sigmoid(y)
