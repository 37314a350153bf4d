"""`time_bundle`: how long a card would take for a bundle, ours or another compiler's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from openspyre.artifact.bundle import Bundle, addresses, read_bundle
from openspyre.artifact.bundle_function import Address, Execute, Node
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.superdsc import Component, Tensor
from openspyre.clock.kernels import Kernel
from openspyre.clock.places import inputs_of, outputs_of
from openspyre.clock.timing import Item, Timing, time_items
from openspyre.clock.transfers import launch
from openspyre.clock.work import kernel_of
from openspyre.spec.machine import SPYRE, Machine


def time_directory(directory: Path, machine: Machine = SPYRE) -> Timing:
    """A bundle's directory; InvalidBundle tells why it is none."""
    return time_bundle(read_bundle(directory), machine)


def time_bundle(bundle: Bundle | Emitted, machine: Machine = SPYRE) -> Timing:
    """Every execution of a launch with its time."""
    documented = bundle.bundle if isinstance(bundle, Emitted) else bundle
    return time_items(documented.name, list(_items(documented)), machine, launch(machine))


def _items(bundle: Bundle) -> Iterator[Item]:
    written: set[Address] = set()
    kernels: dict[str, Kernel] = {}
    for execute, times, body in _listed(bundle.function.body, 1, ()):
        op = bundle.ops[execute.file]
        kernel = kernels.get(execute.file)
        if kernel is None:
            kernel = kernels[execute.file] = kernel_of(op)
        reads = any(place in written for tensor in inputs_of(op) if (place := _place(execute, tensor)) is not None)
        written |= {place for tensor in outputs_of(op) if (place := _place(execute, tensor)) is not None}
        source = "" if op.provenance is None else str(op.provenance)
        yield Item(op.name, op.op, kernel, times, body, source, reads)


def _place(execute: Execute, tensor: Tensor) -> Address | None:
    """Where a tensor in memory begins for the first core."""
    if tensor.component is not Component.MEMORY or not tensor.starts:
        return None
    return addresses(execute)(tensor.starts[0])


def _listed(
    body: tuple[Node, ...], times: int, path: tuple[int, ...]
) -> Iterator[tuple[Execute, int, tuple[int, ...]]]:
    """Every execution once, with how often loops run it and which loops those are."""
    for number, node in enumerate(body):
        if isinstance(node, Execute):
            yield node, times, path
        else:
            yield from _listed(node.body, times * node.count, (*path, number))
