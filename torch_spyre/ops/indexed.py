"""Gathers: embedding, index_select, gather, index, take, flip. Scatters are in scattered.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import torch

from openspyre.compiler.ir import Access, Dim, Iota, Op
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats, get_device_dtype
from openspyre.spec.layout import MAX_RANK
from torch_spyre.ops import scattered
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, aten_name, dtype_name, on_card
from torch_spyre.ops.index_tensors import counting_through, counts_through, flat, indexed_space, usable
from torch_spyre.ops.movement import flattened, move
from torch_spyre.ops.plans import CallPlan


def serves(binding: Binding) -> bool:
    name = aten_name(binding)
    return name in GATHERS or scattered.serves(binding)


def compile_call(call: Call) -> CallPlan | None:
    if scattered.serves(call.binding):
        return scattered.compile_call(call)
    indices = call.given.get("indices")
    if isinstance(indices, list) and not all(usable(index) for index in indices if index is not None):
        return None  # a mask: how much it finds depends on its values
    if call.outcome.dim() > MAX_RANK or get_device_dtype(call.outcome.dtype) is DataFormats.INVALID:
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    return builder.plan() if GATHERS[aten_name(call.binding)](call, builder) else None


def gather(
    builder: ProgramBuilder, size: tuple[int, ...], table: Access, count: int, step: int, index: Access, out: Access
) -> None:
    """out[i] = table[i + index[i] * step], -count <= index < count: one below 0 counts from the end."""
    dims = (*(Dim(f"d{d}", extent) for d, extent in enumerate(size)), Dim("index", count, reduced=True))
    longer = [
        replace(access, strides=(*access.strides, last)) for access, last in ((table, step), (index, 0), (out, 0))
    ]
    name = aten_name(builder.call.binding)
    builder.add(Op(f"{name}{len(builder.ops)}", "gather", dims, tuple(longer[:2]), (longer[2],)))


def _along(call: Call, builder: ProgramBuilder, x: torch.Tensor, dim: int, index: torch.Tensor) -> bool:
    """Whole slices of x along a dim."""
    if not (on_card(x) and usable(index)) or x.dim() == 0 or x.shape[dim] == 0:
        return False
    space = indexed_space(tuple(x.shape), (dim,), tuple(index.shape))
    table = _table(builder, x, (dim,))
    places = builder.read(index, space.index_strides(index.stride()))
    step, table = table.strides[dim], replace(table, strides=space.tensor_strides(table.strides))
    gather(builder, space.size, table, x.shape[dim], step, places, builder.result())
    return True


def _table(builder: ProgramBuilder, x: torch.Tensor, dims: tuple[int, ...]) -> Access:
    """The tensor, or a copy if no single stride counts through the dims that are indexed."""
    size, table = tuple(x.shape), builder.read(x, x.stride())
    if x.stride(dims[-1]) and counts_through(table.strides, size, dims):
        return table
    copy = counting_through(builder, "table", size, table.dtype, dims)
    move(builder, "table.load", size, table, copy)
    return copy


def _embedding(call: Call, builder: ProgramBuilder) -> bool:
    return _along(call, builder, call.given["weight"], 0, call.given["indices"])


def _index_select(call: Call, builder: ProgramBuilder) -> bool:
    x, index = call.given["self"], call.given["index"]
    if index.dim() != 1:
        return False
    return _along(call, builder, x, call.given["dim"] % max(x.dim(), 1), index)


def _gather(call: Call, builder: ProgramBuilder) -> bool:
    x, index = call.given["self"], call.given["index"]
    if not (on_card(x) and usable(index)) or x.dim() == 0 or index.dim() != x.dim():
        return False
    dim = call.given["dim"] % x.dim()
    if x.shape[dim] == 0:
        return False
    table = _table(builder, x, (dim,))
    others = tuple(0 if d == dim else stride for d, stride in enumerate(table.strides))
    places = builder.read(index, index.stride())
    table, step = replace(table, strides=others), table.strides[dim]
    gather(builder, tuple(index.shape), table, x.shape[dim], step, places, builder.result())
    return True


def _index(call: Call, builder: ProgramBuilder) -> bool:
    """x[i, :, j]: indices broadcast together, negative ones from the end."""
    x, given = call.given["self"], call.given["indices"]
    dims = tuple(d for d, index in enumerate(given) if index is not None)
    indices = [given[d] for d in dims]
    if not on_card(x) or not dims or not all(usable(index) for index in indices) or x.numel() == 0:
        return False
    space = indexed_space(tuple(x.shape), dims, tuple(torch.broadcast_shapes(*(index.shape for index in indices))))
    sizes = tuple(x.shape[d] for d in dims)
    index = flat(builder, indices, sizes)
    if index is None:
        return False
    table = _table(builder, x, dims)
    step, table = table.strides[dims[-1]], replace(table, strides=space.tensor_strides(table.strides))
    along = replace(index, strides=space.index_strides(index.strides))
    gather(builder, space.size, table, prod(sizes), step, along, builder.result())
    return True


def _take(call: Call, builder: ProgramBuilder) -> bool:
    x, index = call.given["self"], call.given["index"]
    if not (on_card(x) and usable(index)) or x.numel() == 0:
        return False
    places = builder.read(index, index.stride())
    table = Access(flattened(builder, "table", x), 0, (0,) * index.dim(), dtype_name(x.dtype))
    gather(builder, tuple(index.shape), table, x.numel(), 1, places, builder.result())
    return True


def _flip(call: Call, builder: ProgramBuilder) -> bool:
    """Dim by dim, by an index that counts downwards; along a dim that does not move (expanded) all elements are one."""
    x = call.given["self"]
    if not on_card(x):
        return False
    dims = [d % x.dim() for d in call.given["dims"] if x.dim() and x.shape[d] > 1 and x.stride(d) != 0]
    size = tuple(x.shape)
    source = builder.read(x, x.stride())
    if not dims:
        move(builder, "flip", size, source, builder.result())
        return True
    for number, dim in enumerate(dims):
        index = Access(builder.temp(f"downwards{number}", "int32", (size[dim],), (1,)), 0, (1,), "int32")
        builder.add(Op(f"downwards{number}", "iota", (Dim("i", size[dim]),), (Iota(size[dim] - 1, (-1,)),), (index,)))
        target = builder.result() if number == len(dims) - 1 else _like(builder, f"flipped{number}", size, source.dtype)
        table = replace(source, strides=tuple(0 if d == dim else s for d, s in enumerate(source.strides)))
        along = replace(index, strides=tuple(1 if d == dim else 0 for d in range(len(size))))
        gather(builder, size, table, size[dim], source.strides[dim], along, target)
        source = target
    return True


def _like(builder: ProgramBuilder, name: str, size: tuple[int, ...], dtype: str) -> Access:
    return Access(builder.temp(name, dtype, size, row_major(size)), 0, row_major(size), dtype)


GATHERS: dict[str, Callable[[Call, ProgramBuilder], bool]] = {
    "embedding": _embedding,
    "index_select": _index_select,
    "gather": _gather,
    "index": _index,
    "take": _take,
    "flip": _flip,
}
