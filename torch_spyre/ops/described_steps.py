"""A program's steps in words, for whoever looks inside a launch: the profiler reads them (csrc/torch/profiler/described_program.h).

One line each, fields between tabs. A step of the card does one op of the bundle, or several that fusion joined; what a real card would
take is told op by op.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openspyre.artifact.emitted import Emitted, Execution, Shared
from openspyre.artifact.kernel_key import kernel_key, kernel_name
from openspyre.artifact.superdsc import Provenance
from openspyre.clock import TimedStep, Timing
from openspyre.clock.counting import Work, peak_macs_per_us, work_of
from openspyre.program.model import Program
from openspyre.program.tree import steps_of
from openspyre.spec.machine import Machine

_BREAKS = str.maketrans("\t\n\r", "   ")


def describe(
    emitted: Emitted, timing: Timing, program: Program, members: Mapping[str, tuple[str, ...]], machine: Machine
) -> str:
    """`members`: of steps that fusion made, the ops they are."""
    steps = [step.name for step, _ in steps_of(program.body)]
    executions = list(emitted.executions)
    place = _steps_of_ops(steps, [execution.name for execution in executions], members)
    key = kernel_key(emitted)
    name = kernel_name((execution.provenance.aten_op for execution in executions), key)
    lines = [f"kernel\t{name}\t{key}", f"launch\t{timing.launch.time_us:.6g}", *(f"step\t{name}" for name in steps)]
    known: dict[int, tuple[Work, float]] = {}  # equal ops share their descriptions
    for number, (execution, timed) in enumerate(zip(executions, timing.steps, strict=True)):
        amount = known.get(id(execution.shared))
        if amount is None:
            amount = known[id(execution.shared)] = _amount(execution.shared, timed, machine)
        lines.append(_op_line(place[number], execution, timed, *amount))
    return "\n".join(lines)


def _amount(shared: Shared, timed: TimedStep, machine: Machine) -> tuple[Work, float]:
    work = work_of(shared.op, timed.item.kernel)
    return work, work.macs / peak_macs_per_us(shared.op, machine)


def _op_line(step: int, execution: Execution, timed: TimedStep, work: Work, ideal_us: float) -> str:
    op, runs, alone = execution.shared.op, timed.item.times, timed.alone
    dims = " ".join(f"{axis.label}{axis.size}" + (f"/{axis.split}" if axis.split > 1 else "") for axis in op.axes)
    share = timed.time_us / (alone.time_us * runs) if alone.time_us else 0.0  # what overlaps was taken off
    resources = dict.fromkeys(part.resource for part in (*alone.parts, *alone.serial))
    busy = ";".join(f"{resource.value}={alone.part(resource) * runs * share:.6g}" for resource in resources)
    amounts = (work.read, work.written, work.scratchpad, work.ring, work.host_link, work.macs, work.elements)
    fields = (
        "op", step, execution.name, op.op, dims, op.cores, runs, *(amount * runs for amount in amounts), alone.bound.value,
        f"{timed.time_us:.6g}", f"{ideal_us * runs:.6g}", busy, *_origin(execution.provenance),
    )  # fmt: skip
    return "\t".join([str(field).translate(_BREAKS) for field in fields])


def _origin(provenance: Provenance) -> tuple[str, str, str, str]:
    """The operator, the Python line, the module, the handle; of all calls that the op does, its own first."""
    calls = list(dict.fromkeys((provenance, *provenance.fused_from)))
    places = [f"{call.source.file}:{call.source.line}" for call in calls if call.source]
    operators, modules = [call.aten_op for call in calls], [call.module for call in calls]
    return _each(operators), _each(places), _each(modules), provenance.id


def _each(found: Iterable[str | None]) -> str:
    return " ".join(dict.fromkeys(one for one in found if one))


def _steps_of_ops(steps: list[str], ops: list[str], members: Mapping[str, tuple[str, ...]]) -> list[int]:
    """Per op the step that does it. One that is nobody's (a copy into scratchpads, which the host has not) belongs to the next step."""
    place = {name: number for number, step in enumerate(steps) for name in (step, *members.get(step, ()))}
    found: list[int] = []
    following = max(len(steps) - 1, 0)
    for name in reversed(ops):
        following = place.get(name, following)
        found.append(following)
    return list(reversed(found))
