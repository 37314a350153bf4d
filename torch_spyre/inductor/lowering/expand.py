"""From a graph of aten calls to the IR program of one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from openspyre.compiler.ir import Access, Buffer, NamedDim, Program, Role
from openspyre.spec import packing
from torch_spyre._inductor.propagate_named_dims import named_strides
from torch_spyre.inductor.graph import DrawnWord, Graph, Number, Value, evaluate
from torch_spyre.inductor.lowering.graph_lowerings import LEFT_AS_THEY_ARE
from torch_spyre.inductor.lowering.lowering_cache import Assembly, bound, lowered


@dataclass(frozen=True, slots=True)
class Expanded:
    """A graph as one IR program, its arguments first: inputs, then outputs. Its scalars are the `constants`, then the launch's `numbers`;

    `draws` says how many random numbers each of its draws takes.
    """

    program: Program
    constants: tuple[float, ...]
    numbers: tuple[Number | DrawnWord, ...]
    draws: tuple[int, ...]


def expand(graph: Graph, symbols: Mapping[str, int], device: torch.device) -> Expanded:
    """The whole graph; no buffer has a layout yet."""
    values = [bound(value, symbols) for value in graph.values]
    wholes: dict[str, Value] = {}
    for value in values:
        wholes.setdefault(value.buffer, value)
    assembly = Assembly()
    for call in graph.calls:
        fragment, names, numbers = lowered(call, values, wholes, symbols, device)
        assembly.add(fragment, names, numbers, call)
    roles = {graph.values[number].buffer: Role.INPUT for number in graph.inputs}
    roles |= {graph.values[number].buffer: Role.UPDATE for number in graph.updated}
    roles |= {graph.values[number].buffer: Role.OUTPUT for number in graph.outputs}
    known = dict(graph.constants)
    held = {values[number].buffer: packing.unpacked(known[number], _bytes(values[number])) for number in known}
    used = {access.buffer for op in assembly.ops for access in (*op.inputs, *op.outputs) if isinstance(access, Access)}
    unset = {values[call.results[0]].buffer for call in graph.calls if call.target in LEFT_AS_THEY_ARE}
    arguments = [_buffer(wholes[name], role, name in unset) for name, role in roles.items()]
    constants = [replace(_buffer(wholes[name], Role.CONSTANT, False), values=held[name]) for name in held]
    between = [
        _buffer(whole, Role.TEMP, name in unset)
        for name, whole in wholes.items()
        if name in used and name not in roles and name not in held
    ]
    own = [buffer for name, buffer in assembly.temporaries.items() if name in used]
    constant = [(s, value) for s, value in assembly.numbers.values() if not isinstance(value, Number | DrawnWord)]
    brought = [(s, value) for s, value in assembly.numbers.values() if isinstance(value, Number | DrawnWord)]
    scalars = (*(scalar for scalar, _ in constant), *(scalar for scalar, _ in brought))
    named = _named(graph, values, symbols)
    ours = (*arguments, *constants, *between)
    buffers = [replace(b, named=named[b.name]) if b.name in named else b for b in ours]
    program = Program(graph.name, (*buffers, *own), tuple(assembly.ops), scalars)
    return Expanded(
        program,
        tuple(value for _, value in constant),
        tuple(value for _, value in brought),
        tuple(assembly.draws),
    )


def _named(graph: Graph, values: Sequence[Value], symbols: Mapping[str, int]) -> dict[str, tuple[NamedDim, ...]]:
    """Named dims by buffer. A size that is none of the graph's, as after another call with other shapes, names nothing."""
    found: dict[str, tuple[NamedDim, ...]] = {}
    for number, names in graph.named:
        value, sizes = values[number], [evaluate(size, symbols) for _, size in names]
        strides = named_strides(value.size, value.stride, sizes)  # type: ignore[arg-type]
        dims = zip(names, sizes, strides or (), strict=False)
        found[value.buffer] = tuple(
            NamedDim(name, size, stride) for (name, _), size, stride in dims if name and size > 1
        )
    return found


def _bytes(value: Value) -> int:
    return packing.value_bytes(value.size, value.stride, value.dtype)  # type: ignore[arg-type]


def _buffer(whole: Value, role: Role, unset: bool) -> Buffer:
    return Buffer(whole.buffer, whole.dtype, whole.size, whole.stride, role, unset=unset)  # type: ignore[arg-type]
