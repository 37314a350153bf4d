"""Random calls: every element is a function of the generator's seed and offset and of its own place in the tensor.

Seed and offset are numbers of the launch, so a program serves every draw of its shape.
"""

from __future__ import annotations

from typing import Any

import torch

from openspyre.compiler.ir import Dim, Iota, Op, Operand
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats, get_device_dtype
from openspyre.spec.layout import MAX_RANK
from openspyre.spec.ops import Row
from openspyre.spec.ops.random import WORDS
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, on_card
from torch_spyre.ops.movement import move
from torch_spyre.ops.plans import CallPlan

# What the stored form can tell apart below 1, and up to where it holds every whole number.
_UNIFORM = {torch.float32: "uniform", torch.float16: "uniform_float16", torch.bfloat16: "uniform_bfloat16"}
_LAST = {
    torch.float32: 2**24, torch.float16: 2**10, torch.bfloat16: 2**8, torch.bool: 1, torch.uint8: 2**8 - 1,
    torch.int8: 2**7 - 1, torch.int16: 2**15 - 1, torch.int32: 2**31 - 1, torch.int64: 2**31 - 1,
}  # fmt: skip


def serves(binding: Binding) -> bool:
    return True


def compile_call(call: Call) -> CallPlan | None:
    outcome = call.outcome
    row = _choose_row(call)
    if row is None or outcome.dim() > MAX_RANK:
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    x = call.given.get("input")
    if call.given.get("train") is False:
        return _keep_all(call, builder, x)
    read: list[Operand] = [] if x is None else [builder.read(x, x.stride())]
    places = Iota(0, tuple(row_major(outcome.shape)))
    parameters = _PARAMETERS.get(row.name, _parameters)(call, builder, row)
    inputs = (*read, places, *builder.draw(outcome.numel()), *parameters)
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(outcome.shape))
    outputs = tuple(builder.result(number=number) for number in range(len(call.results)))
    builder.add(Op(row.name, row.name, dims, inputs, outputs))
    return builder.plan()


def _keep_all(call: Call, builder: ProgramBuilder, x: Any) -> CallPlan:
    """Dropout outside of training: a copy, and a mask of ones. Nothing is drawn."""
    shape = tuple(call.outcome.shape)
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(shape))
    move(builder, "kept", shape, builder.read(x, x.stride()), builder.result())
    builder.add(Op("mask", "iota", dims, (Iota(1, (0,) * len(shape)),), (builder.result(number=1),)))
    return builder.plan()


def _choose_row(call: Call) -> Row | None:
    dtypes = [result.dtype for result in call.results] if call.written is None else [call.written.dtype]
    rows = {row.name: row for row in call.binding.rows}
    name = _UNIFORM.get(dtypes[0]) if "uniform" in rows else next(iter(rows))
    if name is None or get_device_dtype(dtypes[0]) is DataFormats.INVALID or dtypes[0] not in _LAST:
        return None
    return rows[name] if dtypes[0].is_floating_point or rows[name].integers else None


def _parameters(call: Call, builder: ProgramBuilder, row: Row) -> list[Operand]:
    """Tensors (broadcast) or numbers, which stay float32 whatever the result is."""
    found: list[Operand] = []
    names = [argument.name for argument in call.binding.arguments]
    for name in row.scalars[len(WORDS) :]:
        place = names.index(name if name in names else "self")  # bernoulli.out has its probabilities first
        value: Any = call.values[place]
        if on_card(value):
            found.append(builder.read(value, value.expand(call.outcome.shape).stride(), of=value))
        else:
            found.append(builder.scalar(place, "float32"))
    return found


def _bounds(call: Call, builder: ProgramBuilder, row: Row) -> list[Operand]:
    """The first and the last number; the last of the dtype where the call names none."""
    still = (0,) * call.outcome.dim()
    names = [argument.name for argument in call.binding.arguments]
    low: Operand = builder.scalar(names.index("from"), "int32") if "from" in names else Iota(0, still)
    if call.given.get("to") is None:
        return [low, Iota(_LAST[call.outcome.dtype], still)]
    return [low, builder.scalar(names.index("to"), "int32", "int_below")]


_PARAMETERS = {"random_integers": _bounds}
