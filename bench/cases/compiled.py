"""Compiled blocks on the card in fp16, against the same module compiled by Inductor for the CPU in fp32."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from bench.blocks import GeluMLP, LlamaStack, MaskedSoftmax, NormBlock, SelfAttention, rotary_angles
from bench.registry import ONE, case
from bench.timing import Effort, Measurement, Pair

WIDTH, HEADS, INNER = 2048, 16, 5504
PROMPT, CACHED = 512, 1024


def _on_card(value: Any) -> Any:
    """Tensors of a nest of lists and tuples on the card, floats in fp16."""
    if isinstance(value, list | tuple):
        return type(value)(_on_card(item) for item in value)
    return (value.half() if value.is_floating_point() else value).to("spyre")


def _pair(module: nn.Module, *inputs: Any) -> Pair:
    """Both sides compile on their first call, before a clock runs."""
    torch.compiler.reset()
    module.eval().requires_grad_(False)
    on_card = copy.deepcopy(module).half().to("spyre")
    names = {"wait": torch.spyre.synchronize}
    ours = names | {"f": torch.compile(on_card, dynamic=False), "inputs": _on_card(inputs)}
    baseline = names | {"f": torch.compile(module, dynamic=False), "inputs": inputs}
    for side in (ours, baseline):
        side["f"](*side["inputs"])
    return Pair("f(*inputs); wait()", "f(*inputs)", ours, baseline)


def _prompt() -> tuple[Any, ...]:
    return torch.randn(1, PROMPT, WIDTH), *rotary_angles(PROMPT, WIDTH // HEADS)


@case("compiled Llama block, prefill of 512", asked=1.0, goal=0.9, baseline="CPU Inductor fp32")
def prefill(effort: Effort) -> Pair:
    return _pair(LlamaStack(1, WIDTH, HEADS, INNER), *_prompt())


def _decode(batch: int) -> Pair:
    head = WIDTH // HEADS
    cache = [tuple(torch.randn(batch, HEADS, CACHED, head) * 0.1 for _ in range(2))]
    angles = rotary_angles(1, head, CACHED - 1)
    return _pair(
        LlamaStack(1, WIDTH, HEADS, INNER), torch.randn(batch, 1, WIDTH), *angles, cache, torch.tensor([CACHED - 1])
    )


@case("compiled Llama block, decode with 1024 cached, batch 1", asked=0.55, goal=0.5, baseline="CPU Inductor fp32")
def decode_one(effort: Effort) -> Pair:
    return _decode(1)


@case("compiled Llama block, decode with 1024 cached, batch 4", asked=0.42, goal=0.3, baseline="CPU Inductor fp32")
def decode_four(effort: Effort) -> Pair:
    return _decode(4)


@case("compiled MLP block", asked=1.0, baseline="CPU Inductor fp32")
def mlp(effort: Effort) -> Pair:
    return _pair(GeluMLP(1024, 4096), torch.randn(256, 1024))


@case("compiled attention block", asked=1.0, baseline="CPU Inductor fp32")
def attention(effort: Effort) -> Pair:
    return _pair(SelfAttention(1024, 16), torch.randn(1, 512, 1024))


@case("compiled softmax block", asked=1.0, goal=0.75, baseline="CPU Inductor fp32")
def softmax(effort: Effort) -> Pair:
    mask = torch.full((PROMPT, PROMPT), -float("inf")).triu(1)
    return _pair(MaskedSoftmax(), torch.randn(16, PROMPT, PROMPT), mask)


@case("compiled layer-norm block", asked=1.1, goal=0.75, baseline="CPU Inductor fp32")
def layer_norm(effort: Effort) -> Pair:
    return _pair(NormBlock(WIDTH), torch.randn(PROMPT, WIDTH), torch.randn(PROMPT, WIDTH))


@case("compiled Llama block, peak device memory", asked=1.2, baseline="what must be there", threads=ONE)
def peak_memory(effort: Effort) -> Measurement:
    """Against weights, inputs, output, and the gated MLP's largest set: gate, up and the residual they are added to."""
    torch.compiler.reset()
    memory = torch.spyre.memory
    module = LlamaStack(1, WIDTH, HEADS, INNER).half().eval().requires_grad_(False).to("spyre")
    inputs = _on_card(_prompt())
    compiled = torch.compile(module, dynamic=False)
    compiled(*inputs)
    torch.spyre.synchronize()
    held = memory.memory_allocated()
    memory.reset_peak_memory_stats()
    kept = compiled(*inputs)
    torch.spyre.synchronize()
    del kept
    needed = 2 * PROMPT * (WIDTH + 3 * INNER + WIDTH)
    ratio = memory.max_memory_allocated() / (held + needed)
    return Measurement(ratio, ratio, ratio, 1)
