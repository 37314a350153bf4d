"""From a graph of aten calls to the IR program of one launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from openspyre.compiler.ir import Access, Program, Role
from torch_spyre.inductor.graph import Argument, Expression, Graph, GraphCall, Named, Ref, evaluate
from torch_spyre.inductor.spellings import SPELLINGS
from torch_spyre.inductor.splicing import Splicer
from torch_spyre.inductor.stand_in import StandIn


@dataclass(frozen=True, slots=True)
class Expanded:
    """A graph as one IR program, its arguments first: inputs, then outputs. `numbers` are the values of its scalars."""

    program: Program
    numbers: tuple[float, ...]


def expand(graph: Graph, symbols: Mapping[str, int], device: torch.device) -> Expanded:
    """The whole graph; no buffer has a layout yet."""
    splicer = Splicer(device)
    tensors = [splicer.tensor(value, symbols) for value in graph.values]
    for call in graph.calls:
        add_call(splicer, call, tensors, symbols)
    roles = {graph.values[number].buffer: Role.INPUT for number in graph.inputs}
    roles |= {graph.values[number].buffer: Role.UPDATE for number in graph.updated}
    roles |= {graph.values[number].buffer: Role.OUTPUT for number in graph.outputs}
    arguments = [replace(splicer.buffers[name], role=role) for name, role in roles.items()]
    used = {access.buffer for op in splicer.ops for access in (*op.inputs, *op.outputs) if isinstance(access, Access)}
    rest = [buffer for name, buffer in splicer.buffers.items() if name in used and name not in roles]
    program = Program(graph.name, (*arguments, *rest), tuple(splicer.ops), tuple(splicer.scalars.values()))
    return Expanded(program, tuple(number for _, number in splicer.scalars))


def add_call(splicer: Splicer, call: GraphCall, tensors: list[StandIn], symbols: Mapping[str, int]) -> None:
    """One call of the graph, or NotImportable and no trace of it."""
    splicer.origin = call.origin
    arguments = [_given(argument, tensors, symbols) for argument in call.arguments]
    results = [tensors[number] if number >= 0 else None for number in call.results]
    spelling = SPELLINGS.get(call.target)
    if spelling is not None:
        spelling(splicer, arguments, arguments[0] if results[0] is None else results[0])
    else:
        splicer.run(call.target, arguments, results)


def _given(argument: Argument, tensors: list[StandIn], symbols: Mapping[str, int]) -> Any:
    match argument:
        case Ref(value=number):
            return tensors[number]
        case Expression(text=text):
            return evaluate(text, symbols)
        case Named(kind="device", name=name):
            return torch.device(name)
        case Named(name=name):
            return getattr(torch, name)
        case tuple():
            return [_given(item, tensors, symbols) for item in argument]
    return argument
