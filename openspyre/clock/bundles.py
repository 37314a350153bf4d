"""`time_bundle`: how long a card would take for a bundle, ours or another compiler's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from openspyre.artifact import emitted
from openspyre.artifact.bundle import Bundle, addresses, read_bundle
from openspyre.artifact.bundle_function import Address, Execute, Node
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.superdsc import Component, SuperDsc, Tensor
from openspyre.clock.kernels import Kernel
from openspyre.clock.places import inputs_of, outputs_of
from openspyre.clock.timing import Item, Timing, time_items
from openspyre.clock.transfers import launch
from openspyre.clock.work import kernel_of
from openspyre.spec.machine import SPYRE, Machine


def time_directory(directory: Path, machine: Machine = SPYRE) -> Timing:
    """A bundle's directory; InvalidBundle tells why it is none."""
    return time_bundle(read_bundle(directory), machine)


def time_bundle(bundle: Bundle | Emitted, machine: Machine = SPYRE, counted: Counted | None = None) -> Timing:
    """Every execution of a launch with its time. `counted` serves bundles that share most of their ops. What the compiler emitted need not become files first: equal ops are counted once."""
    items = list(_items(_runs(bundle), {} if counted is None else counted))
    return time_items(bundle.name, items, machine, launch(machine))


def ops_of(bundle: Bundle | Emitted) -> Iterator[tuple[SuperDsc, object]]:
    """Every execution's op, in the order of their times, and what ops of the same work have in common."""
    return ((run.op, run.alike) for run in _runs(bundle))


def _runs(bundle: Bundle | Emitted) -> Iterator[_Run]:
    if isinstance(bundle, Emitted):
        return _emitted(bundle.body, 1, ())
    return _of_files(bundle, bundle.function.body, 1, ())


class _Run(NamedTuple):
    """An execution: how often loops run it, which loops those are, and where a start of its tensors lies. `alike`: same work."""

    name: str
    op: SuperDsc
    alike: object
    at: Callable[[int], Address]
    times: int
    loops: tuple[int, ...]

    def places(self, tensors: tuple[Tensor, ...]) -> set[Address]:
        """Where tensors in memory begin for the first core."""
        return {self.at(t.starts[0]) for t in tensors if t.component is Component.MEMORY and t.starts}


class _Work(NamedTuple):
    of: object  # keeps its id
    kernel: Kernel
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


Counted = dict[int, _Work]  # by the id of `_Run.alike`


def _items(runs: Iterator[_Run], counted: Counted) -> Iterator[Item]:
    written: set[Address] = set()
    for run in runs:
        known = counted.get(id(run.alike))
        if known is None:
            work = _Work(run.alike, kernel_of(run.op), inputs_of(run.op), outputs_of(run.op))
            known = counted[id(run.alike)] = work
        reads = not written.isdisjoint(run.places(known.inputs))
        written |= run.places(known.outputs)
        yield Item(run.name, run.op.op, known.kernel, run.times, run.loops, reads)


def _of_files(bundle: Bundle, body: tuple[Node, ...], times: int, loops: tuple[int, ...]) -> Iterator[_Run]:
    for number, node in enumerate(body):
        if isinstance(node, Execute):
            op = bundle.ops[node.file]
            yield _Run(op.name, op, op, addresses(node), times, loops)
        else:
            yield from _of_files(bundle, node.body, times * node.count, (*loops, number))


def _emitted(body: tuple[emitted.Node, ...], times: int, loops: tuple[int, ...]) -> Iterator[_Run]:
    for number, node in enumerate(body):
        if isinstance(node, emitted.Execution):
            yield _Run(node.name, node.shared.op, node.shared, partial(_base, node), times, loops)
        else:
            yield from _emitted(node.body, times * node.count, (*loops, number))


def _base(execution: emitted.Execution, start: int) -> Address:
    number, byte = execution.shared.offsets[-1 - start]
    base = execution.bases[number]
    return Address(base.parameter, base.byte + byte)
