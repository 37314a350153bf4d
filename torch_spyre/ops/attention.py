"""Scaled dot-product attention without gradients: scores, weights and their sum over the values as one program.

Heads that share keys and values (grouped queries) are a dim along which keys and values do not move: nothing is repeated in
memory. Causal queries go block by block, so that half of the work is left out and a block's scores stay near.
csrc/torch/operators/attention.cpp sends only calls here that this lowering takes; the rest is torch's own composition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import copysign
from typing import NamedTuple

import torch

from openspyre.compiler.ir import Access, Constant, Dim, Iota, Op, Operand
from openspyre.spec.addressing import row_major
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, on_card
from torch_spyre.ops.plans import CallPlan

_LEAST_ROWS, _MOST_BLOCKS = 128, 8  # of causal queries: smaller blocks leave out more, larger ones have fewer steps
_WHOLE_ROWS = 64  # blocks begin at whole sticks of the mask


def serves(binding: Binding) -> bool:
    return {"query", "key", "value", "attn_bias", "is_causal"} <= {argument.name for argument in binding.arguments}


def compile_call(call: Call) -> CallPlan | None:
    query, key, value, mask = (call.given[name] for name in ("query", "key", "value", "attn_bias"))
    if call.given["dropout_p"] != 0 or not all(on_card(t) and t.dtype == query.dtype for t in (query, key, value)):
        return None
    shape = (*query.shape[:-1], value.shape[-1])
    call.outcomes = (torch.empty_strided(shape, _strides_in_order(shape, query), dtype=query.dtype, device="meta"),)
    heads, builder, scale = _Heads(query, key), ProgramBuilder(call), call.given["scale"]
    own = call.result.stride
    scale = float(query.shape[-1] ** -0.5 if scale is None else scale)
    root = abs(scale) ** 0.5
    attention = _Attention(
        builder,
        heads.batch,
        query=_scaled(
            builder, "query", query, copysign(root, scale), lambda s: (*heads.split(s[:-2]), s[-2], 0, s[-1])
        ),
        key=_scaled(builder, "key", key, root, lambda s: (*heads.shared(s[:-2]), 0, s[-2], s[-1])),
        value=builder.read(value, (*heads.shared(value.stride()[:-2]), 0, value.stride(-1), value.stride(-2))),
        mask=None if mask is None else _mask(builder, heads, mask, (*query.shape[:-1], key.shape[-2])),
        target=builder.result((*heads.split(own[:-2]), own[-2], own[-1], 0)),
        widths=(query.shape[-1], value.shape[-1]),
        causal=None,
    )
    blocks = list(_row_blocks(query.shape[-2], key.shape[-2], causal=call.given["is_causal"]))
    if call.given["is_causal"] and blocks:
        attention = replace(attention, causal=_causal_mask(builder, attention.query.dtype, blocks))
    for rows in blocks:
        attention.add(rows)
    return builder.plan()


def _scaled(
    builder: ProgramBuilder,
    name: str,
    tensor: torch.Tensor,
    factor: float,
    along: Callable[[Sequence[int]], tuple[int, ...]],
) -> Access:
    """Queries and keys times the root of the scale, rounded, as the documents decompose attention; `along` has the product's dims."""
    size = tuple(extent if stride else 1 for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(size))
    source, own = builder.read(tensor, tensor.stride()), row_major(size)
    temp = Access(builder.temp(name, source.dtype, size, own), 0, own, source.dtype)
    builder.add(Op(f"scaled_{name}", "mul", dims, (source, Constant.of(factor, source.dtype)), (temp,)))
    return replace(temp, strides=along(tuple(0 if n == 1 else s for n, s in zip(size, own, strict=True))))


class _Rows(NamedTuple):
    """Queries first, first + 1, ... and the keys from the first on that any of them may look at."""

    first: int
    queries: int
    keys: int


def _row_blocks(queries: int, keys: int, *, causal: bool) -> Iterator[_Rows]:
    """Causal queries block by block: a block leaves out the keys behind its last query, whose weights would be 0."""
    least = max(_LEAST_ROWS, -(-queries // _MOST_BLOCKS))
    rows = -(-least // _WHOLE_ROWS) * _WHOLE_ROWS if causal else max(queries, 1)
    for first in range(0, queries, rows):
        count = min(rows, queries - first)
        yield _Rows(first, count, min(keys, first + count) if causal else keys)


class _CausalMask(NamedTuple):
    """0 up to a query's own place and -inf behind it: a block's rows, and the last block's keys. Other blocks see it from further on."""

    access: Access  # along queries and keys
    last: int  # first query of the last block

    def seen_from(self, rows: _Rows, batch: int) -> Access:
        """The mask of a block: only how far a key lies from a query matters."""
        own = self.access
        return replace(own, offset=self.last - rows.first, strides=(*(0,) * batch, *own.strides))


def _causal_mask(builder: ProgramBuilder, dtype: str, blocks: Sequence[_Rows]) -> _CausalMask:
    last, size = blocks[-1].first, (blocks[0].queries, blocks[-1].first + blocks[0].queries)
    dims = (Dim("m", size[0]), Dim("n", size[1]))
    mask = Access(builder.temp("mask", dtype, size, row_major(size)), 0, row_major(size), dtype)
    builder.add(Op("mask", "causal_mask", dims, (Iota(-last, (-1, 1)),), (mask,)))
    return _CausalMask(mask, last)


@dataclass(frozen=True, slots=True)
class _Attention:
    """The accesses of the whole call, over batch, m, n and k, of which each block of queries has its part."""

    builder: ProgramBuilder
    batch: tuple[Dim, ...]
    query: Access
    key: Access
    value: Access
    mask: Access | None
    target: Access
    widths: tuple[int, int]  # of queries and keys, and of values
    causal: _CausalMask | None

    def add(self, rows: _Rows) -> None:
        scores = self._scores(rows)
        weights = self._weights(rows, scores)
        dims = (*self._dims(rows), Dim("n", self.widths[1]), Dim("k", rows.keys, reduced=True))
        first = replace(weights, strides=_insert(weights.strides, -1, 0))
        self._op("attention", rows, dims, "batchmatmul", (first, self.value), _from(self.target, rows.first, -3))

    def _scores(self, rows: _Rows) -> Access:
        """query @ key^T, both scaled before, and rounded."""
        dims = (*self._dims(rows), Dim("n", rows.keys), Dim("k", self.widths[0], reduced=True))
        target = self._temp("scores", rows, dims[:-1])
        inputs = (_from(self.query, rows.first, -3), self.key)
        self._op("scores", rows, dims, "batchmatmul", inputs, replace(target, strides=(*target.strides, 0)))
        return target

    def _weights(self, rows: _Rows, scores: Access) -> Access:
        dims = (*self._dims(rows), Dim("n", rows.keys, reduced=True))
        inputs: list[Operand] = [scores]
        if self.mask is not None:
            inputs.append(_from(self.mask, rows.first, -2))
        if self.causal is not None:
            inputs.append(self.causal.seen_from(rows, len(self.batch)))
        target = self._temp("weights", rows, dims)
        self._op("weights", rows, dims, "attention_weights", tuple(inputs), target)
        return target

    def _dims(self, rows: _Rows) -> tuple[Dim, ...]:
        return (*self.batch, Dim("m", rows.queries))

    def _temp(self, name: str, rows: _Rows, dims: Sequence[Dim]) -> Access:
        size = tuple(dim.size for dim in dims)
        name = self.builder.temp(_numbered(name, rows), self.query.dtype, size, row_major(size))
        return Access(name, 0, row_major(size), self.query.dtype)

    def _op(
        self,
        name: str,
        rows: _Rows,
        dims: tuple[Dim, ...],
        row: str,
        inputs: tuple[Operand, ...],
        target: Access,
    ) -> None:
        self.builder.add(Op(_numbered(name, rows), row, dims, inputs, (target,)))


def _numbered(name: str, rows: _Rows) -> str:
    return f"{name}{rows.first or ''}"


def _from(access: Access, row: int, dim: int) -> Access:
    return replace(access, offset=access.offset + row * access.strides[dim])


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


def _mask(builder: ProgramBuilder, heads: _Heads, mask: torch.Tensor, shape: tuple[int, ...]) -> Access:
    strides = mask.expand(shape).stride()
    return builder.read(mask, (*heads.split(strides[:-2]), *strides[-2:]))


def _insert(strides: tuple[int, ...], place: int, stride: int) -> tuple[int, ...]:
    return (*strides[:place], stride, *strides[place:])


def _strides_in_order(shape: Sequence[int], like: torch.Tensor) -> tuple[int, ...]:
    """Dense strides in the order in which the dims of `like` lie in memory: queries by token give results by token."""
    strides, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda d: (like.stride(d), -d)):
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)
