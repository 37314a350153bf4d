"""From a graph of aten calls to the IR program of one launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from openspyre.compiler.ir import Access, Buffer, Program, Role
from openspyre.spec import packing
from torch_spyre.inductor.graph import DrawnWord, Graph, Number, Value
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
        assembly.add(fragment, names, numbers, call.origin)
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
    program = Program(graph.name, (*arguments, *constants, *between, *own), tuple(assembly.ops), scalars)
    return Expanded(
        program,
        tuple(value for _, value in constant),
        tuple(value for _, value in brought),
        tuple(assembly.draws),
    )


def _bytes(value: Value) -> int:
    return packing.value_bytes(value.size, value.stride, value.dtype)  # type: ignore[arg-type]


def _buffer(whole: Value, role: Role, unset: bool) -> Buffer:
    return Buffer(whole.buffer, whole.dtype, whole.size, whole.stride, role, unset=unset)  # type: ignore[arg-type]
