"""A call of an aten overload on tensors of the card, and the program that is built for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from openspyre.compiler.ir import Access, Buffer, Op, Program, Role, Scalar
from openspyre.spec.formats import DataFormats, get_device_dtype
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import Kind, Row
from openspyre.spec.ops.random import WORDS
from openspyre.spec.origin import Origin
from torch_spyre import _torch
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.layouts import device_tensor_layout
from torch_spyre.ops.kernel_provenance import register_provenance
from torch_spyre.ops.plans import CallPlan, ResultPlan
from torch_spyre.ops.programs import load


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an overload, as its schema has it."""

    name: str
    is_tensor: bool
    is_scalar: bool
    written: bool
    keyword: bool


@dataclass(frozen=True, slots=True)
class BufferFacts:
    """The buffer behind a tensor: its own dtype, size and strides, and its layout where that is known already."""

    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    layout: SpyreTensorLayout | None


@dataclass(frozen=True, slots=True)
class Binding:
    """An overload and the rows that may serve it, tried in order."""

    overload: Any
    arguments: tuple[Argument, ...]
    rows: tuple[Row, ...]


def on_card(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME


def aten_name(binding: Binding) -> str:
    """The operator's name without its overload's."""
    return str(binding.overload._schema.name).removeprefix("aten::")


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def encoding_of(dtype: str) -> str:
    """How the launch writes a number for an operand of this dtype (ScalarPlan in csrc/torch/operators/plans.h)."""
    return {"int32": "int64_ends", "float32": "float"}.get(dtype, "sen169")


class Call:
    """The arguments of one call, and what torch says its result is (shape errors are torch's own)."""

    def __init__(self, binding: Binding, values: list[Any]) -> None:
        self.binding = binding
        self.values = values
        self.given = {argument.name: value for argument, value in zip(binding.arguments, values, strict=True)}
        self.tensors = [value for value in _flattened(values) if on_card(value)]
        self.written = next((v for a, v in zip(binding.arguments, values, strict=True) if a.written), None)

    @property
    def outcome(self) -> torch.Tensor:
        """The (first) result as a meta tensor."""
        return self.outcomes[0]

    @cached_property
    def outcomes(self) -> tuple[torch.Tensor, ...]:
        """All results as meta tensors."""
        try:
            returned = self.with_stand_ins(_meta)
        except (RuntimeError, IndexError, TypeError, ValueError):
            # The CPU words its errors better, and knows more than meta. It would divide by zeros; of indices all have a 0.
            arithmetic = all(row.kind is Kind.POINTWISE for row in self.binding.rows)
            returned = self.with_stand_ins(_ones if arithmetic else _zeros)
        return returned if isinstance(returned, tuple) else (returned,)

    def with_stand_ins(self, stand_in: Callable[[Any], Any]) -> Any:
        """What the overload returns with other arguments in place of each."""
        pairs = [(a, stand_in(v)) for a, v in zip(self.binding.arguments, self.values, strict=True)]
        keywords = {argument.name: value for argument, value in pairs if argument.keyword}
        return self.binding.overload(*(value for argument, value in pairs if not argument.keyword), **keywords)

    def place(self, tensor: torch.Tensor) -> int:
        """The tensor's number among the call's tensors on the card."""
        return next(i for i, other in enumerate(self.tensors) if other is tensor)

    @property
    def result(self) -> ResultPlan:
        return self.results[0]

    @cached_property
    def results(self) -> tuple[ResultPlan, ...]:
        """Where results go: into the call's own tensor, or into new ones with layouts by D6."""
        if self.written is not None:
            outcome = self.outcome
            return (
                ResultPlan(self.place(self.written), self.written.dtype, tuple(outcome.shape), outcome.stride(), None),
            )
        foreign = [o.dtype for o in self.outcomes if get_device_dtype(o.dtype) is DataFormats.INVALID]
        if foreign:
            raise NotImplementedError(f"the card has no format for {foreign[0]}")
        return tuple(ResultPlan(-1, o.dtype, tuple(o.shape), o.stride(), self._layout_of(o)) for o in self.outcomes)

    def plan_without_work(self) -> CallPlan | None:
        """A plan for calls that compute nothing: an out= to be resized first, or an empty result."""
        if self.written is not None and self.written.shape != self.outcome.shape:
            return CallPlan(0, (), (), (), self.results, resize=(self.place(self.written),))
        empty = all(outcome.numel() == 0 for outcome in self.outcomes)
        return CallPlan(0, (), (), (), self.results) if empty else None

    def facts(self, tensor: torch.Tensor) -> BufferFacts:
        """What is known of the buffer a tensor of the call lies in."""
        record = _torch.buffer_of(tensor)
        size, stride = tuple(record["host_size"]), tuple(record["host_stride"])
        return BufferFacts(record["dtype"], size, stride, device_tensor_layout(tensor))

    def finish(self, builder: ProgramBuilder) -> CallPlan:
        """The plan of a program that has been built: compiled and loaded."""
        name = builder.ops[-1].row
        origin = Origin(operator=str(self.binding.overload))
        ops = tuple(replace(op, origin=origin) for op in builder.ops)
        loaded = load(Program(name, tuple(builder.buffers), ops, tuple(builder.scalar_operands)))
        register_provenance(loaded.described)
        return CallPlan(
            loaded.number,
            tuple(builder.symbols),
            tuple(builder.offsets),
            tuple(builder.scalars),
            self.results,
            pool_bytes=loaded.pool_bytes,
            draws=tuple(builder.draws),
            tensors=loaded.tensors,
            predicted=loaded.predicted,
            described=loaded.described,
        )

    def _layout_of(self, outcome: torch.Tensor) -> SpyreTensorLayout | None:
        """The first dense input of the same shape and stick size gives its layout, else the default for the result's strides."""
        wanted = get_device_dtype(outcome.dtype)
        for tensor in self.tensors:
            facts = self.facts(tensor)
            layout = facts.layout
            if layout is None:
                continue
            whole = (facts.size, facts.stride) == (tuple(outcome.shape), outcome.stride())
            fits = layout.stride_map[-1] > 0 and layout.elems_per_stick() == wanted.elems_per_stick()
            if whole and fits and tensor.storage_offset() == 0:
                return SpyreTensorLayout(layout.device_size, layout.stride_map, wanted, layout.element_arrangement)
        size = list(outcome.shape)
        return SpyreTensorLayout(size, list(outcome.stride()), outcome.dtype, list(range(len(size))))


class ProgramBuilder:
    """Collects the buffers, scalars and ops of a call's program."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.buffers: list[Buffer] = []
        self.symbols: list[int] = []
        self.offsets: list[int] = []
        self.scalars: list[tuple[int, str]] = []
        self.scalar_operands: list[Scalar] = []
        self.draws: list[int] = []
        self.ops: list[Op] = []

    def read(self, tensor: torch.Tensor, strides: tuple[int, ...], of: torch.Tensor | None = None) -> Access:
        """An access to a tensor of the call (`of`, if `tensor` is a view of one) with a stride per dim of the op."""
        name = self._buffer(of if of is not None else tensor, Role.INPUT)
        return Access(name, int(tensor.storage_offset()), strides, dtype_name(tensor.dtype))

    def draw(self, numbers: int) -> tuple[Scalar, ...]:
        """Random numbers of the call's generator, taken anew at every launch: the words that say which."""
        words = tuple(Scalar(name, "int32") for name in WORDS)
        self.scalars += [(len(self.draws), name) for name in WORDS]
        self.scalar_operands += words
        self.draws.append(numbers)
        return words

    def scalar(self, argument: int, dtype: str, encoding: str | None = None) -> Scalar:
        """A number of the call, supplied at every launch."""
        operand = Scalar(f"scalar{len(self.scalars)}", dtype)
        self.scalars.append((argument, encoding or encoding_of(dtype)))
        self.scalar_operands.append(operand)
        return operand

    def result(self, strides: tuple[int, ...] | None = None, number: int = 0) -> Access:
        """The access that stores a result; `strides` per dim of the op, the result's own by default."""
        plan, written = self.call.results[number], self.call.written
        if written is not None:
            name = self._buffer(written, Role.UPDATE)
            own = tuple(written.stride())
            return Access(
                name, written.storage_offset(), own if strides is None else strides, dtype_name(written.dtype)
            )
        name = f"out{number}" if number else "out"
        self.buffers.append(Buffer(name, dtype_name(plan.dtype), plan.size, plan.stride, Role.OUTPUT, plan.layout))
        self.symbols.append(-1 - number)
        self.offsets.append(0)
        return Access(name, 0, plan.stride if strides is None else strides, dtype_name(plan.dtype))

    def temp(
        self,
        name: str,
        dtype: str,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        layout: SpyreTensorLayout | None = None,
    ) -> str:
        """A buffer of the program's own. The compiler chooses a layout where none is given."""
        self.buffers.append(Buffer(name, dtype, size, stride, Role.TEMP, layout))
        return name

    def add(self, op: Op) -> None:
        self.ops.append(op)

    def plan(self) -> CallPlan:
        return self.call.finish(self)

    def _buffer(self, tensor: torch.Tensor, role: Role) -> str:
        facts = self.call.facts(tensor)
        name = f"{'out' if role is Role.UPDATE else 'arg'}{len(self.buffers)}"
        self.buffers.append(Buffer(name, facts.dtype, facts.size, facts.stride, role, facts.layout))
        self.symbols.append(self.call.place(tensor))
        self.offsets.append(int(tensor.storage_offset()))
        return name


def _flattened(values: Iterable[Any]) -> Iterator[Any]:
    """Lists of tensors count one by one, as the C++ half counts them."""
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _meta(value: Any) -> Any:
    if isinstance(value, list):
        return [_meta(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return 1.0  # torch's description of masked_fill makes an integer of it
    # torch's numbers in disguise are float64 and int64: they promote by rules of their own.
    if isinstance(value, torch.Tensor) and value.dim() == 0 and value.dtype not in (torch.float64, torch.int64):
        return torch.empty((), dtype=value.dtype, device="meta")
    if on_card(value):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return value


def _zeros(value: Any) -> Any:
    if isinstance(value, list):
        return [_zeros(item) for item in value]
    return torch.zeros(value.shape, dtype=value.dtype) if on_card(value) else value


def _ones(value: Any) -> Any:
    return torch.ones(value.shape, dtype=value.dtype) if on_card(value) else value
