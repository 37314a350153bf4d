"""Why a tensor is in no scratchpad, as far as a bundle says it itself: the first of the documents' reasons that can be seen in it."""

from __future__ import annotations

from collections.abc import Iterator

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.superdsc import PRESENT
from openspyre.clock.places import bytes_of
from openspyre.spec.machine import SPYRE, Machine
from openspyre.tools.explaining.data import Names
from openspyre.tools.explaining.flow import Use, Value
from openspyre.tools.explaining.records import KeptOut, Resident
from openspyre.tools.inspect import bytes_per_core

UNSEEN = "nothing in the bundle speaks against it"


def kept_out_by(
    bundle: Bundle, values: list[Value], residents: tuple[Resident, ...], names: Names, machine: Machine = SPYRE
) -> Iterator[KeptOut]:
    """Tensors in memory that executions hand on, or that several of them read."""
    for value in values:
        uses = [*([value.writer] if value.writer else []), *value.readers]
        executions = {use.execution for use in uses}
        if value.argument is None or not uses[0].places or len(executions) < 2 or not value.readers:
            continue
        first = uses[0]
        assert first.places is not None
        name = names.at(first.places[0], first.execution)
        why = _why(bundle, uses, residents, machine)
        written = value.writer.execution if value.writer else None
        size = bytes_of(first.op, first.tensor)
        yield KeptOut(
            name, names.at(first.places[0]), size, written, tuple(use.execution for use in value.readers), why
        )


def _why(bundle: Bundle, uses: list[Use], residents: tuple[Resident, ...], machine: Machine) -> str:
    first, last = uses[0], uses[-1]
    for use in uses:
        if use.op.op == "ReStickifyOpHBM":
            return f"{_name(use)} {'makes' if use is first else 'restickifies'} it, which goes through memory"
    for number, execute in enumerate(bundle.function.listed()):
        op = bundle.ops[execute.file]
        if op.extension is not None and first.execution <= number <= last.execution:
            return f"{number} {op.op}, which the host would do, runs while it lives"
    for use in uses:
        if use.op.index is not None:
            return f"{_name(use)} takes it by an index, or an index"
    if any(axis.split > 1 and first.tensor.scale(axis.label) != PRESENT for axis in first.op.axes):
        whose = (
            "adds up parts of it over cores"
            if first.tensor in _results(first)
            else "needs on several cores the same of it"
        )
        return f"{_name(first)} {whose}"
    for use in uses[1:]:
        alike = use.places == first.places and bytes_per_core(use.op, use.tensor) == bytes_per_core(
            first.op, first.tensor
        )
        if not alike:
            return f"{_name(first)} and {_name(use)} divide it differently"
    return _room(first, last, residents, machine)


def _results(use: Use) -> tuple[object, ...]:
    return tuple(use.op.tensors[number] for number in use.op.outputs)


def _room(first: Use, last: Use, residents: tuple[Resident, ...], machine: Machine) -> str:
    size, room = bytes_per_core(first.op, first.tensor), machine.scratchpad_planned_bytes_per_core
    if size > room:
        return f"too large: {size} bytes per core, there are {room}"
    for step in range(first.execution, last.execution + 1):
        taken = sum(r.end - r.first for r in residents if r.written_by <= step <= r.last_read_by)
        if taken + size > room:
            return f"full at step {step}: {taken} of {room} bytes per core are taken, it needs {size}"
    return UNSEEN


def _name(use: Use) -> str:
    return f"{use.execution} {use.op.op}"
