"""Splices an aten call into IR ops: every call goes through the lowering that serves it eagerly.

So a compiled graph computes with the same rows in the same order as eager does, and knows every operator that eager knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Operand, Role, Scalar
from openspyre.spec.formats import DataFormats, get_device_dtype
from openspyre.spec.layout import MAX_RANK, SpyreTensorLayout
from openspyre.spec.ops import Kind
from openspyre.spec.ops.random import WORDS
from torch_spyre.inductor.graph import DrawnWord, Number
from torch_spyre.inductor.lowering.tensor_spec import NotImportable, SymbolicScalar, TensorSpec
from torch_spyre.ops import eager
from torch_spyre.ops.calls import BufferFacts, Call, ProgramBuilder, dtype_name
from torch_spyre.ops.numbers import integer_of
from torch_spyre.ops.plans import CallPlan

Supplied = float | Number | DrawnWord  # what a launch scalar is


class Unread(NotImportable):
    """A lowering that computes results which nobody reads."""


class LoweredCall(Call):
    """A call inside a graph: what it would have launched is added to the graph's program instead."""

    def __init__(self, lowering: CallLowering, binding: Any, values: list[Any], results: list[TensorSpec]) -> None:
        super().__init__(binding, values)
        self.lowering, self.fixed = lowering, tuple(results)

    @property
    def outcomes(self) -> tuple[torch.Tensor, ...]:
        return self.fixed

    @outcomes.setter
    def outcomes(self, chosen: tuple[torch.Tensor, ...]) -> None:
        """The graph has fixed them: its other calls rely on these strides."""

    def with_stand_ins(self, stand_in: Callable[[Any], Any]) -> Any:
        """A number that only the launch knows is any number here."""
        pairs = zip(self.binding.arguments, self.values, strict=True)
        numbers = {id(v): _any_number(v.dtype) for a, v in pairs if a.is_scalar and isinstance(v, SymbolicScalar)}
        return super().with_stand_ins(lambda value: numbers[id(value)] if id(value) in numbers else stand_in(value))

    def facts(self, tensor: torch.Tensor) -> BufferFacts:
        buffer = self.lowering.buffers[tensor.buffer]  # type: ignore[attr-defined]
        return BufferFacts(buffer.dtype, buffer.size, buffer.stride, buffer.layout)

    def finish(self, builder: ProgramBuilder) -> CallPlan:
        self.lowering.take_over(self, builder)
        return CallPlan(0, (), (), (), ())

    def _layout_of(self, outcome: torch.Tensor) -> SpyreTensorLayout | None:
        return None


@dataclass(frozen=True, slots=True)
class Temporary:
    """A buffer of a lowering's own, named after the row and the place of the op it was made for."""

    buffer: Buffer
    row: str
    place: int

    @property
    def name(self) -> str:
        return temporary_name(self.row, self.place, self.buffer.name)


def temporary_name(row: str, place: int, name: str) -> str:
    return f"{row}_{place}.{name}"


class CallLowering:
    """Builds the ops of a call on tensors that lie in `buffers`."""

    def __init__(self, buffers: dict[str, Buffer]) -> None:
        self.buffers = buffers
        self.temporaries: list[Temporary] = []
        self.ops: list[Op] = []
        self.scalars: dict[tuple[str, str], tuple[Scalar, Supplied]] = {}  # by dtype and text: -0.0 equals 0.0
        self.draws: list[int] = []

    # --- what spellings are made of -----------------------------------------------------------------------------------

    def run(self, target: str, arguments: list[Any], results: list[TensorSpec | None]) -> None:
        """A call that eager has, its results going to the given tensors."""
        found = eager.binding_of(target)
        if found is None:
            raise NotImportable(f"{target} has no row in the op table")
        binding, lowering = found
        wanted = [result for result in results if result is not None]
        _check_formats(target, wanted)
        before = len(self.ops)
        try:
            plan = lowering.compile_call(
                LoweredCall(self, binding, arguments, _all_results(binding, arguments, results))
            )
        except NotImplementedError as error:
            raise NotImportable(f"{target}: {error}") from error
        if plan is None or plan.resize:
            raise NotImportable(f"{target} has no lowering for {_signature(arguments)}")
        written = {access.buffer for op in self.ops[before:] for access in op.outputs}
        for result in wanted:
            if result.numel() and result.buffer not in written:
                raise NotImportable(f"{target} does not compute all its results")

    def move(self, source: torch.Tensor, target: TensorSpec) -> None:
        """Elements of a view (broadcast as torch does) to another, converted if need be."""
        if isinstance(source, SymbolicScalar):
            self.run("aten.fill_.Tensor", [target, source], [target])
            return
        source = source.expand(target.shape)
        _check_formats("a copy", [target, source])
        if target.numel() == 0:
            return
        if target.dim() > MAX_RANK:
            raise NotImportable(f"a copy of rank {target.dim()}, a program has at most {MAX_RANK} dims")
        dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(target.shape))
        row = "relayout" if source.dtype == target.dtype else "cast"
        self.ops.append(Op(f"{row}_{len(self.ops)}", row, dims, (_access(source),), (_access(target),)))

    def access(self, tensor: Any, strides: tuple[int, ...]) -> Access:
        """Of a tensor's buffer, from where the tensor starts."""
        return Access(tensor.buffer, int(tensor.storage_offset()), strides, dtype_name(tensor.dtype))

    def take_over(self, call: LoweredCall, builder: ProgramBuilder) -> None:
        """Take over what a lowering built, its buffers and scalars too."""
        names = {}
        symbols = iter(builder.symbols)
        for buffer in builder.buffers:
            if buffer.role is Role.TEMP:
                self.temporaries.append(Temporary(buffer, builder.ops[-1].row, len(self.ops)))
                names[buffer.name] = self.temporaries[-1].name
            else:
                symbol = next(symbols)
                tensor = call.tensors[symbol] if symbol >= 0 else call.fixed[-1 - symbol]
                names[buffer.name] = tensor.buffer
        scalars = {
            operand.name: self._supplied(operand, call.values, argument, encoding)
            for operand, (argument, encoding) in zip(builder.scalar_operands, builder.scalars, strict=True)
        }
        self.draws += builder.draws
        for op in builder.ops:
            self.ops.append(
                replace(
                    op,
                    name=f"{op.row}_{len(self.ops)}",
                    inputs=tuple(renamed(operand, names, scalars) for operand in op.inputs),
                    outputs=tuple(replace(access, buffer=names[access.buffer]) for access in op.outputs),
                )
            )

    def _supplied(self, operand: Scalar, values: list[Any], argument: int, encoding: str) -> Scalar:
        number: Supplied
        if encoding in WORDS:
            number = DrawnWord(argument, encoding).after(len(self.draws))
        else:
            number = _number(operand, values[argument], encoding)
        fresh = Scalar(f"c{len(self.scalars)}", operand.dtype), number
        return self.scalars.setdefault((operand.dtype, repr(number)), fresh)[0]


def _number(operand: Scalar, value: Any, encoding: str) -> float | Number:
    if isinstance(value, TensorSpec):
        raise NotImportable("a number that only the launch knows")
    if isinstance(value, SymbolicScalar):
        if encoding == "int_below" or (operand.dtype == "int32" and value.dtype.is_floating_point):
            raise NotImportable("a number that only the launch knows, and that would be cut to an integer")
        return Number(value.place, dtype_name(value.dtype), encoding)
    if operand.dtype != "int32":
        return float(value)
    below = encoding == "int_below"
    held = integer_of(int(value) - 1 if below else _plain(value), "int64" if below else encoding)
    if held is None:
        raise NotImportable(f"the number {value}, which the launch refuses")
    return held


def _plain(value: Any) -> float | int:
    return value.item() if isinstance(value, torch.Tensor) else value


def _any_number(dtype: torch.dtype) -> float | int:
    return 1.0 if dtype.is_floating_point else dtype is torch.bool or 1


def renamed(operand: Operand, names: Mapping[str, str], scalars: Mapping[str, Scalar]) -> Operand:
    if isinstance(operand, Access):
        return operand.on(names[operand.buffer])
    return scalars[operand.name] if isinstance(operand, Scalar) else operand


def _access(tensor: torch.Tensor) -> Access:
    strides = tuple(0 if n == 1 else s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return Access(tensor.buffer, int(tensor.storage_offset()), strides, dtype_name(tensor.dtype))  # type: ignore[attr-defined]


def _all_results(binding: Any, arguments: list[Any], results: list[TensorSpec | None]) -> list[TensorSpec]:
    """The results a lowering may ask for: normalisations and attention can do without the statistics at their end."""
    written = next((v for a, v in zip(binding.arguments, arguments, strict=True) if a.written), None)
    if written is not None:
        return [written]
    known = list(results)
    while known and known[-1] is None and binding.rows[0].kind is Kind.ROWS:
        known.pop()
    if not known or any(result is None for result in known):
        raise Unread(f"{binding.overload} with only some of its results in use")
    return known  # type: ignore[return-value]


def _check_formats(what: str, tensors: list[Any]) -> None:
    for tensor in tensors:
        if get_device_dtype(tensor.dtype) is DataFormats.INVALID:
            raise NotImportable(f"{what} on {dtype_name(tensor.dtype)}, which the card does not have")


def _signature(arguments: list[Any]) -> str:
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    return ", ".join(f"{dtype_name(t.dtype)}{list(t.shape)}" for t in tensors) or "these arguments"
