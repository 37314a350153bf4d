"""Creation: fill, arange, eye and the triangles, whose elements come from the call's numbers and from their own places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from openspyre.compiler.ir import Dim, Iota, Op, Operand
from openspyre.spec.formats import DataFormats, get_device_dtype
from openspyre.spec.layout import MAX_RANK
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, aten_name, on_card
from torch_spyre.ops.numbers import integer_encoding
from torch_spyre.ops.plans import CallPlan

Operands = Callable[[Call, ProgramBuilder], list[Operand] | None]


def serves(binding: Binding) -> bool:
    return aten_name(binding).rstrip("_") in OPERANDS


def compile_call(call: Call) -> CallPlan | None:
    outcome = call.outcome
    if outcome.dim() > MAX_RANK or get_device_dtype(outcome.dtype) is DataFormats.INVALID:
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    inputs = OPERANDS[aten_name(call.binding).rstrip("_")](call, builder)
    if inputs is None:
        return None
    row = call.binding.rows[0].name
    result = builder.result()
    # What is filled may be expanded: its places are one place.
    extents = [extent if stride else 1 for extent, stride in zip(outcome.shape, result.strides, strict=True)]
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(extents))
    builder.add(Op(row, row, dims, tuple(inputs), (result,)))
    return builder.plan()


def scalar_dtype(dtype: torch.dtype) -> str:
    """How a number is handed to an op whose results have this dtype; truth values are whatever is not 0."""
    if dtype in (torch.float16, torch.bfloat16):
        return "float16"
    return "float32" if dtype.is_floating_point or dtype is torch.bool else "int32"


def held_as(dtype: torch.dtype, *, checked: bool = True, ends: bool = True) -> tuple[str, str | None]:
    """The same, and how a launch writes a number that becomes an element, or is multiplied with elements (without `ends`)."""
    handed = scalar_dtype(dtype)
    return handed, integer_encoding(dtype, checked=checked, ends=ends) if handed == "int32" else None


def _fill(call: Call, builder: ProgramBuilder) -> list[Operand] | None:
    value: Any = call.given["value"]
    if on_card(value):
        return [builder.read(value, (0,) * call.outcome.dim())] if value.dim() == 0 else None
    place = next(i for i, argument in enumerate(call.binding.arguments) if argument.name == "value")
    checked = call.binding.arguments[place].is_scalar
    return [builder.scalar(place, *held_as(call.outcome.dtype, checked=checked))]


def _zero(call: Call, builder: ProgramBuilder) -> list[Operand]:
    return [Iota(0, (0,) * call.outcome.dim())]


def _arange(call: Call, builder: ProgramBuilder) -> list[Operand]:
    """As torch computes it: in fp32 for every float type, in integers otherwise."""
    kind = ("float32", "float") if call.outcome.dtype.is_floating_point else ("int32", "int64")
    places = {argument.name: place for place, argument in enumerate(call.binding.arguments)}
    return [Iota(0, (1,)), builder.scalar(places["start"], *kind), builder.scalar(places["step"], *kind)]


def _linspace(call: Call, builder: ProgramBuilder) -> list[Operand] | None:
    last = call.outcome.numel() - 1
    if last < 1 or not call.outcome.dtype.is_floating_point:
        return None
    places = {argument.name: place for place, argument in enumerate(call.binding.arguments)}
    scalars = [builder.scalar(places[name], "float32") for name in ("start", "end")]
    return [Iota(0, (1,)), Iota(last, (-1,)), Iota(last, (0,)), *scalars]


def _eye(call: Call, builder: ProgramBuilder) -> list[Operand]:
    return [Iota(0, (-1, 1))]


def _triangle(call: Call, builder: ProgramBuilder) -> list[Operand]:
    x = call.given["self"]
    place = next(i for i, argument in enumerate(call.binding.arguments) if argument.name == "diagonal")
    apart = Iota(0, (*(0,) * (x.dim() - 2), -1, 1))
    return [builder.read(x, x.stride()), apart, builder.scalar(place, "int32")]


OPERANDS: dict[str, Operands] = {
    "fill": _fill,
    "zero": _zero,
    "arange": _arange,
    "linspace": _linspace,
    "eye": _eye,
    "tril": _triangle,
    "triu": _triangle,
}
