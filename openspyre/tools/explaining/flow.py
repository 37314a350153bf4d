"""Who reads what whom wrote: values of a bundle from execution to execution, by the bytes they lie in."""

from __future__ import annotations

from dataclasses import dataclass, field

from openspyre.artifact.bundle import Bundle, addresses
from openspyre.artifact.bundle_function import Address, Execute
from openspyre.artifact.superdsc import Component, SuperDsc, Tensor
from openspyre.clock.places import bytes_of
from openspyre.tools.inspect import bytes_per_core


@dataclass(frozen=True, slots=True)
class Use:
    """A tensor of an execution: both by number, and where each core begins. None: in the scratchpads."""

    execution: int
    op: SuperDsc
    tensor: Tensor
    places: tuple[Address, ...] | None


@dataclass(slots=True)
class Value:
    """Something in `argument` (None: the scratchpads), bytes [first, end), with who wrote it here, if anybody did, and who reads it."""

    argument: int | None
    first: int
    end: int
    writer: Use | None
    readers: list[Use] = field(default_factory=list)


def values_of(bundle: Bundle) -> list[Value]:
    """In the order in which they are first touched. Loops are gone through once."""
    found: list[Value] = []
    for number, execute in enumerate(bundle.function.listed()):
        op = bundle.ops[execute.file]
        read = {*op.inputs, *(() if op.index is None else (op.index,))} - set(op.outputs)
        for index in sorted(read):
            _read(found, _use(number, execute, op, op.tensors[index]))
        for index in op.outputs:
            use = _use(number, execute, op, op.tensors[index])
            found.append(Value(*_span(use), use))
    return found


def edges_of(values: list[Value]) -> tuple[tuple[int, int], ...]:
    """From writer to reader."""
    pairs = {(v.writer.execution, use.execution) for v in values if v.writer is not None for use in v.readers}
    return tuple(sorted(pairs))


def _use(number: int, execute: Execute, op: SuperDsc, tensor: Tensor) -> Use:
    near = tensor.component is Component.SCRATCHPAD
    return Use(number, op, tensor, None if near else tuple(map(addresses(execute), tensor.starts)))


def _span(use: Use) -> tuple[int | None, int, int]:
    if use.places is None:
        first = use.tensor.starts[0] if use.tensor.starts else 0
        return None, first, first + bytes_per_core(use.op, use.tensor)
    if not use.places:
        return -1, 0, 0  # nowhere that anybody could name
    first = min(place.byte for place in use.places)
    last = max(place.byte for place in use.places) + bytes_per_core(use.op, use.tensor)
    return use.places[0].parameter or 0, first, max(last, first + bytes_of(use.op, use.tensor))


def _read(found: list[Value], use: Use) -> None:
    """Whatever was put there last is read."""
    argument, first, end = _span(use)
    for known in reversed(found):
        if known.argument == argument and known.first < end and first < known.end:
            known.readers.append(use)
            if known.writer is not None or (known.first <= first and end <= known.end):
                return
    found.append(Value(argument, first, end, None, [use]))
