"""Matrix products: mm and bmm, from which torch builds matmul and linear."""

from __future__ import annotations

import torch

from openspyre.compiler.ir import Dim, Op
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, on_card
from torch_spyre.ops.plans import CallPlan

_KNOWN = {"self", "mat2", "out"}


def serves(binding: Binding) -> bool:
    return {argument.name for argument in binding.arguments} <= _KNOWN


def compile_call(call: Call) -> CallPlan | None:
    a, b = call.given["self"], call.given["mat2"]
    outcome = call.outcome
    floats = (torch.float16, torch.bfloat16, torch.float32)
    if not (on_card(a) and on_card(b)) or a.dtype not in floats or a.dtype != b.dtype or a.shape[-1] == 0:
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    batch = tuple(Dim(f"b{i}", extent) for i, extent in enumerate(outcome.shape[:-2]))
    m, n, k = outcome.shape[-2], outcome.shape[-1], a.shape[-1]
    dims = (*batch, Dim("m", m), Dim("n", n), Dim("k", k, reduced=True))
    builder = ProgramBuilder(call)
    first = builder.read(a, (*a.stride()[:-2], a.stride(-2), 0, a.stride(-1)))
    second = builder.read(b, (*b.stride()[:-2], 0, b.stride(-1), b.stride(-2)))
    target = call.result.stride if call.written is None else call.written.stride()
    builder.add(Op("batchmatmul", "batchmatmul", dims, (first, second), (builder.result((*target, 0)),)))
    return builder.plan()
