"""What lies in the scratchpads, from where to where and from when to when."""

from __future__ import annotations

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.superdsc import Component, SuperDsc, Tensor
from openspyre.clock.places import inputs_of, outputs_of
from openspyre.tools.explaining.records import Resident
from openspyre.tools.inspect import bytes_per_core


def residents_of(bundle: Bundle) -> tuple[Resident, ...]:
    """Every tensor that an execution leaves in the scratchpads, as the first core has it."""
    found: list[Resident] = []
    for number, execute in enumerate(bundle.function.listed()):
        op = bundle.ops[execute.file]
        for tensor in inputs_of(op):
            if tensor.component is Component.SCRATCHPAD:
                _read(found, *_span(op, tensor), number)
        found += [
            Resident(op.name, *_span(op, tensor), number, number)
            for tensor in outputs_of(op)
            if tensor.component is Component.SCRATCHPAD
        ]
    return tuple(found)


def _span(op: SuperDsc, tensor: Tensor) -> tuple[int, int]:
    return tensor.starts[0], tensor.starts[0] + bytes_per_core(op, tensor)


def _read(found: list[Resident], first: int, end: int, number: int) -> None:
    """Whoever wrote there last is read now."""
    for place in range(len(found) - 1, -1, -1):
        known = found[place]
        if known.first < end and first < known.end:
            found[place] = Resident(known.name, known.first, known.end, known.written_by, number)
            return
