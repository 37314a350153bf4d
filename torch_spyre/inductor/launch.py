"""Launches of compiled graphs: the imported graph is specialised on sizes and layouts of its actual inputs, once each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from openspyre.compiler.ir import Access, Buffer, Op
from openspyre.spec.encodings import sen169_decode, sen169_encode
from torch_spyre import _torch
from torch_spyre.device.layouts import device_tensor_layout
from torch_spyre.inductor.expand import expand
from torch_spyre.inductor.graph import Graph, evaluate, from_text
from torch_spyre.ops.programs import load


@dataclass(slots=True)
class OpenGraph:
    """A graph of generated code and what has been specialised of it."""

    graph: Graph
    plans: dict[tuple[object, ...], object] = field(default_factory=dict)


def open_graph(text: str) -> OpenGraph:
    """Called once per graph when generated code is loaded."""
    return OpenGraph(from_text(text))


def launch(opened: OpenGraph, inputs: list[torch.Tensor], symbols: list[int]) -> list[torch.Tensor]:
    """Run a graph on these tensors, on the current stream; the tensors it makes."""
    key = (*symbols, *((_torch.layout_of(tensor)[0], tensor.storage_offset()) for tensor in inputs))
    plan = opened.plans.get(key)
    if plan is None:
        plan = opened.plans[key] = specialise(opened.graph, inputs, symbols)
    program, pool_bytes, words, results = plan
    outputs = [torch.empty_strided(size, stride, dtype=dtype, device="spyre") for dtype, size, stride in results]
    _torch.launch_program(program, (*inputs, *outputs), len(inputs), words, pool_bytes)
    return outputs


def specialise(graph: Graph, inputs: list[torch.Tensor], symbols: list[int]):
    """The program of a graph on the layouts and offsets of the tensors it is launched on."""
    known = dict(zip(graph.symbols, symbols, strict=True))
    expanded = expand(graph, known, inputs[0].device)
    program = expanded.program
    names = [graph.values[number].buffer for number in graph.inputs]
    given = {name: _buffer(program.buffer(name), tensor) for name, tensor in zip(names, inputs, strict=True)}
    shifts = {
        name: tensor.storage_offset() - evaluate(graph.values[number].offset, known)
        for name, number, tensor in zip(names, graph.inputs, inputs, strict=True)
    }
    buffers = tuple(given.get(buffer.name, buffer) for buffer in program.buffers)
    program = replace(program, buffers=buffers, ops=tuple(_shift(op, shifts) for op in program.ops))
    outs = [graph.values[number] for number in graph.outputs]
    results = [
        (getattr(torch, o.dtype), [evaluate(n, known) for n in o.size], [evaluate(n, known) for n in o.stride])
        for o in outs
    ]
    number, pool_bytes = load(program)
    words = [_word(value, scalar.dtype) for value, scalar in zip(expanded.numbers, program.scalars, strict=True)]
    return number, pool_bytes, words, results


def _buffer(buffer: Buffer, tensor: torch.Tensor) -> Buffer:
    record = _torch.buffer_of(tensor)
    size, stride = tuple(record["host_size"]), tuple(record["host_stride"])
    return Buffer(buffer.name, record["dtype"], size, stride, buffer.role, device_tensor_layout(tensor))


def _shift(op: Op, shifts: dict[str, int]) -> Op:
    def moved(operand: object) -> object:
        if isinstance(operand, Access) and shifts.get(operand.buffer):
            return replace(operand, offset=operand.offset + shifts[operand.buffer])
        return operand

    return replace(op, inputs=tuple(map(moved, op.inputs)), outputs=tuple(map(moved, op.outputs)))  # type: ignore[arg-type]


def _word(number: float, dtype: str) -> int:
    """A constant in a register: rounded to the op's format first, as every scalar is (contract N7)."""
    if dtype == "int32":
        return int(number) & 0xFFFFFFFF
    value = np.float32(number)
    if dtype == "float16" and np.isfinite(value):
        value = np.float32(sen169_decode(sen169_encode(value)))
    return int(value.view(np.uint32))


def get_raw_stream(device: int) -> int:
    """The stream generated code runs on; launches find it by themselves."""
    return torch.spyre.current_stream(device).stream_id
