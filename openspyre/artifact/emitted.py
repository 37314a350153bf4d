"""A bundle in memory: ops at work, each a SuperDSC that equal ops share and what its symbols mean this time, and the arguments.

A file has its own SuperDSC for every execution; what differs between them are names, provenance and symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from openspyre.artifact import bundle_function
from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Address, Execute, Function, Parameter
from openspyre.artifact.launch_spec import Argument
from openspyre.artifact.superdsc import Component, Provenance, SuperDsc, Tensor
from openspyre.spec.formats import DataFormats
from openspyre.spec.origin import Origin

POOL = "pool_base_addr"


@dataclass(frozen=True, slots=True)
class Number:
    """A base that is a number known now, in the format an op takes it in."""

    value: float
    format: DataFormats


@dataclass(frozen=True, eq=False, slots=True)
class Shared:
    """A SuperDSC whose symbol -1 - i is `offsets[i]`: a base, and bytes behind it. `known`: bases that are numbers."""

    op: SuperDsc
    offsets: tuple[tuple[int, int], ...]
    known: tuple[Number | None, ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """An op with its bases: an argument of the launch, and a byte of it, each."""

    name: str
    shared: Shared
    bases: tuple[Address, ...]
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Loop:
    """A counted loop: bases move by their `advance` with every iteration."""

    count: int
    body: tuple[Node, ...]


Node = Execution | Loop


@dataclass(frozen=True, slots=True)
class Extension:
    """An op that the hardware does not have: this card's alone. `origin`: where it came from."""

    row: str
    reason: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Emitted:
    """What a program is to whoever runs it: executions in order, in their loops, the arguments of the launch, a pool first, and its numbers by name."""

    name: str
    body: tuple[Node, ...]
    arguments: tuple[Argument, ...]
    scalars: tuple[str, ...] = ()
    extensions: tuple[Extension, ...] = ()

    @property
    def bundle(self) -> Bundle:
        """As files have it: every execution has its own, and symbols go on from file to file."""
        outside = (n for n, argument in enumerate(a for a in self.arguments if a.role != "pool"))
        names = [POOL if a.role == "pool" else f"arg_{next(outside)}_base_addr" for a in self.arguments]
        files = _Files()
        body = tuple(files.node(node) for node in self.body)
        return Bundle(self.name, Function(tuple(map(Parameter, names)), body), files.ops)

    @property
    def executions(self) -> tuple[Execution, ...]:
        """All of them once, in the order of the text."""
        return tuple(listed(self.body))


def listed(body: tuple[Node, ...]) -> Iterator[Execution]:
    """Every execution once, in the order of the text."""
    for node in body:
        match node:
            case Execution():
                yield node
            case Loop(_, inner):
                yield from listed(inner)


class _Files:
    """Executions in files of their own, and how many symbols are taken so far."""

    def __init__(self) -> None:
        self.ops: dict[str, SuperDsc] = {}
        self.taken = 0

    def node(self, node: Node) -> bundle_function.Node:
        match node:
            case Execution():
                return self._execute(node)
            case Loop(count, inner):
                return bundle_function.Loop(count, tuple(map(self.node, inner)))

    def _execute(self, execution: Execution) -> Execute:
        number = len(self.ops)
        file = f"sdsc_{number}.json"
        op, offsets = execution.shared.op, execution.shared.offsets
        tensors = tuple(_renumbered(tensor, self.taken) for tensor in op.tensors)
        self.ops[file] = replace(op, name=execution.name, tensors=tensors, provenance=execution.provenance)
        symbols = [(-1 - self.taken - i, execution.bases[base] + byte) for i, (base, byte) in enumerate(offsets)]
        self.taken += len(offsets)
        return Execute(file, tuple(symbols), number)


def _renumbered(tensor: Tensor, by: int) -> Tensor:
    if tensor.component is not Component.MEMORY or not by:
        return tensor
    return replace(tensor, starts=tuple(start - by for start in tensor.starts))
