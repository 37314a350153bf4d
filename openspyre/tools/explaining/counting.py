"""From bundles to an explanation: what each execution moves and computes, with the clock's time of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Execute
from openspyre.artifact.launch_spec import Argument, read_launch_spec
from openspyre.artifact.superdsc import Provenance, SuperDsc
from openspyre.clock import TimedStep, Timing, time_bundle
from openspyre.clock.counting import peak_macs_per_us, work_of
from openspyre.clock.published import published_cost
from openspyre.spec.machine import SPYRE, Machine
from openspyre.tools.bundle import read
from openspyre.tools.explaining.data import Names, data_bytes, operands_of
from openspyre.tools.explaining.flow import Value, edges_of, values_of
from openspyre.tools.explaining.kept_out import kept_out_by
from openspyre.tools.explaining.planned import Plan, kept_out_of, names_of_temps, plan_of, read_asked, tiled_of
from openspyre.tools.explaining.records import Dim, Execution, Explanation, KeptOut, Launch, Resident
from openspyre.tools.explaining.residents import residents_of


class LaunchedBundle(NamedTuple):
    """A bundle with what its launch spec tells, if there is one."""

    documented: Bundle
    spec: tuple[Argument, ...] | None
    plan: Plan | None = None  # where our compiler left word of it

    @property
    def names(self) -> Names:
        return Names.of(self.documented, self.spec, () if self.plan is None else names_of_temps(self.plan))


def read_bundles(directories: Sequence[Path]) -> list[LaunchedBundle]:
    """Bundles without problems; InvalidBundle lists them."""
    return [_read(directory) for directory in directories]


def _read(directory: Path) -> LaunchedBundle:
    bundle = read(directory)
    return LaunchedBundle(bundle, read_launch_spec(directory), plan_of(bundle, read_asked(directory)))


def explain_bundles(bundles: Sequence[LaunchedBundle], machine: Machine = SPYRE, note: str = "") -> Explanation:
    timings = [time_bundle(bundle.documented, machine) for bundle in bundles]
    whole = sum(timing.card_us + timing.host_us for timing in timings)
    launches = [_launch(bundle, timing, whole, machine) for bundle, timing in zip(bundles, timings, strict=True)]
    return Explanation(tuple(launches), machine, note)


def _launch(bundle: LaunchedBundle, timing: Timing, whole: float, machine: Machine) -> Launch:
    documented, names = bundle.documented, bundle.names
    values, residents = values_of(documented), residents_of(documented)
    starts = accumulate((step.time_us for step in timing.steps), initial=0.0)
    executions = [
        _execution(number, execute, documented.ops[execute.file], step, start, whole, names)
        for number, (execute, step, start) in enumerate(
            zip(documented.function.listed(), timing.steps, starts, strict=False)
        )
    ]
    return Launch(
        documented.name,
        tuple(executions),
        residents,
        _kept_out(bundle, values, residents, machine),
        edges_of(values),
        timing.card_us,
        timing.host_us,
        timing.launch.time_us,
        timing.band,
        published_cost(documented).total_us,
        data_bytes(documented, bundle.spec),
        sum(
            execution.macs / peak_macs_per_us(documented.ops[execute.file], machine)
            for execution, execute in zip(executions, documented.function.listed(), strict=True)
        ),
        () if bundle.plan is None else tuple(tiled_of(bundle.plan)),
    )


def _kept_out(
    bundle: LaunchedBundle, values: list[Value], residents: tuple[Resident, ...], machine: Machine
) -> tuple[KeptOut, ...]:
    """The compiler's own words where there are any, else what the bundle shows."""
    if bundle.plan is not None:
        found = list(kept_out_of(bundle.plan))
    else:
        found = list(kept_out_by(bundle.documented, values, residents, bundle.names, machine))
    return tuple(sorted(found, key=lambda kept: -kept.bytes))


def _execution(
    number: int, execute: Execute, op: SuperDsc, step: TimedStep, start: float, whole: float, names: Names
) -> Execution:
    item, alone = step.item, step.alone
    work = work_of(op, item.kernel)
    return Execution(
        number,
        op.name,
        op.op,
        alone.kernel_class.value,
        item.times,
        tuple(Dim(axis.label, axis.size, axis.split) for axis in op.axes),
        op.cores,
        operands_of(number, execute, op, names),
        work.read * item.times,
        work.written * item.times,
        work.scratchpad * item.times,
        work.ring * item.times,
        work.host_link * item.times,
        work.macs * item.times,
        work.elements * item.times,
        start,
        step.time_us,
        step.time_us * (1 - alone.band.p90),
        step.time_us * (1 + alone.band.p90),
        alone.band.measured,
        alone.bound.value,
        {part.resource.value: alone.part(part.resource) for part in (*alone.parts, *alone.serial)},
        step.time_us / whole if whole else 0.0,
        _source(op.provenance),
        _modules(op.provenance),
        () if op.provenance is None else op.provenance.ir_chain,
        () if op.provenance is None else tuple(f"{c.kind} by {c.pass_name}: {c.reason}" for c in op.provenance.history),
    )


def _calls(provenance: Provenance | None) -> list[Provenance]:
    """All calls that an op does, its own first."""
    if provenance is None:
        return []
    return [provenance, *(call for part in provenance.fused_from for call in _calls(part))]


def _source(provenance: Provenance | None) -> str:
    """The Python lines, its own and of what was fused into it; an id alone tells people nothing."""
    told = [str(call) for call in _calls(provenance) if call.source is not None or call.aten_op]
    return "; ".join(dict.fromkeys(told))


def _modules(provenance: Provenance | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.module for call in _calls(provenance) if call.module))
