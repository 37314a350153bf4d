"""Calls that graphs have and eager has not: each is spelled with calls that eager has, and with copies between views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from openspyre.compiler.ir import CARRIED, UNIT_BATCH, Op
from torch_spyre.inductor.lowering import random_operators
from torch_spyre.inductor.lowering.lower_call import CallLowering
from torch_spyre.inductor.lowering.tensor_spec import TensorSpec
from torch_spyre.ops import linear

GraphLowering = Callable[[CallLowering, list[Any], TensorSpec], None]


def _copied(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    """clone, _to_copy, convert_element_type: the first argument, as the result wants it."""
    lowering.move(arguments[0], out)


def _copy_into(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    """copy: the second argument in the shape of the first."""
    lowering.move(arguments[1], out)


def _copy_in_place(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    lowering.move(arguments[1], arguments[0])


def _filled(place: int) -> GraphLowering:
    def fill(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
        value = arguments[place]
        overload = "aten.fill_.Tensor" if isinstance(value, torch.Tensor) else "aten.fill_.Scalar"
        lowering.run(overload, [out, value], [out])

    return fill


def _filled_with(number: int) -> GraphLowering:
    return lambda lowering, arguments, out: lowering.run("aten.fill_.Scalar", [out, number], [out])


def _left_as_it_is(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    """empty: whatever lies there."""


def _arange(start: int | None, end: int, step: int | None) -> GraphLowering:
    def arange(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
        first = 0 if start is None else arguments[start]
        by = 1 if step is None else arguments[step]
        lowering.run("aten.arange.start_out", [first, arguments[end], by, out], [out])

    return arange


def _iota(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    length, start, step = arguments[:3]
    lowering.run("aten.arange.start_out", [start, start + length * step, step, out], [out])


def _scattered(view: Callable[..., Any]) -> GraphLowering:
    """x with one of its views overwritten."""

    def scatter(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
        lowering.move(arguments[0], out)
        lowering.move(arguments[1], view(out, *arguments[2:]))

    return scatter


def _changed_in_place(target: str) -> GraphLowering:
    """A functional call by way of its in-place one on a copy."""

    def changed(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
        lowering.move(arguments[0], out)
        lowering.run(target, [out, *arguments[1:]], [out])

    return changed


def _padded(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    x, pads, value = arguments
    lowering.run("aten.fill_.Scalar", [out, value], [out])
    inner: Any = out
    for pair in range(len(pads) // 2):
        dim, before, after = x.dim() - 1 - pair, pads[2 * pair], pads[2 * pair + 1]
        x = x.narrow(dim, max(-before, 0), x.shape[dim] - max(-before, 0) - max(-after, 0))
        inner = inner.narrow(dim, max(before, 0), inner.shape[dim] - max(before, 0) - max(after, 0))
    lowering.move(x, inner)


def _repeated(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    """The result seen as (times, extent) per dim; dims that are not repeated stay one."""
    x, times = arguments
    extents = (1,) * (len(times) - x.dim()) + tuple(x.shape)
    if out.numel() == 0:
        return
    spread = [(n, e) for n, e in zip(times, extents, strict=True)]
    target: Any = out.as_strided(
        [m for n, e in spread for m in (n, e) if m > 1],
        [m for (n, e), s in zip(spread, out.stride(), strict=True) for k, m in ((n, s * e), (e, s)) if k > 1],
    )
    steps = (0,) * (len(times) - x.dim()) + tuple(x.stride())
    source = x.as_strided(
        target.shape, [m for (n, e), s in zip(spread, steps, strict=True) for k, m in ((n, 0), (e, s)) if k > 1]
    )
    lowering.move(source, target)


def _reshaped(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    """A reshape that had to copy: the result is dense, so that it can be seen in the shape of the first argument."""
    seen: Any = out.view(arguments[0].shape)
    lowering.move(arguments[0], seen)


def _by_tensor(target: str) -> GraphLowering:
    """A number where the operator with a row has a tensor: as eager has it, a tensor without dims on the host."""
    return lambda lowering, given, out: lowering.run(target, [given[0], torch.tensor(given[1])], [out])


def _fma(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    a, b, c = arguments
    if isinstance(b, torch.Tensor):
        lowering.run("aten.addcmul.default", [c, a, b, 1], [out])
    else:
        lowering.run("aten.add.Tensor", [c, a, b], [out])


def _batched_product(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    """Products of matrices, as many as the dims before the last two say; `shared` tells that all have the second one."""
    first, second, shared = arguments
    product = linear.product_of(first, second)
    factors = lowering.access(first, product.first), lowering.access(second, product.second)
    target = lowering.access(out, (*out.stride(), 0))
    whole_sticks = second.shape[-1] % 64 == second.shape[-2] % 64 == 0
    unit = first.dim() == 3 and first.shape[0] == 1 and shared and whole_sticks
    attributes = ((UNIT_BATCH, True),) if unit else ()
    lowering.ops.append(Op(f"product_{len(lowering.ops)}", product.row, product.dims, factors, (target,), attributes))


def _carried_sum(lowering: CallLowering, arguments: list[Any], out: TensorSpec) -> None:
    """A sum that a loop hands on to its next turn: it has a place of its own in memory."""
    before = len(lowering.ops)
    lowering.run("aten.add.Tensor", arguments, [out])
    lowering.ops[before:] = [replace(op, attributes=(*op.attributes, (CARRIED, True))) for op in lowering.ops[before:]]


CARRIED_SUM = "spyre.copy_f.add"
BATCHED_PRODUCT = "spyre.batched_matmul.default"  # of any rank, where aten's takes three dims
LEFT_AS_THEY_ARE = (
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_strided.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
)

GRAPH_LOWERINGS: dict[str, GraphLowering] = dict.fromkeys(LEFT_AS_THEY_ARE, _left_as_it_is) | {
    **random_operators.GRAPH_LOWERINGS,
    "prims.fma.default": _fma,
    "aten.bitwise_and.Scalar": _by_tensor("aten.bitwise_and.Tensor"),
    "aten.bitwise_or.Scalar": _by_tensor("aten.bitwise_or.Tensor"),
    "aten.bitwise_xor.Scalar": _by_tensor("aten.bitwise_xor.Tensor"),
    "aten.linspace.default": lambda lowering, given, out: lowering.run("aten.linspace.out", [*given[:3], out], [out]),
    "prims.convert_element_type.default": _copied,
    "prims.device_put.default": _copied,
    "aten._to_copy.default": _copied,
    "aten.clone.default": _copied,
    "aten.contiguous.default": _copied,
    "aten.lift_fresh_copy.default": _copied,
    "aten._unsafe_view.default": _copied,
    "aten.reshape.default": _reshaped,
    "aten.copy.default": _copy_into,
    "aten.copy_.default": _copy_in_place,
    "aten.fill.Scalar": _filled(1),
    "aten.fill.Tensor": _filled(1),
    "aten.full.default": _filled(1),
    "aten.full_like.default": _filled(1),
    "aten.new_full.default": _filled(2),
    "aten.scalar_tensor.default": _filled(0),
    "aten.zeros.default": _filled_with(0),
    "aten.zeros_like.default": _filled_with(0),
    "aten.new_zeros.default": _filled_with(0),
    "aten.ones.default": _filled_with(1),
    "aten.ones_like.default": _filled_with(1),
    "aten.new_ones.default": _filled_with(1),
    "prims.iota.default": _iota,
    "aten.arange.default": _arange(None, 0, None),
    "aten.arange.start": _arange(0, 1, None),
    "aten.arange.start_step": _arange(0, 1, 2),
    "aten.slice_scatter.default": _scattered(torch.ops.aten.slice.Tensor),
    "aten.select_scatter.default": _scattered(torch.ops.aten.select.int),
    "aten.diagonal_scatter.default": _scattered(torch.ops.aten.diagonal.default),
    "aten.as_strided_scatter.default": _scattered(torch.ops.aten.as_strided.default),
    "aten.index_put.default": _changed_in_place("aten.index_put_.default"),
    "aten._unsafe_index_put.default": _changed_in_place("aten.index_put_.default"),
    "aten.index_fill.int_Scalar": _changed_in_place("aten.index_fill_.int_Scalar"),
    "aten._unsafe_index.Tensor": lambda lowering, arguments, out: lowering.run("aten.index.Tensor", arguments, [out]),
    BATCHED_PRODUCT: _batched_product,
    CARRIED_SUM: _carried_sum,
    "aten.constant_pad_nd.default": _padded,
    "aten.repeat.default": _repeated,
}
