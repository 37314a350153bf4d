"""Attention in the forms that models have it: masks, grouped heads, rotations, caches."""

import torch
import torch.nn.functional as F
from graphs import graph, half, single, truth

sdpa = F.scaled_dot_product_attention
Q, K = half(2, 4, 6, 16), half(2, 4, 9, 16)
GROUPED = half(2, 2, 9, 16)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def rope_of_llama(q, k, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def rope_of_granite(x, rotation):
    """Pairs times 2x2 rotations: view, unsqueeze, broadcast multiply, sum, flatten."""
    pairs = x.view(2, 6, 4, 8, 2)
    return (rotation[None, :, None] * pairs.unsqueeze(-2)).sum(-1).flatten(-2)


def rope_interleaved(x, cos, sin):
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def grouped_by_repeat(q, k, v):
    k, v = (t[:, :, None].expand(2, 2, 2, 9, 16).reshape(2, 4, 9, 16) for t in (k, v))
    return sdpa(q, k, v)


def block(x, qkv, out):
    q, k, v = (t.view(2, 6, 3, 16).transpose(1, 2) for t in F.linear(x, qkv).chunk(3, -1))
    return x + F.linear(sdpa(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 6, 48), out)


def alibi(q, k, v):
    slopes = 2.0 ** -torch.arange(1, 5, device=q.device, dtype=torch.float32)
    distance = torch.arange(9, device=q.device) - torch.arange(6, device=q.device)[:, None]
    bias = (slopes[:, None, None] * distance).to(q.dtype)
    return sdpa(q, k, v, attn_mask=bias[None])


def padding_mask(q, k, v, keep):
    mask = torch.zeros_like(keep, dtype=q.dtype).masked_fill(~keep, torch.finfo(torch.float16).min)
    return sdpa(q, k, v, attn_mask=mask[:, None, None, :])


def sliding_window(q):
    i = torch.arange(q.shape[2], device=q.device)
    near = (i[:, None] - i).abs() < 3
    return sdpa(q, q, q, attn_mask=near)


def softmax_with_sink(q, k, v, sink):
    scores = torch.cat([q @ k.mT * 0.25, sink[None, :, None, None].expand(2, 4, 6, 1)], -1)
    return scores.softmax(-1)[..., :-1] @ v


GRAPHS = (
    graph("sdpa", sdpa, Q, Q, Q),
    graph("sdpa_in_fp32", sdpa, single(2, 4, 6, 16), single(2, 4, 6, 16), single(2, 4, 6, 16)),
    graph("sdpa_causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), Q, Q, Q),
    graph("sdpa_with_bias", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), Q, K, K, half(6, 9)),
    graph("sdpa_with_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), Q, K, K, truth(2, 1, 6, 9)),
    graph("sdpa_scaled", lambda q, k, v: sdpa(q, k, v, scale=0.5) + q, Q, Q, Q),
    graph("sdpa_cross", sdpa, Q, K, K),
    graph("sdpa_grouped", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), Q, GROUPED, GROUPED),
    graph("sdpa_grouped_by_repeat", grouped_by_repeat, Q, GROUPED, GROUPED),
    graph("sdpa_of_three_dims", lambda q, k, v: sdpa(q, k, v), half(4, 6, 16), half(4, 9, 16), half(4, 9, 16)),
    graph("sdpa_of_one_query", lambda q, k, v: sdpa(q, k, v), half(2, 4, 1, 16), K, K),
    graph("sdpa_by_token", lambda q, k, v: sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2).flatten(2),
          half(2, 6, 4, 16), half(2, 9, 4, 16), half(2, 9, 4, 16)),
    graph("sdpa_other_value_size", lambda q, k, v: sdpa(q, k, v), Q, K, half(2, 4, 9, 24)),
    graph("rope_of_llama", rope_of_llama, Q, half(2, 2, 6, 16), half(2, 6, 16), half(2, 6, 16)),
    graph("rope_of_granite", rope_of_granite, half(2, 6, 64), half(6, 8, 2, 2)),
    graph("rope_interleaved", rope_interleaved, half(2, 4, 6, 16), half(6, 8), half(6, 8)),
    graph("attention_block", block, half(2, 6, 48), half(144, 48, low=-0.3, high=0.3), half(48, 48, low=-0.3, high=0.3)),
    graph("alibi", alibi, Q, K, K),
    graph("padding_mask", padding_mask, Q, K, K, truth(2, 9)),
    graph("sliding_window", sliding_window, Q),
    graph("softmax_with_sink", softmax_with_sink, Q, K, K, half(4)),
    graph("linear_attention", lambda q, k, v: (F.elu(q) + 1) @ ((F.elu(k) + 1).mT @ v), single(2, 4, 6, 16), single(2, 4, 9, 16), single(2, 4, 9, 16)),
    graph("relative_positions", lambda q, k, table: q @ k.mT + table[(torch.arange(9, device=q.device) - torch.arange(6, device=q.device)[:, None]) + 5].permute(2, 0, 1),
          Q, K, half(15, 4)),
)  # fmt: skip
