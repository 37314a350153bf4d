"""A bundle op by op: what each reads and writes, by the op's own dims, wherever and however it lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from openspyre.artifact.bundle import Bundle, addresses
from openspyre.artifact.bundle_function import Execute
from openspyre.artifact.extensions.description import Description
from openspyre.artifact.superdsc import Component, Indirection, SuperDsc, Tensor
from openspyre.backend.superdsc.instance import Access, Arguments, Instance, Workspace, filled_by, instances
from openspyre.backend.superdsc.lowering import lowered_op
from openspyre.program.model import Program, Space, Step
from openspyre.program.reach import pieces
from openspyre.spec.formats import DataFormats
from openspyre.tools.bisecting.by_steps import elements_of_pieces, start
from openspyre.tools.bisecting.machine import StepMachine
from openspyre.tools.bisecting.records import RESULT, Elements, Record, code_type, host_format
from openspyre.tools.bisecting.sides import Launch, Runnable
from openspyre.tools.launch_images import untiled

_MOST_READ = 1 << 22  # elements of an input that are worth a look


@dataclass(frozen=True, slots=True)
class Execution:
    """One op at work: its steps as a program, and a bundle's line that says where its tensors are, loops unrolled."""

    name: str
    execute: Execute
    op: SuperDsc
    instances: tuple[Instance, ...]
    program: Program


def executions_of(bundle: Bundle, runnable: Runnable) -> Iterator[Execution]:
    sizes = tuple(len(runnable.images[argument.buffer].held) for argument in runnable.arguments)
    pools = frozenset(() if runnable.pool is None else (runnable.pool,))
    filled: dict[int, int] = {}
    seen: dict[str, int] = {}
    for execute, iterations in bundle.function.executions():
        op = bundle.ops[execute.file]
        locate = addresses(execute, iterations)
        arguments = Arguments(sizes, pools, filled)
        workspace = Workspace(len(sizes))
        steps = tuple(lowered_op(op, locate, arguments, workspace))
        walked = () if op.extension is not None else tuple(instances(op, locate, arguments))
        if op.extension is None:
            filled.update(filled_by(op, locate, arguments))
        times = seen[op.name] = seen.get(op.name, -1) + 1
        program = Program(
            bundle.name, bundle.argument_names, (), steps, workspace.bytes, whole_sticks=op.extension is None
        )
        fixed = replace(execute, symbols=tuple((symbol, at.at(iterations)) for symbol, at in execute.symbols))
        yield Execution(f"{op.name}#{times}" if times else op.name, fixed, op, walked, program)


def trace_ops(number: int, launch: Launch, what: tuple[Bundle, Runnable]) -> Iterator[Record]:
    """Runs it; an error of the card ends it."""
    bundle, runnable = what
    machine, sources = start(runnable), launch.sources
    for execution in executions_of(bundle, runnable):
        op, steps = execution.op, execution.program.steps
        source = sources.get(op.name, launch.site)
        if op.extension is None:
            inputs = tuple(_of_tensors(execution, op.inputs, machine, _MOST_READ))
            machine.run(execution.program)
            made = _of_tensors(execution, op.outputs, machine, None)
            outputs, form = tuple(_without_padding(elements, inputs) for elements in made), ""
        else:
            inputs = tuple(_of_steps(steps, machine, runnable, output=False))
            machine.run(execution.program)
            outputs, form = tuple(_of_steps(steps, machine, runnable, output=True)), _walk_of(op.extension)
        yield Record(number, execution.name, op.op, source, inputs, outputs, form)
    yield from _results(number, launch, machine)


def _walk_of(description: Description) -> str:
    """Dims, and along which of them the lanes of each tensor run: places of an extension are counted in this order."""
    return f"{[(d.size, d.reduced) for d in description.dims]} {[(t.lanes, t.lane_dim) for t in description.tensors]}"


def _results(number: int, launch: Launch, machine: StepMachine) -> Iterator[Record]:
    """What a launch spec calls an output, as host values."""
    held, _ = machine.images() if launch.spec else ([], None)
    for argument, said in zip(machine.arguments, launch.spec, strict=True) if launch.spec else ():
        if said.role not in ("output", "update") or said.layout is None or argument.offset:
            continue
        values = untiled(held[argument.buffer].held, said.size, said.layout, said.dtype, said.stride)
        codes = np.ascontiguousarray(values).ravel().view(code_type(values.itemsize))
        dims = tuple((f"dim {k}", size) for k, size in enumerate(said.size))
        form = host_format(said.dtype)
        elements = Elements(said.name, form, dims, np.arange(codes.size, dtype=np.int64), codes)
        yield Record(number, said.name, RESULT, launch.site, (), (elements,))


def _of_tensors(
    execution: Execution, numbers: tuple[int, ...], machine: StepMachine, most: int | None
) -> Iterator[Elements]:
    op = execution.op
    for number in numbers if execution.instances else ():
        tensor = op.tensors[number]
        dims = tuple(
            (axis.label, axis.size) for axis in op.axes if execution.instances[0].accesses[number].moves(axis.label)
        )
        if tensor.indirection is Indirection.VALUE or (most is not None and prod(n for _, n in dims) > most):
            continue
        yield _elements(tensor, number, dims, execution.instances, machine)


def _without_padding(made: Elements, inputs: tuple[Elements, ...]) -> Elements:
    """Without what was made of nothing: where an input has no element that means something, the result means nothing either."""
    keep = np.ones(made.places.size, np.bool_)
    sizes = [size for _, size in made.dims]
    index = np.unravel_index(made.places, sizes) if sizes else ()
    for (label, size), at in zip(made.dims, index, strict=True):
        for read in inputs:
            labels = [other for other, _ in read.dims]
            if label in labels and read.places.size:
                along = np.unravel_index(read.places, [n for _, n in read.dims])[labels.index(label)]
                held = np.zeros(max(size, int(along.max()) + 1), np.bool_)
                held[along] = True
                keep &= held[at]
    return replace(made, places=made.places[keep], codes=made.codes[keep])


def _elements(
    tensor: Tensor, number: int, dims: tuple[tuple[str, int], ...], walked: tuple[Instance, ...], machine: StepMachine
) -> Elements:
    found: list[tuple[NDArray[np.int64], NDArray[np.generic], NDArray[np.bool_]]] = []
    for instance in walked:
        access = instance.accesses[number]
        for core, box in _boxes(instance, tensor, dims):
            places, at = _walked(access, dims, box)
            at = at + access.byte // tensor.bytes_per_element
            if core is None:
                at = at + machine.arguments[access.symbol].offset
                codes, known = machine.elements(access.symbol, at, tensor.format)
            else:
                codes, known = machine.pad_elements(core, at, tensor.format)
            found.append((places, codes, known))
    places = np.concatenate([part[0] for part in found])
    codes = np.concatenate([part[1] for part in found]).astype(code_type(tensor.bytes_per_element), copy=False)
    known = np.concatenate([part[2] for part in found])
    places, codes = places[known], codes[known]
    unique, first = np.unique(places, return_index=True)
    return Elements(tensor.name, tensor.format, dims, unique, codes[first])


Box = dict[str, tuple[int, int]]  # of each dim: where it begins, and its size


def _boxes(instance: Instance, tensor: Tensor, dims: tuple[tuple[str, int], ...]) -> Iterator[tuple[int | None, Box]]:
    """All of it, in memory; in the scratchpads a part per core."""
    if tensor.component is Component.MEMORY:
        yield None, {axis.label: (instance.first.get(axis.label, 0), axis.size) for axis in instance.axes}
        return
    for slices, core in instance.core_of.items():
        box = {}
        for axis, index in zip(instance.axes, slices, strict=True):
            whole, size = dict(dims).get(axis.label, axis.size), axis.per_core
            begin = instance.first.get(axis.label, 0) + index * size
            if tensor.owners:
                own = [dict(owned).get(axis.label, 0) for owned in tensor.owners]
                size = whole // (1 + max(own))
                begin = own[core] * size
            box[axis.label] = (begin, size)
        yield core, box


def _walked(access: Access, dims: tuple[tuple[str, int], ...], box: Box) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places in the op's dims, and elements from where the access begins, which is where the box does."""
    places, at = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for label, whole in dims:
        begin, size = box[label]
        size = min(size, access.rows.get(label, size))
        index = np.arange(size, dtype=np.int64)
        per_stick, lane, reach = 1, np.zeros(size, np.int64), 1
        for stick in access.tensor.sticks:
            if stick.label == label:
                lane = lane + index // per_stick % stick.size * reach
                per_stick *= stick.size
            reach *= stick.size
        moved = index // per_stick * access.strides[label] + lane
        places = (places[:, None] * whole + (begin + index)[None, :]).ravel()
        at = (at[:, None] + moved[None, :]).ravel()
    return places, at


def _of_steps(steps: tuple[Step, ...], machine: StepMachine, runnable: Runnable, *, output: bool) -> Iterator[Elements]:
    """Of an op that the hardware does not have: in the order in which its step walks."""
    for step in steps:
        for number, operand in enumerate(step.outputs if output else step.inputs):
            if not operand.kind.in_memory or operand.space is not Space.MEMORY:
                continue
            if operand.symbol >= len(runnable.arguments):
                continue
            argument = runnable.arguments[operand.symbol]
            found = pieces(step, number, output=output)
            if not output and sum(piece.run * prod(n for n, _ in piece.grid) for piece in found) > _MOST_READ:
                continue
            at = elements_of_pieces(found) + operand.offset + argument.offset
            form = DataFormats[operand.data_format]
            codes, known = machine.elements(operand.symbol, at, form)
            yield Elements(argument.name, form, (), np.arange(at.size)[known], codes[known])
