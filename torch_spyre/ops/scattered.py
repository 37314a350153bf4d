"""Scatters: index_put, index_add, index_copy, index_fill, scatter and scatter_add.

Whole rows go straight into the target, and so do elements along its sticks, each by the index of its lane. Other elements go
through a flat copy of it, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import torch

from openspyre.compiler.ir import Access, Dim, Op
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import MAX_RANK
from openspyre.spec.ops import Indexing
from torch_spyre.ops import masked
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, aten_name, dtype_name, on_card
from torch_spyre.ops.creation import held_as
from torch_spyre.ops.index_tensors import IndexedSpace, counting_through, counts_through, flat, indexed_space, usable
from torch_spyre.ops.movement import flattened, move
from torch_spyre.ops.plans import CallPlan


@dataclass(frozen=True, slots=True)
class Scatter:
    """target[i + index[i] * step] is set to, or grows by, values[i]; `dims` are those of the target the index replaces."""

    space: IndexedSpace
    dims: tuple[int, ...]
    values: Access
    index: Access  # along the space
    adds: bool
    by_element: bool = False


def serves(binding: Binding) -> bool:
    return aten_name(binding).rstrip("_") in SCATTERS


def compile_call(call: Call) -> CallPlan | None:
    x = call.given["self"]
    if not on_card(x) or x.dim() > MAX_RANK:
        return None
    if masked.is_masked_write(call):
        return masked.compile_call(call)
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    scatter = SCATTERS[aten_name(call.binding).rstrip("_")](call, builder)
    if scatter is None or (scatter.adds and x.dtype is torch.bool):
        return None
    by_element = scatter.by_element or not scatter.space.rows
    (_elements if by_element and not _by_lane(builder, x, scatter) else _in_place)(builder, x, scatter)
    return builder.plan()


def _by_lane(builder: ProgramBuilder, x: torch.Tensor, scatter: Scatter) -> bool:
    """Whether elements stay in the rows they are in, along the sticks, and each has an index of its own: those that meet come in
    the order of their lanes."""
    strides, dim = builder.call.outcome.stride(), scatter.dims[-1]
    if len(scatter.dims) != 1 or strides[dim] != 1 or x.shape[dim] == 1 or 0 in scatter.space.size:
        return False
    own = scatter.space.tensor_strides(strides)
    walked = [d for d, size in enumerate(scatter.space.size) if size > 1]
    return all(scatter.index.strides[d] for d in walked) and sum(not own[d] for d in walked) <= 1


def _in_place(builder: ProgramBuilder, x: torch.Tensor, scatter: Scatter) -> None:
    """Rows are sticks side by side, which the card adds or copies whole; of elements along a stick it does so with each."""
    size, result = tuple(x.shape), builder.result()
    target, in_place = result, counts_through(result.strides, size, scatter.dims)
    if not in_place:
        target = counting_through(builder, "target", size, result.dtype, scatter.dims)
    if not in_place or builder.call.written is not x:
        move(builder, "self", size, builder.read(x, x.stride()), target)
    _add(builder, "", scatter, replace(target, strides=scatter.space.tensor_strides(target.strides)), target.strides, x)
    if not in_place:
        move(builder, "store", size, target, result)


def _elements(builder: ProgramBuilder, x: torch.Tensor, scatter: Scatter) -> None:
    space, dense = scatter.space, row_major(x.shape)
    target = Access(flattened(builder, "target", x), 0, space.tensor_strides(dense), dtype_name(x.dtype))
    flat = row_major(space.size)
    moved = []
    for name, access in (("values", scatter.values), ("places", scatter.index)):
        temp = Access(builder.temp(name, access.dtype, (prod(space.size),), (1,)), 0, flat, access.dtype)
        move(builder, f"{name}.load", space.size, access, temp)
        moved.append(temp)
    _add(builder, "_elements", replace(scatter, values=moved[0], index=moved[1]), target, dense, x)
    move(builder, "store", tuple(x.shape), replace(target, strides=dense), builder.result())


def _add(
    builder: ProgramBuilder, kind: str, scatter: Scatter, target: Access, strides: tuple[int, ...], x: torch.Tensor
) -> None:
    count = prod(x.shape[d] for d in scatter.dims)
    dims = (*(Dim(f"d{d}", extent) for d, extent in enumerate(scatter.space.size)), Dim("index", count, reduced=True))
    row = ("scatter_add" if scatter.adds else "scatter") + kind
    accesses = (scatter.values, 0), (scatter.index, 0), (target, strides[scatter.dims[-1]])
    longer = [replace(access, strides=(*access.strides, last)) for access, last in accesses]
    builder.add(Op(aten_name(builder.call.binding), row, dims, tuple(longer[:2]), (longer[2],)))


def _index_put(call: Call, builder: ProgramBuilder) -> Scatter | None:
    x, given, values = call.given["self"], call.given["indices"], call.given["values"]
    dims = tuple(d for d, index in enumerate(given) if index is not None)
    indices = [given[d] for d in dims]
    if not dims or not all(usable(index) for index in indices) or not on_card(values) or values.dtype != x.dtype:
        return None
    space = indexed_space(tuple(x.shape), dims, tuple(torch.broadcast_shapes(*(index.shape for index in indices))))
    sizes = tuple(x.shape[d] for d in dims)
    index = flat(builder, indices, sizes)
    if index is None:
        return None
    along = replace(index, strides=space.index_strides(index.strides))
    read = builder.read(values, values.expand(space.size).stride())
    return Scatter(space, dims, read, along, bool(call.given["accumulate"]))


def _index_rows(call: Call, builder: ProgramBuilder, adds: bool) -> Scatter | None:
    x, index, source = call.given["self"], call.given["index"], call.given["source"]
    if not usable(index) or not on_card(source) or source.dtype != x.dtype or x.dim() == 0 or index.dim() != 1:
        return None
    dim = call.given["dim"] % x.dim()
    space = indexed_space(tuple(x.shape), (dim,), tuple(index.shape))
    along = builder.read(index, space.index_strides(index.stride()))
    values = builder.read(source, source.stride())
    if call.given.get("alpha", 1) != 1:
        values = _scaled(call, builder, values, tuple(source.shape))
    return Scatter(space, (dim,), values, along, adds)


def _scaled(call: Call, builder: ProgramBuilder, values: Access, size: tuple[int, ...]) -> Access:
    """alpha * values, rounded to their own format before they are added."""
    place = next(i for i, argument in enumerate(call.binding.arguments) if argument.name == "alpha")
    scalar = builder.scalar(place, *held_as(call.given["self"].dtype, ends=False))
    scaled = Access(builder.temp("scaled", values.dtype, size, row_major(size)), 0, row_major(size), values.dtype)
    dims = tuple(Dim(f"d{d}", extent) for d, extent in enumerate(size))
    builder.add(Op("scaled", "mul", dims, (values, scalar), (scaled,)))
    return scaled


def _index_fill(call: Call, builder: ProgramBuilder) -> Scatter | None:
    x, index = call.given["self"], call.given["index"]
    if not usable(index) or x.dim() == 0 or index.dim() != 1:
        return None
    dim = call.given["dim"] % x.dim()
    space = indexed_space(tuple(x.shape), (dim,), tuple(index.shape))
    value = _filled(call, builder, (1,))
    along = builder.read(index, space.index_strides(index.stride()))
    return Scatter(space, (dim,), replace(value, strides=(0,) * len(space.size)), along, adds=False)


def _scatter(call: Call, builder: ProgramBuilder) -> Scatter | None:
    """Every element has an index of its own: dims other than the indexed one are walked together. An index that is stretched along one
    of them chooses rows."""
    x, index = call.given["self"], call.given["index"]
    reduce = call.given.get("reduce")
    adds = call.binding.rows[0].indexing is Indexing.ADD or reduce in ("add", "sum")
    if not usable(index) or x.dim() == 0 or index.dim() != x.dim() or (reduce is not None and not adds):
        return None
    if not call.given.get("include_self", True):
        return None
    dim = call.given["dim"] % x.dim()
    size = tuple(index.shape)
    own = tuple(None if d == dim else d for d in range(x.dim()))
    space = IndexedSpace(size, own, 0, size)
    if "src" in call.given:
        source = call.given["src"]
        if not on_card(source) or source.dtype != x.dtype:
            return None
        values = builder.read(source, source.stride())
    else:
        values = _filled(call, builder, size)
    by_element = not any(d != dim and index.shape[d] == x.shape[d] > 1 and index.stride(d) == 0 for d in range(x.dim()))
    return Scatter(space, (dim,), values, builder.read(index, index.stride()), adds, by_element)


def _filled(call: Call, builder: ProgramBuilder, size: tuple[int, ...]) -> Access:
    x = call.given["self"]
    place = next(i for i, argument in enumerate(call.binding.arguments) if argument.name == "value")
    dtype = dtype_name(x.dtype)
    filled = Access(builder.temp("filled", dtype, size, row_major(size)), 0, row_major(size), dtype)
    dims = tuple(Dim(f"d{d}", extent) for d, extent in enumerate(size))
    builder.add(Op("filled", "fill", dims, (builder.scalar(place, *held_as(x.dtype)),), (filled,)))
    return filled


SCATTERS: dict[str, Callable[[Call, ProgramBuilder], Scatter | None]] = {
    "index_put": _index_put,
    "index_add": lambda call, builder: _index_rows(call, builder, adds=True),
    "index_copy": lambda call, builder: _index_rows(call, builder, adds=False),
    "index_fill": _index_fill,
    "scatter": _scatter,
    "scatter_add": _scatter,
    "scatter_reduce": _scatter,
}
