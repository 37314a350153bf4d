"""What the tensors of a launch are called, and how much of them comes from outside or leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from openspyre.artifact.bundle import Bundle, addresses
from openspyre.artifact.bundle_function import Address, Execute, Node
from openspyre.artifact.launch_spec import Argument
from openspyre.artifact.superdsc import Component, SuperDsc, Tensor
from openspyre.clock.places import bytes_of, inputs_of, outputs_of
from openspyre.tools.explaining.records import Operand

_LEAVES = ("output", "update")


@dataclass(frozen=True, slots=True)
class Names:
    """Of arguments, by their number; `pool` is the argument that is nobody's outside; `temps`, per execution, what its bytes are called."""

    arguments: tuple[str, ...]
    pool: int | None
    temps: tuple[dict[int, str], ...] = ()

    @classmethod
    def of(cls, bundle: Bundle, spec: tuple[Argument, ...] | None, temps: tuple[dict[int, str], ...] = ()) -> Names:
        told = bundle.argument_names if spec is None else tuple(argument.name for argument in spec)
        return cls(told, 0 if bundle.has_pool else None, temps)

    def at(self, address: Address, execution: int = -1) -> str:
        """`x`, or `pool+4096` where the pool holds something of its own that nobody named."""
        number = address.parameter or 0
        if number == self.pool and 0 <= execution < len(self.temps) and address.byte in self.temps[execution]:
            return self.temps[execution][address.byte]
        name = self.arguments[number] if number < len(self.arguments) else f"argument {number}"
        return f"{name}+{address.byte}" if number == self.pool or address.byte else name


def place_of(execute: Execute, tensor: Tensor) -> Address | None:
    """Where a tensor in memory begins for the first core."""
    if tensor.component is not Component.MEMORY or not tensor.starts:
        return None
    return addresses(execute)(tensor.starts[0])


def operands_of(execution: int, execute: Execute, op: SuperDsc, names: Names) -> tuple[Operand, ...]:
    found = []
    for number, tensor in enumerate(op.tensors):
        address = place_of(execute, tensor)
        near = tensor.component is Component.SCRATCHPAD
        name = f"scratchpad+{tensor.starts[0]}" if near and tensor.starts else tensor.name
        if address is not None:
            name = names.at(address, execution)
        found.append(Operand(name, "scratchpad" if near else "memory", number in op.outputs, bytes_of(op, tensor)))
    return tuple(found)


class _Touched(NamedTuple):
    """The bytes of an argument that one tensor has, as if in one piece."""

    argument: int
    first: int
    bytes: int


def data_bytes(bundle: Bundle, spec: tuple[Argument, ...] | None) -> int:
    """What any plan has to bring through memory: what is read before anybody wrote it, and what stays behind.

    Never too much: views that overlap count once, and without a launch spec what is written and read again counts as nobody's.
    """
    pool = 0 if bundle.has_pool else None
    leaves = {number for number, argument in enumerate(spec or ()) if argument.role in _LEAVES}
    read: dict[Address, _Touched] = {}
    written: dict[Address, _Touched] = {}
    again: set[Address] = set()
    for execute, counts in _listed(bundle.function.body, ()):
        op = bundle.ops[execute.file]
        for tensor in (*inputs_of(op), *(() if op.index is None else (op.tensors[op.index],))):
            address = _symbolic(execute, tensor)
            if address is None or address.parameter == pool:
                continue
            if address in written:
                again.add(address)
            else:
                _widen(read, address, _touched(op, tensor, address, counts))
        for tensor in outputs_of(op):
            address = _symbolic(execute, tensor)
            if address is not None and address.parameter != pool:
                _widen(written, address, _touched(op, tensor, address, counts))
    kept = {a: t for a, t in written.items() if a not in again or t.argument in leaves}
    return _once(read, spec) + _once(kept, spec)


def _symbolic(execute: Execute, tensor: Tensor) -> Address | None:
    """As `place_of`, with what loops add to it: another tensor of each iteration."""
    place = place_of(execute, tensor)
    start = tensor.starts[0] if tensor.starts else 0
    return dict(execute.symbols)[start] if place is not None and start < 0 else place


def _touched(op: SuperDsc, tensor: Tensor, address: Address, counts: tuple[int, ...]) -> _Touched:
    different = prod(count for count, step in zip(counts, address.advance, strict=False) if step)
    return _Touched(address.parameter or 0, address.byte, bytes_of(op, tensor) * different)


def _widen(found: dict[Address, _Touched], address: Address, touched: _Touched) -> None:
    known = found.get(address)
    if known is None or known.bytes < touched.bytes:
        found[address] = touched


def _once(found: dict[Address, _Touched], spec: tuple[Argument, ...] | None) -> int:
    total = 0
    for argument in {touched.argument for touched in found.values()}:
        parts = [touched for touched in found.values() if touched.argument == argument]
        reach = max(part.first + part.bytes for part in parts) - min(part.first for part in parts)
        most = reach if spec is None or argument >= len(spec) else spec[argument].bytes
        total += min(most, sum(part.bytes for part in parts))
    return total


def _listed(body: tuple[Node, ...], counts: tuple[int, ...]) -> Iterator[tuple[Execute, tuple[int, ...]]]:
    """Every execution once, with how often each loop around it goes round."""
    for node in body:
        if isinstance(node, Execute):
            yield node, counts
        else:
            yield from _listed(node.body, (*counts, node.count))
