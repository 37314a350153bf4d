"""Convolutions along one or two dims as one program: windows of the padded input become the columns of a matrix, multiplied
by the weights on the matrix unit; float32 has a shorter way (`convolution_rows.py`). The product is rounded before the bias is
added (contract N4). Transposed ones are left out.
"""

from __future__ import annotations

from math import prod

import torch

from openspyre.compiler.ir import Access, Dim, Iota, Op
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, on_card
from torch_spyre.ops.convolution_rows import Geometry, by_rows, product_of_rows
from torch_spyre.ops.memory_formats import strided_like_convolution
from torch_spyre.ops.movement import move
from torch_spyre.ops.plans import CallPlan

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def serves(binding: Binding) -> bool:
    return {"input", "weight", "bias", "dilation", "groups"} <= {argument.name for argument in binding.arguments}


def compile_call(call: Call) -> CallPlan | None:
    x, weight, bias = (call.given[name] for name in ("input", "weight", "bias"))
    tensors = [tensor for tensor in (x, weight, bias) if tensor is not None]
    if not all(on_card(t) and t.dtype == x.dtype for t in tensors) or x.dtype not in _FLOATS:
        return None
    if call.given["transposed"] or weight.dim() not in (3, 4) or x.dim() != weight.dim():
        return None
    call.outcomes = (strided_like_convolution(x, weight, call.outcome),)
    outcome = call.outcome
    done = call.plan_without_work()
    if done is not None or 0 in (*x.shape, *weight.shape):
        return done
    shape = _geometry(call, x, weight, tuple(outcome.shape))
    builder = ProgramBuilder(call)
    if by_rows(shape, x):
        sides = builder.read(x, x.stride()), builder.read(weight, weight.stride())
        product = builder.result() if bias is None else _temp(builder, "product", tuple(outcome.shape), "float32")
        product_of_rows(builder, shape, tuple(x.shape[2:]), *sides, product)
        if bias is None:
            return builder.plan()
    else:
        product = _product(builder, shape, _weights(builder, weight), _columns(builder, shape, x))
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(outcome.shape))
    if bias is None:
        move(builder, "store", tuple(outcome.shape), product, builder.result())
    else:
        added = builder.read(bias, (0, bias.stride(0), *(0,) * len(shape.out)))
        builder.add(Op("sum", "add", dims, (product, added), (builder.result(),)))
    return builder.plan()


def _geometry(call: Call, x: torch.Tensor, weight: torch.Tensor, out: tuple[int, ...]) -> Geometry:
    spatial = len(out) - 2
    stride, padding, dilation = (
        tuple(given) * (spatial // len(given)) for given in (call.given[n] for n in ("stride", "padding", "dilation"))
    )
    kernel = tuple(weight.shape[2:])
    groups = call.given["groups"]
    return Geometry(x.shape[0], x.shape[1], weight.shape[0], groups, kernel, out[2:], stride, padding, dilation)


def _weights(builder: ProgramBuilder, weight: torch.Tensor) -> Access:
    """[features, channels of a group * kernel], rows without gaps."""
    own = builder.read(weight, weight.stride())
    length = prod(weight.shape[1:])
    if weight.is_contiguous():
        return Access(own.buffer, own.offset, (length, 1), own.dtype)
    temp = _temp(builder, "weights", tuple(weight.shape), own.dtype)
    move(builder, "weights.load", tuple(weight.shape), own, temp)
    return Access(temp.buffer, 0, (length, 1), own.dtype)


def _columns(builder: ProgramBuilder, shape: Geometry, x: torch.Tensor) -> Access:
    """[batch, channels, kernel.., out..]: what every element of the kernel meets."""
    source = builder.read(x, x.stride())
    inside: tuple[int, ...]
    across: tuple[int, ...]
    if any(shape.padding):
        source = _padded(builder, shape, x, source)
    whole_sticks = shape.out[-1] * x.itemsize % STICK_BYTES == 0
    if len(shape.out) == 2 and min(shape.kernel) > 1 and whole_sticks:
        source = _shifted(builder, shape, source, x.shape[2] + 2 * shape.padding[0])
        *_, within, row, step = source.strides
        inside, across = (row * shape.dilation[0], within), (row * shape.stride[0], step)
    else:
        steps = source.strides[2:]
        inside = tuple([step * d for step, d in zip(steps, shape.dilation, strict=True)])
        across = tuple([step * s for step, s in zip(steps, shape.stride, strict=True)])
    size = (shape.batch, shape.channels, *shape.kernel, *shape.out)
    windows = Access(source.buffer, source.offset, (*source.strides[:2], *inside, *across), source.dtype)
    strides = row_major(size)
    kept = len(shape.kernel) + 2
    merged = [*size[:kept], prod(shape.out)], [*strides[:kept], 1]
    layout = SpyreTensorLayout(*merged, source.dtype, [*range(kept + 1)])  # as the product wants them
    temp = Access(builder.temp("columns", source.dtype, size, strides, layout), 0, strides, source.dtype)
    move(builder, "columns.load", size, windows, temp)
    return temp


def _shifted(builder: ProgramBuilder, shape: Geometry, source: Access, rows: int) -> Access:
    """[batch, channels, kernel's columns, rows, out's columns]: elements change their sticks here, in as many copies as the
    kernel has columns; from here on whole sticks move."""
    per_image, per_channel, per_row, step = source.strides
    size = (shape.batch, shape.channels, shape.kernel[1], rows, shape.out[1])
    strides = (per_image, per_channel, step * shape.dilation[1], per_row, step * shape.stride[1])
    temp = _temp(builder, "shifted", size, source.dtype)
    move(builder, "shifted.load", size, Access(source.buffer, source.offset, strides, source.dtype), temp)
    return temp


def _padded(builder: ProgramBuilder, shape: Geometry, x: torch.Tensor, source: Access) -> Access:
    """Channels lie along the sticks unless they fill little of one: then whole sticks move, wherever a window begins."""
    size = (*x.shape[:2], *(n + 2 * p for n, p in zip(x.shape[2:], shape.padding, strict=True)))
    strides = row_major(size)
    layout = None
    if 4 * shape.channels * x.itemsize >= STICK_BYTES:
        layout = SpyreTensorLayout(list(size), list(strides), source.dtype, [0, *range(2, len(size)), 1])
    temp = Access(builder.temp("padded", source.dtype, size, strides, layout), 0, strides, source.dtype)
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(size))
    builder.add(Op("zeros", "iota", dims, (Iota(0, (0,) * len(size)),), (temp,)))
    corner = sum(p * s for p, s in zip(shape.padding, temp.strides[2:], strict=True))
    inner = Access(temp.buffer, corner, temp.strides, temp.dtype)
    move(builder, "padded.load", tuple(x.shape), source, inner)
    return temp


def _product(builder: ProgramBuilder, shape: Geometry, weights: Access, columns: Access) -> Access:
    """[batch, features, out..], rounded."""
    places = prod(shape.out)
    k, m = shape.channels // shape.groups * prod(shape.kernel), shape.features // shape.groups
    dims = (
        Dim("b0", shape.batch),
        Dim("b1", shape.groups),
        Dim("m", m),
        Dim("n", places),
        Dim("k", k, reduced=True),
    )
    first = Access(weights.buffer, weights.offset, (0, m * k, k, 0, 1), weights.dtype)
    second = Access(columns.buffer, 0, (shape.groups * k * places, k * places, 0, 1, places), columns.dtype)
    result = _temp(builder, "product", (shape.batch, shape.features, *shape.out), weights.dtype)
    strides = (shape.features * places, m * places, places, 1, 0)
    target = Access(result.buffer, 0, strides, result.dtype)
    builder.add(Op("product", "batchmatmul", dims, (first, second), (target,)))
    return result


def _temp(builder: ProgramBuilder, name: str, size: tuple[int, ...], dtype: str) -> Access:
    return Access(builder.temp(name, dtype, size, row_major(size)), 0, row_major(size), dtype)
