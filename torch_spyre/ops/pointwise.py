"""Pointwise calls: from aten's arguments to an IR program of one op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Operand, Program, Role, Scalar
from openspyre.spec.formats import get_device_dtype
from openspyre.spec.layout import MAX_RANK, SpyreTensorLayout
from openspyre.spec.ops import Row
from torch_spyre import _torch
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.layouts import device_tensor_layout
from torch_spyre.ops.plans import CallPlan, ResultPlan
from torch_spyre.ops.programs import load

if TYPE_CHECKING:
    from torch_spyre.ops.eager import Argument, Binding

_IGNORED = ("out",)


def serves(binding: Binding) -> bool:
    """Whether an overload's arguments are operands, the row's scalars and fixed ones, and nothing else."""
    return any(_operand_places(binding.arguments, row) is not None for row in binding.rows)


def _operand_places(arguments: tuple[Argument, ...], row: Row) -> tuple[int, ...] | None:
    fixed = {name for name, _ in row.fixed}
    places = []
    for place, argument in enumerate(arguments):
        if (argument.written and argument.name in _IGNORED) or argument.name in fixed or argument.name in row.scalars:
            continue
        if not (argument.is_tensor or argument.is_scalar):
            return None
        places.append(place)
    return tuple(places) if len(places) == row.operands else None


def _choose_row(binding: Binding, values: list[Any]) -> Row | None:
    given = {argument.name: value for argument, value in zip(binding.arguments, values, strict=True)}
    for row in binding.rows:
        if all(given.get(name, value) == value for name, value in row.fixed) and _operand_places(binding.arguments, row):
            return row
    return None


def compile_call(binding: Binding, values: list[Any]) -> CallPlan | None:
    row = _choose_row(binding, values)
    outcome = binding.overload(*_positional(binding, [_meta(value) for value in values]), **_keywords(binding, values))
    if row is None or outcome.dim() > MAX_RANK or not _dtypes_fit(row, values, outcome):
        return None
    tensors = [v for v in values if isinstance(v, torch.Tensor) and v.device.type == DEVICE_NAME]
    written = next((v for a, v in zip(binding.arguments, values, strict=True) if a.written), None)
    if written is None:
        result = ResultPlan(-1, outcome.dtype, tuple(outcome.shape), outcome.stride(), _result_layout(outcome, tensors))
    else:
        place = next(i for i, t in enumerate(tensors) if t is written)
        result = ResultPlan(place, written.dtype, tuple(outcome.shape), outcome.stride(), None)
        if written.shape != outcome.shape:
            return CallPlan(0, (), (), (), (result,), resize=(place,))
    if outcome.numel() == 0:
        return CallPlan(0, (), (), (), (result,))
    return _plan(binding, row, values, tensors, result, written)


def _meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return value


def _positional(binding: Binding, values: list[Any]) -> list[Any]:
    schema = binding.overload._schema.arguments
    return [v for v, argument in zip(values, schema, strict=True) if not argument.kwarg_only]


def _keywords(binding: Binding, values: list[Any]) -> dict[str, Any]:
    schema = binding.overload._schema.arguments
    return {a.name: _meta(v) for v, a in zip(values, schema, strict=True) if a.kwarg_only}


def _dtypes_fit(row: Row, values: list[Any], outcome: torch.Tensor) -> bool:
    kinds = [v.dtype for v in values if isinstance(v, torch.Tensor)]
    whole = all(not dtype.is_floating_point for dtype in kinds)
    return (row.integers or not whole) and (row.floats or whole) and outcome.dtype not in (torch.float64, torch.complex64)


def _result_layout(outcome: torch.Tensor, tensors: list[torch.Tensor]) -> SpyreTensorLayout:
    """D6: the first dense input of the same shape and stick size gives its layout, else the default for the result's strides."""
    wanted = get_device_dtype(outcome.dtype)
    for tensor in tensors:
        layout = device_tensor_layout(tensor)
        record = _torch.buffer_of(tensor)
        whole = (tuple(record["host_size"]), tuple(record["host_stride"])) == (tuple(outcome.shape), outcome.stride())
        dense = layout is not None and layout.stride_map[-1] > 0
        if whole and dense and tensor.storage_offset() == 0 and layout.elems_per_stick() == wanted.elems_per_stick:
            return SpyreTensorLayout(layout.device_size, layout.stride_map, wanted, layout.element_arrangement)
    size, stride = list(outcome.shape), list(outcome.stride())
    return SpyreTensorLayout(size, stride, outcome.dtype, list(range(len(size))))


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def buffer_of(name: str, tensor: torch.Tensor, role: Role) -> Buffer:
    """The buffer behind a tensor, as the compiler sees it."""
    record = _torch.buffer_of(tensor)
    layout = device_tensor_layout(tensor)
    return Buffer(name, record["dtype"], tuple(record["host_size"]), tuple(record["host_stride"]), role, layout)


def _plan(
    binding: Binding, row: Row, values: list[Any], tensors: list[torch.Tensor], result: ResultPlan, written: torch.Tensor | None
) -> CallPlan:
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(result.size))
    buffers: list[Buffer] = []
    inputs: list[Operand] = []
    scalars: list[tuple[int, str]] = []
    symbols: list[int] = []
    offsets: list[int] = []
    compute = _compute_dtype(row, values, result)
    names = [*(_operand_places(binding.arguments, row) or ())]
    names += [place for place, a in enumerate(binding.arguments) if a.name in row.scalars]
    for place in names:
        value = values[place]
        if isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME:
            name = f"arg{len(buffers)}"
            buffers.append(buffer_of(name, value, Role.INPUT))
            inputs.append(Access(name, value.storage_offset(), value.expand(result.size).stride(), dtype_name(value.dtype)))
            symbols.append(next(i for i, t in enumerate(tensors) if t is value))
            offsets.append(value.storage_offset())
        else:
            dtype = _scalar_dtype(value, compute)
            inputs.append(Scalar(f"scalar{len(scalars)}", dtype))
            scalars.append((place, "int" if dtype == "int32" else "float" if dtype == "float32" else "sen169"))
    target = result.size, result.stride
    if written is None:
        buffers.append(Buffer("out", dtype_name(result.dtype), *target, Role.OUTPUT, result.layout))
        output = Access("out", 0, result.stride, dtype_name(result.dtype))
        symbols.append(-1)
        offsets.append(0)
    else:
        buffers.append(buffer_of("out", written, Role.UPDATE))
        output = Access("out", written.storage_offset(), tuple(written.stride()), dtype_name(written.dtype))
        symbols.append(result.argument)
        offsets.append(written.storage_offset())
    op = Op(row.name, row.name, dims, tuple(inputs), (output,))
    ir = Program(row.name, tuple(buffers), (op,), tuple(i for i in inputs if isinstance(i, Scalar)))
    program, pool_bytes = load(ir)
    return CallPlan(program, tuple(symbols), tuple(offsets), tuple(scalars), (result,), pool_bytes=pool_bytes)


def _compute_dtype(row: Row, values: list[Any], result: ResultPlan) -> torch.dtype:
    """The common dtype torch computes in: scalars are rounded to it first (contract N7)."""
    operands = [v for v in values if isinstance(v, torch.Tensor | int | float) and v is not None]
    common = operands[0]
    kind = common.dtype if isinstance(common, torch.Tensor) else result.dtype
    for other in operands[1:]:
        kind = torch.promote_types(kind, other.dtype) if isinstance(other, torch.Tensor) and other.dim() else kind
    return result.dtype if result.dtype is not torch.bool else kind


def _scalar_dtype(value: Any, compute: torch.dtype) -> str:
    real = isinstance(value, float) or (isinstance(value, torch.Tensor) and value.dtype.is_floating_point)
    if compute.is_floating_point:
        return "float32" if compute is torch.float32 else "float16"
    return "float32" if real else "int32"
