"""Tensors that go through memory though they could stay in the scratchpads, and what it would save if they did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from openspyre.artifact.bundle import Bundle, addresses
from openspyre.artifact.bundle_function import Address, Execute
from openspyre.artifact.superdsc import Component, SuperDsc, Tensor
from openspyre.clock import time_bundle
from openspyre.clock.bundles import Counted
from openspyre.clock.places import bytes_of
from openspyre.spec.machine import Machine
from openspyre.tools.explaining.counting import LaunchedBundle
from openspyre.tools.explaining.records import KeptOut, Launch, Resident
from openspyre.tools.inspect import bytes_per_core

_LARGEST = 24  # tensors of a launch that are tried, largest first


Clock = Callable[[Bundle], float]


def clock_for(machine: Machine) -> Clock:
    """What a card takes for bundles that share most of their ops."""
    counted: Counted = {}
    return lambda bundle: time_bundle(bundle, machine, counted).card_us


class Through(NamedTuple):
    name: str
    bytes: int
    writer: str
    readers: str


class Far(NamedTuple):
    """Tensors that fit into the scratchpads together, largest first, and what all of them would save there."""

    tensors: tuple[Through, ...]
    saves_us: float


class _Use(NamedTuple):
    """A tensor of an execution: both by number."""

    execution: int
    tensor: int


def through_memory(bundle: LaunchedBundle, launch: Launch, machine: Machine, card_us: Clock) -> Far:
    documented, names = bundle.documented, bundle.names
    executes = list(documented.function.listed())
    ops = [documented.ops[execute.file] for execute in executes]
    if len(documented.function.files()) < len(executes):
        return Far((), 0.0)  # a file that runs at several places: none of its tensors is one tensor
    uses = [found for found in _handed_on(executes, ops) if not _leaves(executes, ops, found, bundle)]
    uses.sort(key=lambda found: -bytes_of(ops[found[0].execution], ops[found[0].execution].tensors[found[0].tensor]))
    now = best = card_us(documented)
    moved, held, tensors = documented, list(launch.residents), []
    for found in uses[:_LARGEST]:
        op = ops[found[0].execution]
        tensor = op.tensors[found[0].tensor]
        more = Resident(op.name, 0, bytes_per_core(op, tensor), found[0].execution, max(use.execution for use in found))
        tried = _moved_near(moved, executes, found)
        taken = card_us(tried)
        if taken >= best or not _fits([*held, more], more, machine):
            continue
        best, moved = taken, tried
        held.append(more)
        address = addresses(executes[found[0].execution])(tensor.starts[0])
        readers = ", ".join(f"{use.execution} {ops[use.execution].op}" for use in found[1:])
        tensors.append(
            Through(
                names.at(address, found[0].execution), bytes_of(op, tensor), f"{found[0].execution} {op.op}", readers
            )
        )
    return Far(tuple(tensors), now - best)


def would_save(bundle: Bundle, kept: Sequence[KeptOut], card_us: Clock) -> float:
    """How much faster the launch would be if all users of these tensors had them in their scratchpads, whatever keeps them out now."""
    executes = list(bundle.function.listed())
    if len(bundle.function.files()) < len(executes):
        return 0.0
    uses = [use for one in kept for use in _uses(bundle, executes, one)]
    return card_us(bundle) - card_us(_moved_near(bundle, executes, uses))


def _uses(bundle: Bundle, executes: list[Execute], kept: KeptOut) -> Iterator[_Use]:
    """The writer's, and that of each reader."""
    if kept.written_by is None:
        return
    written = bundle.ops[executes[kept.written_by].file]
    result = written.tensors[written.outputs[0]]
    if len(written.outputs) != 1 or result.component is not Component.MEMORY or not result.starts:
        return
    place = _places(executes[kept.written_by], result)[0]
    yield _Use(kept.written_by, written.outputs[0])
    for number in kept.read_by:
        op = bundle.ops[executes[number].file]
        for index in op.inputs:
            tensor = op.tensors[index]
            if tensor.component is Component.MEMORY and place in _places(executes[number], tensor):
                yield _Use(number, index)


def _places(execute: Execute, tensor: Tensor) -> tuple[Address, ...]:
    """Where each core begins. Cores that begin at the same places have the same parts."""
    return tuple(map(addresses(execute), tensor.starts))


def _handed_on(executes: list[Execute], ops: list[SuperDsc]) -> Iterator[list[_Use]]:
    """The writer and all readers of each tensor whose cores read what they wrote."""
    for writer, (execute, op) in enumerate(zip(executes, ops, strict=True)):
        for output in op.outputs:
            tensor = op.tensors[output]
            if tensor.component is not Component.MEMORY or op.extension is not None or not tensor.starts:
                continue
            places = _places(execute, tensor)
            size = bytes_per_core(op, tensor)
            readers = list(_readers(executes, ops, writer, places[0]))
            alike = (_has(executes[use.execution], ops[use.execution], use.tensor, places, size) for use in readers)
            if readers and all(alike):
                yield [_Use(writer, output), *readers]


def _has(execute: Execute, op: SuperDsc, tensor: int, places: tuple[Address, ...], size: int) -> bool:
    found = op.tensors[tensor]
    return op.extension is None and _places(execute, found) == places and bytes_per_core(op, found) == size


def _readers(executes: list[Execute], ops: list[SuperDsc], writer: int, place: Address) -> Iterator[_Use]:
    """Until somebody writes there anew."""
    for number in range(writer + 1, len(ops)):
        op = ops[number]
        at = [
            tensor.component is Component.MEMORY and _places(executes[number], tensor)[:1] == (place,)
            for tensor in op.tensors
        ]
        yield from (_Use(number, index) for index in op.inputs if at[index] and index not in op.outputs)
        if any(at[index] for index in op.outputs):
            return


def _leaves(executes: list[Execute], ops: list[SuperDsc], found: list[_Use], bundle: LaunchedBundle) -> bool:
    """Whether somebody outside may want it: only a pool, or a launch spec, tells that nobody does."""
    address = _places(executes[found[0].execution], ops[found[0].execution].tensors[found[0].tensor])[0]
    number = address.parameter or 0
    if bundle.documented.has_pool and number == 0:
        return False
    return bundle.spec is None or bundle.spec[number].role != "pool"


def _fits(held: list[Resident], more: Resident, machine: Machine) -> bool:
    """Bytes alone: no place is looked for."""
    for now in range(more.written_by, more.last_read_by + 1):
        bytes_ = sum(each.end - each.first for each in held if each.written_by <= now <= each.last_read_by)
        if bytes_ > machine.scratchpad_planned_bytes_per_core:
            return False
    return True


def _moved_near(bundle: Bundle, executes: list[Execute], found: list[_Use]) -> Bundle:
    ops = dict(bundle.ops)
    for use in found:
        file = executes[use.execution].file
        tensors = list(ops[file].tensors)
        tensors[use.tensor] = replace(tensors[use.tensor], component=Component.SCRATCHPAD)
        ops[file] = replace(ops[file], tensors=tuple(tensors))
    return replace(bundle, ops=ops)
