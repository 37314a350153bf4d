"""Whole layers that torch.nn calls as one operator when it evaluates: composed of operators of the card.

nn.MultiheadAttention and nn.TransformerEncoderLayer take this way for every device of torch's list, and ours is on it; on the
CPU they would pull a whole layer to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

_PADDING_MASK = 1  # torch's mask types: 0 is [queries, keys], 1 is [batch, keys], 2 is [batch, heads, queries, keys]


def multi_head_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Projections, attention per head, projection. A mask is true (or not zero) where a key is not to be looked at."""
    projected = _project(query, key, value, qkv_weight, qkv_bias)
    q, k, v = (t.unflatten(-1, (num_head, -1)).transpose(1, 2) for t in projected)
    allowed = None if mask is None else ~_spread(mask.bool(), mask_type)
    weights = None
    if need_weights:
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        weights = F.softmax(scores if allowed is None else scores.masked_fill(~allowed, float("-inf")), -1)
        attended = weights @ v
    else:
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    result = F.linear(attended.transpose(1, 2).flatten(-2), proj_weight, proj_bias)
    return result, weights.mean(1) if weights is not None and average_attn_weights else weights


def _project(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    if query is key and key is value:
        return F.linear(query, weight, bias).chunk(3, -1)
    parts = zip((query, key, value), weight.chunk(3), bias.chunk(3), strict=True)
    return tuple(F.linear(x, w, b) for x, w, b in parts)


def _spread(mask: torch.Tensor, mask_type: int | None) -> torch.Tensor:
    return mask[:, None, None, :] if mask_type == _PADDING_MASK else mask


def transformer_encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """Attention and a feed-forward net, each with a residual; norms come before them or after the sums."""

    def first_norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attend(x: torch.Tensor) -> torch.Tensor:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return multi_head_attention(x, x, x, embed_dim, num_heads, *weights, mask, False, True, mask_type)[0]

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)

    if norm_first:
        attended = src + attend(first_norm(src))
        return attended + feed_forward(second_norm(attended))
    attended = first_norm(src + attend(src))
    return second_norm(attended + feed_forward(attended))


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "_native_multi_head_attention": multi_head_attention,
    "_transformer_encoder_layer_fwd": transformer_encoder_layer,
}
