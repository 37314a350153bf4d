"""x[mask] = number: a selection in place. Which elements a mask chooses is known on the card alone, but one value fits them all."""

from __future__ import annotations

from typing import Any

import torch

from openspyre.compiler.ir import Dim, Op, Operand
from torch_spyre.ops.calls import Call, ProgramBuilder, on_card
from torch_spyre.ops.creation import held_as
from torch_spyre.ops.plans import CallPlan


def is_masked_write(call: Call) -> bool:
    """Whether a call of index_put_ has one mask, and one value for all it chooses."""
    given, values = call.given.get("indices"), call.given.get("values")
    if given is None or values is None or call.written is None or call.given["accumulate"] or values.numel() != 1:
        return False
    masks = [index for index in given if index is not None]
    single = len(masks) == 1 and on_card(masks[0]) and masks[0].dtype is torch.bool
    return single and (on_card(values) or values.dim() == 0) and _fits(call.given["self"], given)


def _fits(x: torch.Tensor, given: list[Any]) -> bool:
    """A mask of another shape is an error, and the CPU words it."""
    place, mask = next((d, index) for d, index in enumerate(given) if index is not None)
    return tuple(x.shape[place : place + mask.dim()]) == tuple(mask.shape) and mask.dim() > 0


def compile_call(call: Call) -> CallPlan | None:
    x, values = call.given["self"], call.given["values"]
    if on_card(values) and values.dtype != x.dtype:
        return None
    call.outcomes = (torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta"),)
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    before, mask = next((d, index) for d, index in enumerate(call.given["indices"]) if index is not None)
    after = x.dim() - before - mask.dim()
    chosen = builder.read(mask, (*(0,) * before, *mask.stride(), *(0,) * after))
    dims = tuple(Dim(f"d{d}", extent) for d, extent in enumerate(x.shape))
    inputs = (chosen, _value(call, builder, values), builder.read(x, x.stride()))
    builder.add(Op("masked_write", "where", dims, inputs, (builder.result(),)))
    return builder.plan()


def _value(call: Call, builder: ProgramBuilder, values: torch.Tensor) -> Operand:
    x = call.given["self"]
    if on_card(values):
        return builder.read(values, (0,) * x.dim())
    place = next(i for i, argument in enumerate(call.binding.arguments) if argument.name == "values")
    return builder.scalar(place, *held_as(x.dtype))
