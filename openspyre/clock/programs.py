"""`time_program`: how long a card would take for a program before host fusion. Its steps state dims, lanes and places."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import assert_never

from openspyre.clock.kernels import (
    Division,
    Form,
    Gather,
    Kernel,
    Layout,
    Matmul,
    Move,
    Norm,
    Pointwise,
    Reduction,
    RoundTrip,
    Runs,
)
from openspyre.clock.timing import Item, Timing, time_items
from openspyre.clock.transfers import launch
from openspyre.program import model
from openspyre.program.model import LoopNest, Node, Operand, OperandKind, Program, Repeat, Space, Step
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.machine import SPYRE, Machine


def time_program(program: Program, machine: Machine = SPYRE) -> Timing:
    """Every step of a launch with its time."""
    items = [
        Item(step.name, type(step).__name__.lower(), kernel_of_step(step, machine), times, path)
        for step, times, path in _listed(program.body, 1, ())
    ]
    return time_items(program.name, items, machine, launch(machine))


def _listed(body: tuple[Node, ...], times: int, path: tuple[int, ...]) -> Iterator[tuple[Step, int, tuple[int, ...]]]:
    for number, node in enumerate(body):
        match node:
            case Repeat(count, inner):
                yield from _listed(inner, times * count, (*path, number))
            case step:
                yield step, times, path


def kernel_of_step(step: Step, machine: Machine = SPYRE) -> Kernel:
    """What a step amounts to."""
    match step:
        case model.Relayout():
            moved = step.source.layout.device_bytes + step.target.layout.device_bytes
            rows, columns = prod(step.source.size[:-1]), prod(step.source.size[-1:])
            return Layout(Move.RESTICKIFY, max(1, rows), max(1, columns), moved)
        case model.Contract():
            return _matmul(step, _cores(step, machine))
        case model.Reduce():
            return _reduction(step, _cores(step, machine))
        case model.Gather() | model.Scatter():
            rows = max(1, prod(dim.extent for dim in step.dims))
            return Gather(_bytes(step, step.inputs), _bytes(step, step.outputs), rows, _cores(step, machine))
        case model.Rows():
            return _rows(step, _cores(step, machine))
        case model.Scan() | model.Sort():
            return RoundTrip(_each(step, step.inputs), _each(step, step.outputs))
        case model.Map():
            return _map(step, _cores(step, machine))
    assert_never(step)


def _cores(step: LoopNest, machine: Machine) -> int:
    return min(machine.cores, max(1, prod(dim.split for dim in step.dims)))


def _sticks(step: LoopNest, operand: Operand) -> int:
    """Sticks an operand has in all, each once: along its lanes, times the dims that move it."""
    if not operand.kind.in_memory:
        return 0
    vector = operand.kind is OperandKind.VECTOR
    moving = [
        dim.extent
        for number, (dim, stride) in enumerate(zip(step.dims, operand.strides, strict=True))
        if stride and not (vector and number == step.lane.block_dim)
    ]
    per_stick = DataFormats[operand.data_format].elems_per_stick()
    return prod(moving) * (-(-max(1, step.lane.extent) // per_stick) if vector else 1)


def _each(step: LoopNest, operands: tuple[Operand, ...]) -> tuple[int, ...]:
    return tuple(STICK_BYTES * _sticks(step, operand) for operand in operands if operand.kind.in_memory)


def _bytes(step: LoopNest, operands: tuple[Operand, ...], space: Space = Space.MEMORY) -> int:
    return sum(STICK_BYTES * _sticks(step, o) for o in operands if o.kind.in_memory and o.space is space)


def _scratchpad(step: LoopNest) -> int:
    return _bytes(step, (*step.inputs, *step.outputs), Space.SCRATCHPAD)


def _runs(step: LoopNest, operand: Operand) -> Runs:
    """Along the innermost dim that moves an operand stick by stick: a core's share of it, and the whole of it."""
    per_stick = DataFormats[operand.data_format].elems_per_stick()
    inner = [dim for dim, stride in zip(step.dims, operand.strides, strict=True) if stride == per_stick]
    if not inner or inner[0].split == 1:
        return Runs()
    return Runs(STICK_BYTES * max(1, inner[0].extent // inner[0].split), STICK_BYTES * inner[0].extent)


def _map(step: model.Map, cores: int) -> Pointwise:
    result = step.outputs[0]
    sticks = _sticks(step, result)
    held = [_sticks(step, operand) for operand in step.inputs if operand.kind.in_memory]
    whole = sum(count >= sticks for count in held)
    form = Form.BINARY if whole >= 2 else Form.ALONG_ROWS if any(1 < count < sticks for count in held) else Form.UNARY
    return Pointwise(
        form if step.code.instructions else Form.COPY,
        _bytes(step, step.inputs),
        _bytes(step, step.outputs),
        cores,
        _runs(step, result),
        max(1, step.lane.extent),
        _scratchpad(step),
    )


def _reduction(step: model.Reduce, cores: int) -> Reduction:
    source, block = step.inputs[0], step.lane.block_dim
    kept = [dim.extent for number, dim in enumerate(step.dims) if not dim.reduced and number != block]
    return Reduction(
        _bytes(step, step.inputs),
        _bytes(step, step.outputs),
        max(1, prod(kept)),
        max(1, _sticks(step, source)),
        cores,
        stride=_runs(step, source).stride,
        over_rows=not step.lane.reduced,
        resident=source.space is Space.SCRATCHPAD,
    )


def _rows(step: model.Rows, cores: int) -> Norm:
    sticks = max((_sticks(step, operand) for operand in (*step.inputs, *step.outputs)), default=1)
    passes = max(1, len(step.stages))
    return Norm(_bytes(step, step.inputs), _bytes(step, step.outputs), sticks * passes, cores, _scratchpad(step))


def _matmul(step: model.Contract, cores: int) -> Matmul:
    """Dims move the first operand (rows), the second (columns, with the lanes), both (batch), or are reduced (k)."""
    first, second, result = step.inputs[0], step.inputs[1], step.outputs[0]
    sizes, splits = {"b": 1, "m": 1}, {"b": 1, "m": 1, "n": 1, "k": 1}
    k, block = len(step.dims) - 1, step.lane.block_dim
    for number, dim in enumerate(step.dims):
        role = "k" if number == k else "n" if number == block else "b" if second.strides[number] else "m"
        splits[role] *= dim.split
        if role in sizes:
            sizes[role] *= dim.extent
    return Matmul(
        sizes["b"],
        sizes["m"],
        max(1, step.lane.extent),
        max(1, step.k_extent),
        Division(splits["b"], splits["m"], splits["n"], splits["k"]),
        cores,
        first_resident=first.space is Space.SCRATCHPAD,
        second_resident=second.space is Space.SCRATCHPAD,
        result_resident=result.space is Space.SCRATCHPAD,
        three_dims=sizes["b"] > 1,
    )
