"""Graphs that plans are compared on, and their programs before any pass: compiled for the null card, so that no memory is taken."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.blocks import GeluMLP, RMSNorm, rotary_angles, rotated
from openspyre.compiler import pipeline
from openspyre.compiler.ir import Program

VOCABULARY, WIDTH, LAYERS = 49152, 4096, 40  # Granite 3.3 8B


class SwiGLU(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class GraniteLayer(nn.Module):
    """A layer of Granite 3.3 8B: 32 heads of which 4 share a key, and residuals times 0.22."""

    def __init__(self, width: int = WIDTH, heads: int = 32, keys: int = 8, inner: int = 12800) -> None:
        super().__init__()
        self.heads, self.keys = heads, keys
        narrow = keys * width // heads
        self.query, self.output = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(width, narrow, bias=False) for _ in range(2))
        self.mlp = SwiGLU(width, inner)
        self.before_attention, self.before_mlp = RMSNorm(width), RMSNorm(width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, *cache: Tensor) -> Tensor:
        """`cache`: keys, values, where the new token goes, and the mask."""
        batch, tokens, width = x.shape
        normed = self.before_attention(x)
        query = self.query(normed).view(batch, tokens, self.heads, -1).transpose(1, 2)
        key, value = (
            linear(normed).view(batch, tokens, self.keys, -1).transpose(1, 2) for linear in (self.key, self.value)
        )
        query, key = rotated(query, cos, sin), rotated(key, cos, sin)
        mask = None
        if cache:
            keys, values, at, mask = cache
            keys.index_copy_(2, at, key)
            values.index_copy_(2, at, value)
            key, value = keys, values
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=0.0078125, enable_gqa=True
        )
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, tokens, width)) * 0.22
        return x + self.mlp(self.before_mlp(x)) * 0.22


class NormAndProduct(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.norm(x))


class GraniteHead(nn.Module):
    """The last norm and the logits of the last token."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.logits = RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(self.norm(x[:, -1:])) / 16.0


@dataclass(frozen=True, slots=True)
class Graph:
    name: str
    function: Callable[..., Any]
    inputs: tuple[Tensor, ...]


def on_card(module: Callable[[], nn.Module]) -> nn.Module:
    """Random weights cost time, and the null card reads as 0 anyhow."""
    with torch.device("meta"):
        made = module()
    return made.half().to_empty(device="spyre").requires_grad_(False)


def empty(*size: int) -> Tensor:
    return torch.empty(size, dtype=torch.float16, device="spyre")


def places(tokens: int, first: int = 0) -> tuple[Tensor, Tensor]:
    cos, sin = (part.half().to("spyre") for part in rotary_angles(tokens, 128, first))
    return cos, sin


def decoding_inputs(cached: int) -> tuple[Tensor, ...]:
    cache = (
        empty(1, 8, cached, 128),
        empty(1, 8, cached, 128),
        torch.tensor([128]).to("spyre"),
        empty(1, 1, 1, cached),
    )
    return (empty(1, 1, WIDTH), *places(1, 128), *cache)


def _attention(tokens: int, keys: int, *, causal: bool) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)

    return attention, (empty(1, 32, tokens, 128), empty(1, 32, keys, 128), empty(1, 32, keys, 128))


def graphs() -> list[Graph]:
    """What the issue of plans asks about."""
    layer = on_card(GraniteLayer)
    return [
        Graph("softmax 4096x2048", lambda x: torch.softmax(x, -1), (empty(4096, 2048),)),
        Graph("layer norm 2048x4096", on_card(lambda: nn.LayerNorm(4096)), (empty(2048, 4096),)),
        Graph("SwiGLU 512x4096", on_card(lambda: SwiGLU(4096, 12800)), (empty(1, 512, 4096),)),
        Graph("attention, prefill 512", *_attention(512, 512, causal=True)),
        Graph("attention, prefill 2048", *_attention(2048, 2048, causal=True)),
        Graph("attention, decode at 2048", *_attention(1, 2048, causal=False)),
        Graph("Granite layer, prompt 128", layer, (empty(1, 128, WIDTH), *places(128))),
        Graph("Granite layer, decode", layer, decoding_inputs(256)),
        Graph("Granite layer, prompt 2048", layer, (empty(1, 2048, WIDTH), *places(2048))),
        Graph("SwiGLU 8192x4096", on_card(lambda: SwiGLU(4096, 12800)), (empty(1, 8192, 4096),)),
        Graph("GELU MLP 8192x1024", on_card(lambda: GeluMLP(1024, 4096)), (empty(8192, 1024),)),
        Graph("norm and product 8192x4096", on_card(NormAndProduct), (empty(8192, WIDTH),)),
        Graph("attention without a mask, 2048", *_attention(2048, 2048, causal=False)),
    ]


def programs_of(graph: Graph) -> list[Program]:
    """What the compiler is given for each launch."""
    found: list[Program] = []
    run = pipeline.run

    def watched(program: Program, *arguments: Any, **options: Any) -> Program:
        found.append(program)
        return run(program, *arguments, **options)

    torch.compiler.reset()
    pipeline.run = watched
    try:
        with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.compile(graph.function)(*graph.inputs)
    finally:
        pipeline.run = run
    return found
