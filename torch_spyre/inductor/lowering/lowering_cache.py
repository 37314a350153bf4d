"""What one aten call adds to a program: ops on numbered buffers. Equal calls are lowered once, in whichever layer or graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from openspyre.compiler.ir import Buffer, Op, Role, Scalar
from openspyre.spec.sharing import Memo
from torch_spyre.inductor.graph import Argument, DrawnWord, Expression, GraphCall, Named, Number, Ref, Value, evaluate
from torch_spyre.inductor.lowering.graph_lowerings import GRAPH_LOWERINGS
from torch_spyre.inductor.lowering.lower_call import (
    CallLowering,
    NotImportable,
    Supplied,
    Temporary,
    renamed,
    temporary_name,
)
from torch_spyre.inductor.lowering.tensor_spec import SymbolicScalar, TensorSpec
from torch_spyre.ops.numbers import word_of


@dataclass(frozen=True, slots=True)
class Fragment:
    """A call's ops. Its operands' buffers are called "0", "1", ..., in the order in which the call names them, and the launch's
    numbers are counted likewise."""

    ops: tuple[Op, ...]
    temporaries: tuple[Temporary, ...]
    numbers: Mapping[str, tuple[str, Supplied]]  # scalar of the fragment -> dtype, value
    draws: tuple[int, ...] = ()  # random numbers that each of its draws takes


@dataclass(frozen=True, slots=True)
class Described:
    """A call without names: its operands are numbered, and so are their buffers."""

    target: str
    arguments: tuple[Argument, ...]
    results: tuple[int, ...]
    operands: tuple[Value, ...]
    buffers: tuple[Value, ...]
    device: torch.device


_known: Memo[Fragment | NotImportable] = Memo()


def bound(value: Value, symbols: Mapping[str, int]) -> Value:
    """A value with numbers for its symbols."""
    if not symbols:
        return value
    size = tuple(evaluate(extent, symbols) for extent in value.size)
    stride = tuple(evaluate(extent, symbols) for extent in value.stride)
    return Value(value.buffer, value.dtype, size, stride, evaluate(value.offset, symbols))


def lowered(
    call: GraphCall,
    values: Sequence[Value],
    buffers: Mapping[str, Value],
    symbols: Mapping[str, int],
    device: torch.device,
) -> tuple[Fragment, tuple[str, ...], tuple[int, ...]]:
    """A call's fragment, which buffers its numbered ones are, and which numbers of the launch; NotImportable if no lowering takes it.

    `values` are bound; `buffers` has the value that describes each whole buffer.
    """
    operands: dict[int, int] = {}  # number of a value -> of the operand
    numbers: dict[int, int] = {}  # place of a launch's number -> in the fragment
    arguments = tuple([_plain(argument, operands, numbers, symbols) for argument in call.arguments])
    results = tuple([-1 if number < 0 else operands.setdefault(number, len(operands)) for number in call.results])
    names: dict[str, int] = {}
    lying = []
    for number in operands:
        value = values[number]
        buffer = names.setdefault(value.buffer, len(names))
        lying.append((buffer, value.dtype, value.size, value.stride, value.offset))
    wholes = [(whole.dtype, whole.size, whole.stride, whole.offset) for whole in map(buffers.__getitem__, names)]
    key = (call.target, arguments, results, tuple(lying), tuple(wholes), device)
    found = _known.get(key, lambda: _lower(_described(call, operands, numbers, values, buffers, symbols, device)))
    if isinstance(found, NotImportable):
        raise type(found)(*found.args)
    return found, tuple(names), tuple(numbers)


def _plain(
    argument: Argument, operands: dict[int, int], numbers: dict[int, int], symbols: Mapping[str, int]
) -> Hashable:
    """An argument as part of a key. Numbers come with their kind and sign: 1, 1.0, True and -0.0 differ."""
    match argument:
        case Ref(value=number):
            return operands.setdefault(number, len(operands))
        case None | str() | Named():
            return argument
        case Expression(text=text):
            return int, repr(evaluate(text, symbols))
        case tuple():
            return tuple([_plain(item, operands, numbers, symbols) for item in argument])
        case Number(place=place, dtype=dtype):
            return Number, numbers.setdefault(place, len(numbers)), dtype
    return type(argument), repr(argument)


def _described(
    call: GraphCall,
    operands: Mapping[int, int],
    numbers: Mapping[int, int],
    values: Sequence[Value],
    buffers: Mapping[str, Value],
    symbols: Mapping[str, int],
    device: torch.device,
) -> Described:
    names: dict[str, str] = {}
    for number in operands:
        names.setdefault(values[number].buffer, str(len(names)))
    return Described(
        call.target,
        tuple(_numbered(argument, operands, numbers, symbols) for argument in call.arguments),
        tuple(-1 if number < 0 else operands[number] for number in call.results),
        tuple(replace(values[number], buffer=names[values[number].buffer]) for number in operands),
        tuple(replace(buffers[name], buffer=number) for name, number in names.items()),
        device,
    )


def _numbered(
    argument: Argument, operands: Mapping[int, int], numbers: Mapping[int, int], symbols: Mapping[str, int]
) -> Argument:
    match argument:
        case Ref(value=number):
            return Ref(operands[number])
        case Expression(text=text):
            return evaluate(text, symbols)
        case tuple():
            return tuple(_numbered(item, operands, numbers, symbols) for item in argument)
        case Number(place=place, dtype=dtype):
            return Number(numbers[place], dtype)
    return argument


def _lower(described: Described) -> Fragment | NotImportable:
    lowering = CallLowering(
        {b.buffer: Buffer(b.buffer, b.dtype, b.size, b.stride, Role.TEMP) for b in described.buffers}  # type: ignore[arg-type]
    )
    tensors = [_tensor_spec(value, described.device) for value in described.operands]
    given = [_given(argument, tensors) for argument in described.arguments]
    results = [tensors[number] if number >= 0 else None for number in described.results]
    spelling = GRAPH_LOWERINGS.get(described.target)
    try:
        if spelling is not None:
            spelling(lowering, given, given[0] if results[0] is None else results[0])
        else:
            lowering.run(described.target, given, results)
    except NotImportable as reason:
        return reason.with_traceback(None)
    numbers = {scalar.name: (dtype, value) for (dtype, _), (scalar, value) in lowering.scalars.items()}
    return Fragment(tuple(lowering.ops), tuple(lowering.temporaries), numbers, tuple(lowering.draws))


def _tensor_spec(value: Value, device: torch.device) -> TensorSpec:
    return TensorSpec(value.buffer, getattr(torch, value.dtype), value.size, value.stride, value.offset, device)  # type: ignore[arg-type]


def _given(argument: Argument, tensors: list[TensorSpec]) -> Any:
    match argument:
        case Ref(value=number):
            return tensors[number]
        case Named(kind="device", name=name):
            return torch.device(name)
        case Named(name=name):
            return getattr(torch, name)
        case Number(place=place, dtype=dtype):
            return SymbolicScalar(place, getattr(torch, dtype))
        case tuple():
            return [_given(item, tensors) for item in argument]
    return argument


class Assembly:
    """A program being put together of fragments, each on buffers of the graph."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.temporaries: dict[str, Buffer] = {}
        self.numbers: dict[tuple[str, str], tuple[Scalar, Supplied]] = {}
        self.draws: list[int] = []

    def add(self, fragment: Fragment, names: Sequence[str], numbers: Sequence[int], call: GraphCall) -> None:
        base = len(self.ops)
        known = {str(place): name for place, name in enumerate(names)}
        for made in fragment.temporaries:
            name = known[made.name] = temporary_name(made.row, base + made.place, made.buffer.name)
            self.temporaries[name] = replace(made.buffer, name=name)
        drawn = len(self.draws)
        scalars = {
            name: self._scalar(dtype, _of(value, numbers, drawn)) for name, (dtype, value) in fragment.numbers.items()
        }
        self.draws += fragment.draws
        for place, op in enumerate(fragment.ops, base):
            inputs = tuple([renamed(operand, known, scalars) for operand in op.inputs])
            outputs = tuple([access.on(known[access.buffer]) for access in op.outputs])
            self.ops.append(
                Op(f"{op.row}_{place}", op.row, op.dims, inputs, outputs, op.attributes, call.origin, call.hints)
            )

    def _scalar(self, dtype: str, value: Supplied) -> Scalar:
        key = dtype, repr(value)
        if key not in self.numbers:
            known = None if isinstance(value, Number | DrawnWord) else word_of(value, dtype)
            self.numbers[key] = Scalar(f"c{len(self.numbers)}", dtype, known), value
        return self.numbers[key][0]


def _of(value: Supplied, numbers: Sequence[int], drawn: int) -> Supplied:
    """A fragment's number or draw as the launch counts it."""
    if isinstance(value, DrawnWord):
        return value.after(drawn)
    return replace(value, place=numbers[value.place]) if isinstance(value, Number) else value
