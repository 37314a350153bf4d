"""`time_program`: how long a card would take for a program before host fusion. Its steps state loops, lanes and places."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

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
from openspyre.program.model import Node, Operand, OperandKind, Program, Space, Step, StepKind
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.machine import SPYRE, Machine


def time_program(program: Program, machine: Machine = SPYRE) -> Timing:
    """Every step of a launch with its time."""
    items = [
        Item(step.name, step.kind.value, kernel_of_step(step, machine), times, path)
        for step, times, path in _listed(program.body, 1, ())
    ]
    return time_items(program.name, items, machine, launch(machine))


def _listed(body: tuple[Node, ...], times: int, path: tuple[int, ...]) -> Iterator[tuple[Step, int, tuple[int, ...]]]:
    for number, node in enumerate(body):
        if isinstance(node, Step):
            yield node, times, path
        else:
            yield from _listed(node.body, times * node.count, (*path, number))


def kernel_of_step(step: Step, machine: Machine = SPYRE) -> Kernel:
    """What a step amounts to."""
    cores = min(machine.cores, max(1, prod(loop.split for loop in step.loops)))
    match step.kind:
        case StepKind.CONTRACT:
            return _matmul(step, cores)
        case StepKind.REDUCE:
            return _reduction(step, cores)
        case StepKind.RELAYOUT:
            source, target = step.views
            moved = source.layout.device_bytes + target.layout.device_bytes
            return Layout(Move.RESTICKIFY, max(1, prod(source.size[:-1])), max(1, prod(source.size[-1:])), moved)
        case StepKind.GATHER | StepKind.SCATTER:
            rows = max(1, prod(loop.extent for loop in step.loops))
            return Gather(_bytes(step, step.inputs), _bytes(step, step.outputs), rows, cores)
        case StepKind.ROWS:
            return _rows(step, cores)
        case StepKind.SCAN | StepKind.SORT:
            return RoundTrip(_each(step, step.inputs), _each(step, step.outputs))
        case StepKind.MAP:
            return _map(step, cores)


def _sticks(step: Step, operand: Operand) -> int:
    """Sticks an operand has in all, each once: along its lanes, times the loops that move it."""
    if not operand.kind.in_memory:
        return 0
    block = step.lane.block_loop if step.lane is not None else -1
    per_stick = DataFormats[operand.data_format].elems_per_stick()
    moving = [
        loop.extent
        for number, (loop, stride) in enumerate(zip(step.loops, operand.strides, strict=True))
        if stride and not (number == block and operand.kind is OperandKind.VECTOR)
    ]
    along = -(-max(1, step.lane.extent) // per_stick) if step.lane and operand.kind is OperandKind.VECTOR else 1
    return prod(moving) * along


def _each(step: Step, operands: tuple[Operand, ...]) -> tuple[int, ...]:
    return tuple(STICK_BYTES * _sticks(step, operand) for operand in operands if operand.kind.in_memory)


def _bytes(step: Step, operands: tuple[Operand, ...], space: Space = Space.MEMORY) -> int:
    return sum(STICK_BYTES * _sticks(step, o) for o in operands if o.kind.in_memory and o.space is space)


def _scratchpad(step: Step) -> int:
    return _bytes(step, (*step.inputs, *step.outputs), Space.SCRATCHPAD)


def _runs(step: Step, operand: Operand) -> Runs:
    """Along the innermost loop that moves an operand stick by stick: a core's share of it, and the whole of it."""
    per_stick = DataFormats[operand.data_format].elems_per_stick()
    inner = [loop for loop, stride in zip(step.loops, operand.strides, strict=True) if stride == per_stick]
    if not inner or inner[0].split == 1:
        return Runs()
    return Runs(STICK_BYTES * max(1, inner[0].extent // inner[0].split), STICK_BYTES * inner[0].extent)


def _map(step: Step, cores: int) -> Pointwise:
    result = step.outputs[0]
    sticks = _sticks(step, result)
    held = [_sticks(step, operand) for operand in step.inputs if operand.kind.in_memory]
    whole = sum(count >= sticks for count in held)
    form = Form.BINARY if whole >= 2 else Form.ALONG_ROWS if any(1 < count < sticks for count in held) else Form.UNARY
    if step.code is not None and not step.code.instructions:
        form = Form.COPY
    return Pointwise(
        form,
        _bytes(step, step.inputs),
        _bytes(step, step.outputs),
        cores,
        _runs(step, result),
        max(1, step.lane.extent) if step.lane else 64,
        _scratchpad(step),
    )


def _reduction(step: Step, cores: int) -> Reduction:
    source, lane = step.inputs[0], step.lane
    rows = max(
        1,
        prod(
            loop.extent for n, loop in enumerate(step.loops) if not loop.reduced and (not lane or n != lane.block_loop)
        ),
    )
    return Reduction(
        _bytes(step, step.inputs),
        _bytes(step, step.outputs),
        rows,
        max(1, _sticks(step, source)),
        cores,
        stride=_runs(step, source).stride,
        over_rows=lane is not None and not lane.reduced,
        resident=source.space is Space.SCRATCHPAD,
    )


def _rows(step: Step, cores: int) -> Norm:
    sticks = max((_sticks(step, operand) for operand in (*step.inputs, *step.outputs)), default=1)
    passes = max(1, len(step.stages))
    return Norm(_bytes(step, step.inputs), _bytes(step, step.outputs), sticks * passes, cores, _scratchpad(step))


def _matmul(step: Step, cores: int) -> Matmul:
    """Loops move the first operand (rows), the second (columns, with the lanes), both (batch) or are reduced (k)."""
    first, second, result = step.inputs[0], step.inputs[1], step.outputs[0]
    contraction, lane = step.contraction, step.lane
    assert contraction is not None
    sizes, splits = {"b": 1, "m": 1}, {"b": 1, "m": 1, "n": 1, "k": 1}
    k, block = len(step.loops) - 1, lane.block_loop if lane else -1
    for number, loop in enumerate(step.loops):
        role = "k" if number == k else "n" if number == block else "b" if second.strides[number] else "m"
        splits[role] *= loop.split
        if role in sizes:
            sizes[role] *= loop.extent
    return Matmul(
        sizes["b"],
        sizes["m"],
        max(1, lane.extent if lane else 1),
        max(1, contraction.k_extent),
        Division(splits["b"], splits["m"], splits["n"], splits["k"]),
        cores,
        first_resident=first.space is Space.SCRATCHPAD,
        second_resident=second.space is Space.SCRATCHPAD,
        result_resident=result.space is Space.SCRATCHPAD,
        three_dims=sizes["b"] > 1,
    )
