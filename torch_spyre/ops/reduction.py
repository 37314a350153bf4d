"""Reductions: dims as aten gives them (none, one, several), keepdim, dtype=."""

from __future__ import annotations

import torch

from openspyre.compiler.ir import Dim, Op
from openspyre.spec.layout import MAX_RANK
from openspyre.spec.ops import Fold
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, on_card
from torch_spyre.ops.plans import CallPlan

_KNOWN = {"self", "dim", "keepdim", "dtype", "out"}
_INDICES = (Fold.ARG_MAX, Fold.ARG_MIN)


def serves(binding: Binding) -> bool:
    return {argument.name for argument in binding.arguments} <= _KNOWN


def compile_call(call: Call) -> CallPlan | None:
    row, x = call.binding.rows[0], call.given["self"]
    outcome = call.outcome
    whole = not x.dtype.is_floating_point
    if not on_card(x) or x.dim() > MAX_RANK or (whole and not row.integers) or x.numel() == 0:
        return None
    if call.given.get("dtype") is not None or (row.fold in _INDICES and call.given.get("dim") is None and x.dim() > 1):
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    reduced = _reduced_dims(call, x)
    strides = iter(call.result.stride if call.written is None else call.written.stride())
    keep = bool(call.given.get("keepdim", False))
    out_strides = []
    for d in range(x.dim()):
        if d not in reduced:
            out_strides.append(next(strides))
        else:
            out_strides.append(0)
            if keep:
                next(strides)
    builder = ProgramBuilder(call)
    dims = tuple(Dim(f"d{i}", extent, reduced=i in reduced) for i, extent in enumerate(x.shape))
    operand = builder.read(x, x.stride())
    builder.add(Op(row.name, row.name, dims, (operand,), (builder.result(tuple(out_strides)),)))
    return builder.plan() if outcome.dtype is not torch.float64 else None


def _reduced_dims(call: Call, x: torch.Tensor) -> set[int]:
    dim = call.given.get("dim")
    if dim is None or dim == []:
        return set(range(x.dim()))
    return {d % x.dim() for d in ([dim] if isinstance(dim, int) else dim)} if x.dim() else set()
