"""Scaled dot-product attention without gradients: scores, weights and their sum over the values as one program.

Heads that share keys and values (grouped queries) are a dim along which keys and values do not move: nothing is repeated in
memory. csrc/torch/attention.cpp sends only calls here that this lowering takes; the rest is torch's own composition.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from openspyre.compiler.ir import Access, Dim, Iota, Op, Operand
from openspyre.spec.addressing import row_major
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, dtype_name, on_card
from torch_spyre.ops.plans import CallPlan


def serves(binding: Binding) -> bool:
    return {"query", "key", "value", "attn_bias", "is_causal"} <= {argument.name for argument in binding.arguments}


def compile_call(call: Call) -> CallPlan | None:
    query, key, value, mask = (call.given[name] for name in ("query", "key", "value", "attn_bias"))
    if call.given["dropout_p"] != 0 or not all(on_card(t) and t.dtype == query.dtype for t in (query, key, value)):
        return None
    shape = (*query.shape[:-1], value.shape[-1])
    call.outcomes = (torch.empty_strided(shape, _strides_in_order(shape, query), dtype=query.dtype, device="meta"),)
    heads = _Heads(query, key)
    scale = call.given["scale"]
    builder = ProgramBuilder(call)
    scores = _scores(builder, heads, query, key)
    weights = _weights(call, builder, heads, scores, query.shape[-1] ** -0.5 if scale is None else scale, mask)
    dims = (*heads.batch, Dim("m", query.shape[-2]), Dim("n", value.shape[-1]), Dim("k", key.shape[-2], reduced=True))
    first = Access(weights.buffer, 0, _insert(weights.strides, -1, 0), weights.dtype)
    second = builder.read(value, (*heads.shared(value.stride()[:-2]), 0, value.stride(-1), value.stride(-2)))
    own = call.result.stride
    target = builder.result((*heads.split(own[:-2]), own[-2], own[-1], 0))
    builder.add(Op("attention", "batchmatmul", dims, (first, second), (target,)))
    return builder.plan()


class _Heads:
    """The dims before the last two: batch, heads of the keys, and the queries' heads per head of the keys."""

    def __init__(self, query: torch.Tensor, key: torch.Tensor) -> None:
        outer = tuple(query.shape[:-2])
        self.group = outer[-1] // key.shape[-3]
        sizes = (*outer[:-1], key.shape[-3], self.group)
        self.batch = tuple(Dim(f"b{i}", extent) for i, extent in enumerate(sizes))

    def split(self, strides: Sequence[int]) -> tuple[int, ...]:
        """Strides of a tensor with the queries' heads."""
        return (*strides[:-1], strides[-1] * self.group, strides[-1])

    def shared(self, strides: Sequence[int]) -> tuple[int, ...]:
        """Strides of a tensor with the keys' heads."""
        return (*strides, 0)


def _scores(builder: ProgramBuilder, heads: _Heads, query: torch.Tensor, key: torch.Tensor) -> Access:
    """query @ key^T, rounded; scaled later, in fp32."""
    dims = (*heads.batch, Dim("m", query.shape[-2]), Dim("n", key.shape[-2]), Dim("k", query.shape[-1], reduced=True))
    first = builder.read(query, (*heads.split(query.stride()[:-2]), query.stride(-2), 0, query.stride(-1)))
    second = builder.read(key, (*heads.shared(key.stride()[:-2]), 0, key.stride(-2), key.stride(-1)))
    target = _temp(builder, "scores", dims[:-1], dtype_name(query.dtype))
    widened = Access(target.buffer, 0, (*target.strides, 0), target.dtype)
    builder.add(Op("scores", "batchmatmul", dims, (first, second), (widened,)))
    return target


def _weights(
    call: Call, builder: ProgramBuilder, heads: _Heads, scores: Access, scale: float, mask: torch.Tensor | None
) -> Access:
    query, key = call.given["query"], call.given["key"]
    dims = (*heads.batch, Dim("m", query.shape[-2]), Dim("n", key.shape[-2], reduced=True))
    inputs: list[Operand] = [scores]
    if mask is not None:
        strides = mask.expand(*query.shape[:-1], key.shape[-2]).stride()
        inputs.append(builder.read(mask, (*heads.split(strides[:-2]), *strides[-2:])))
    if call.given["is_causal"]:
        inputs.append(Iota(0, (*(0,) * len(heads.batch), -1, 1)))
    target = _temp(builder, "weights", dims, scores.dtype)
    builder.add(Op("weights", "attention_weights", dims, tuple(inputs), (target,), (("scale", float(scale)),)))
    return target


def _temp(builder: ProgramBuilder, name: str, dims: Sequence[Dim], dtype: str) -> Access:
    size = tuple(dim.size for dim in dims)
    return Access(builder.temp(name, dtype, size, row_major(size)), 0, row_major(size), dtype)


def _insert(strides: tuple[int, ...], place: int, stride: int) -> tuple[int, ...]:
    return (*strides[:place], stride, *strides[place:])


def _strides_in_order(shape: Sequence[int], like: torch.Tensor) -> tuple[int, ...]:
    """Dense strides in the order in which the dims of `like` lie in memory: queries by token give results by token."""
    strides, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda d: (like.stride(d), -d)):
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)
