"""Pointwise calls: operands in aten's order, broadcast to the result's shape, then the row's launch scalars."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch

from openspyre.compiler.ir import Dim, Op, Operand, Scalar
from openspyre.spec.layout import MAX_RANK
from openspyre.spec.ops import Row
from torch_spyre.ops.calls import Argument, Binding, Call, ProgramBuilder, on_card
from torch_spyre.ops.numbers import integer_encoding
from torch_spyre.ops.plans import CallPlan


def serves(binding: Binding) -> bool:
    """Whether an overload's arguments are operands, the row's scalars and fixed ones, and nothing else."""
    return any(_operand_places(binding.arguments, row) is not None for row in binding.rows)


def _operand_places(arguments: tuple[Argument, ...], row: Row) -> tuple[int, ...] | None:
    aside = {name for name, _ in row.fixed} | set(row.scalars)
    places = []
    for place, argument in enumerate(arguments):
        if (argument.written and argument.keyword) or argument.name in aside:
            continue
        if not (argument.is_tensor or argument.is_scalar):
            return None
        places.append(place)
    return tuple(places) if len(places) == row.operands else None


def _choose_row(call: Call) -> Row | None:
    for row in call.binding.rows:
        if all(_same(call.given.get(name, value), value) for name, value in row.fixed):
            places = _operand_places(call.binding.arguments, row)
            if places is not None and all(call.values[place] is not None for place in places):
                return row
    return None


def _same(given: Any, wanted: object) -> bool:
    return given is wanted or (given is not None and not isinstance(given, torch.Tensor) and given == wanted)


def compile_call(call: Call) -> CallPlan | None:
    row, outcome = _choose_row(call), call.outcome
    if row is None or outcome.dim() > MAX_RANK or not _dtypes_fit(row, call):
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    compute = _compute_dtype(call)
    if _is_narrowed(call, compute):
        return None
    places = [*(_operand_places(call.binding.arguments, row) or ())]
    places += [place for place, argument in enumerate(call.binding.arguments) if argument.name in row.scalars]
    inputs: list[Operand] = []
    for place in places:
        value = call.values[place]
        if on_card(value):
            inputs.append(builder.read(value, value.expand(outcome.shape).stride()))
        else:
            inputs.append(_number(builder, row, place, places, compute))
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(outcome.shape))
    builder.add(Op(row.name, row.name, dims, tuple(inputs), (builder.result(),)))
    return builder.plan()


def _dtypes_fit(row: Row, call: Call) -> bool:
    kinds = [value.dtype for value in call.values if isinstance(value, torch.Tensor)]
    whole = all(not dtype.is_floating_point for dtype in kinds)
    if whole or torch.bool in kinds:
        call.with_stand_ins(_one)  # not every op of torch takes integers and truth values: its error says so
    target = call.outcome.dtype if call.written is None else call.written.dtype
    return (row.integers or not whole) and (row.floats or whole) and target not in (torch.float64, torch.complex64)


def _one(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        if type(value) not in (int, float):
            return value
        # The dtype is asked for: nothing is divided by zero, and what a dtype cannot hold is the launch's to say.
        return 1 if type(value) is int and value == 0 else min(max(type(value)(-100), value), type(value)(100))
    real = value.dtype.is_floating_point  # not every op of the CPU takes 16 bits
    return torch.ones((1,) * min(value.dim(), 1), dtype=torch.float32 if real else value.dtype)


def _compute_dtype(call: Call) -> torch.dtype:
    """The common dtype torch computes in: scalars are rounded to it first (contract N7)."""
    if call.outcome.dtype is not torch.bool:
        return call.outcome.dtype
    kind = torch.bool
    for value in call.values:
        if isinstance(value, torch.Tensor) and value.dim() > 0 and value is not call.written:
            kind = torch.promote_types(kind, value.dtype)
    return kind


def _is_narrowed(call: Call, compute: torch.dtype) -> bool:
    """Whether torch cuts a 0-d integer to a narrower one first: on the card all of them are 32 bits wide until they are stored."""
    if compute not in (torch.uint8, torch.int8, torch.int16):
        return False
    points = [value.dtype for value in call.values if on_card(value) and value.dim() == 0]
    return any(torch.promote_types(dtype, compute) is not compute for dtype in points if not dtype.is_floating_point)


def _number(builder: ProgramBuilder, row: Row, place: int, places: list[int], compute: torch.dtype) -> Scalar:
    call, argument = builder.call, builder.call.binding.arguments[place]
    dtype = _scalar_dtype(call.values[place], compute, call.outcome.dtype)
    if dtype != "int32":
        return builder.scalar(place, dtype)
    kind = "Scalar" if argument.is_scalar else "Tensor"
    checked = argument.name in row.scalars or f"{kind} {argument.name}" in row.checked
    divisor = row.divides and places.index(place) == 1
    encoding = integer_encoding(_meeting_dtype(call), checked=checked, ends=row.orders, divisor=divisor)
    return builder.scalar(place, dtype, encoding)


def _meeting_dtype(call: Call) -> torch.dtype:
    """Of the integers that a number meets, whatever out= holds: of tensors with dims; of points only where those are truth values."""
    pairs = zip(call.binding.arguments, call.values, strict=True)
    met = [v for a, v in pairs if isinstance(v, torch.Tensor) and not (a.written and a.keyword)]
    kind = reduce(torch.promote_types, (value.dtype for value in met if value.dim() > 0), torch.bool)
    if kind is not torch.bool:
        return kind
    points = [value.dtype for value in met if value.dim() == 0 and not _is_python_number(value)]
    return reduce(torch.promote_types, points, torch.bool)


def _is_python_number(value: torch.Tensor) -> bool:
    """torch marks numbers in disguise, and shows it only in what they promote to."""
    return value.dtype is torch.int64 and torch.result_type(value, torch.empty((), dtype=torch.int8)) is torch.int8


def _scalar_dtype(value: Any, compute: torch.dtype, result: torch.dtype) -> str:
    """Real numbers are compared with integers as they are; where integers come of them, torch cuts them first."""
    if compute.is_floating_point:
        return "float32" if compute is torch.float32 else "float16"
    real = isinstance(value, float) or (isinstance(value, torch.Tensor) and value.dtype.is_floating_point)
    return "float32" if real and result is torch.bool else "int32"
