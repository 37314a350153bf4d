"""Movement: what graphs compile of cat, and how lowerings move elements. Eager copies without a program (csrc/torch/operators/moves.cpp)."""

from __future__ import annotations

from dataclasses import replace

import torch

from openspyre.compiler.ir import Access, Dim, Op
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats, get_device_dtype
from openspyre.spec.layout import MAX_RANK
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, aten_name, dtype_name
from torch_spyre.ops.plans import CallPlan


def serves(binding: Binding) -> bool:
    return aten_name(binding) == "cat"


def compile_call(call: Call) -> CallPlan | None:
    outcome = call.outcome
    if outcome.dim() > MAX_RANK or get_device_dtype(outcome.dtype) is DataFormats.INVALID:
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    result = builder.result()
    dim = call.given["dim"] % max(outcome.dim(), 1)
    pieces = [
        tensor for tensor in call.given["tensors"] if tensor.numel()
    ]  # an empty vector fits everywhere, by torch's tradition
    place = 0
    for number, piece in enumerate(pieces):
        target = replace(result, offset=result.offset + place * result.strides[dim])
        move(builder, f"move{number}", tuple(piece.shape), builder.read(piece, piece.stride()), target)
        place += piece.shape[dim]
    return builder.plan()


def move(builder: ProgramBuilder, name: str, size: tuple[int, ...], source: Access, target: Access) -> None:
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(size))
    builder.add(Op(name, "relayout", dims, (source,), (target,)))


def flattened(builder: ProgramBuilder, name: str, x: torch.Tensor) -> str:
    """A temp of one dim with the tensor's elements in row-major order."""
    temp = builder.temp(name, dtype_name(x.dtype), (x.numel(),), (1,))
    target = Access(temp, 0, row_major(x.shape), dtype_name(x.dtype))
    move(builder, f"{name}.load", tuple(x.shape), builder.read(x, x.stride()), target)
    return temp
