"""What would save most, in words: each thing alone, worth what the clock says of the bundle without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from openspyre.clock import TimedStep, time_bundle
from openspyre.clock.kernels import Gather, Norm, Pointwise, Reduction
from openspyre.clock.predict import predict
from openspyre.spec.machine import SPYRE, Machine
from openspyre.tools.explaining.counting import Bundle, explain_bundles
from openspyre.tools.explaining.products import better_division
from openspyre.tools.explaining.records import Execution, Explanation, Saving
from openspyre.tools.explaining.text import bytes_, us
from openspyre.tools.explaining.through_memory import through_memory

_LEAST = 0.01  # of the whole, below which nobody wants to hear of it
_LARGE_PRODUCT = 0.1
_MOST = 12


def explained(bundles: Sequence[Bundle], machine: Machine = SPYRE, note: str = "") -> Explanation:
    """Bundles as launches in order, with what would save most first."""
    explanation = explain_bundles(bundles, machine, note)
    whole = explanation.totals.card_us + explanation.totals.round_trips_us
    if not whole:
        return explanation
    found = [
        Saving(gain, gain / whole, text.format(f"{us(gain)} ({gain / whole:.0%})"))
        for gain, text in _found(bundles, explanation)
        if gain > _LEAST * whole
    ]
    return replace(explanation, savings=tuple(sorted(found, key=lambda saving: -saving.us)[:_MOST]))


def _found(bundles: Sequence[Bundle], explanation: Explanation) -> Iterator[tuple[float, str]]:
    """What it is worth, and a text with a place for that."""
    yield from _restickifies(explanation)
    yield from _round_trips(explanation)
    yield from _shuffles(explanation)
    yield from _launches(explanation)
    for bundle, launch in zip(bundles, explanation.launches, strict=True):
        steps = time_bundle(bundle.documented, explanation.machine).steps
        for execution, step in zip(launch.executions, steps, strict=True):
            yield from _product(execution, step, explanation.machine)
            yield from _few_cores(execution, step, explanation.machine)
        for tensor in through_memory(bundle, launch, explanation.machine):
            text = (
                f"{tensor.name} ({bytes_(tensor.bytes)}) goes through memory from {tensor.writer} to {tensor.readers}: "
            )
            yield tensor.saves_us, _safe(text) + "in the scratchpads, where there is room for it, it would save {}"


def _safe(text: str) -> str:
    """Names are anybody's: no braces of theirs are places."""
    return text.replace("{", "{{").replace("}", "}}")


def _grouped(executions: Iterator[tuple[str, Execution]]) -> dict[str, list[Execution]]:
    found: dict[str, list[Execution]] = {}
    for name, execution in executions:
        found.setdefault(name, []).append(execution)
    return found


def _cost(executions: list[Execution]) -> float:
    return sum(execution.time_us for execution in executions)


def _times(executions: list[Execution], what: str) -> str:
    number = sum(execution.runs for execution in executions)
    return f"{number} {what}{'s' if number > 1 else ''}"


def _restickifies(explanation: Explanation) -> Iterator[tuple[float, str]]:
    moves = (
        (next(operand.name for operand in e.operands if not operand.written), e)
        for e in explanation.executions
        if e.op == "ReStickifyOpHBM"
    )
    made = {operand.name for e in explanation.executions for operand in e.operands if operand.written}
    for name, group in _grouped(moves).items():
        verb = "costs" if sum(e.runs for e in group) == 1 else "cost"
        text = f"{_times(group, 'restickify').replace('restickifys', 'restickifies')} of {name} {verb} "
        advice = (
            "let its writer lay it as its readers want it"
            if name in made
            else "lay it as its readers want it from the start (device_layout=)"
        )
        yield _cost(group), _safe(text) + "{}: " + advice


def _round_trips(explanation: Explanation) -> Iterator[tuple[float, str]]:
    trips = ((e.op, e) for e in explanation.executions if e.host_link_bytes)
    for op, group in _grouped(trips).items():
        moved = bytes_(sum(e.host_link_bytes for e in group))
        text = f"{op}: the card has no such op; {_times(group, 'round trip')} to the CPU with {moved} would cost "
        yield _cost(group), _safe(text) + "{}"


def _shuffles(explanation: Explanation) -> Iterator[tuple[float, str]]:
    group = [e for e in explanation.executions if e.op == "shuffle"]
    if group:
        yield (
            _cost(group),
            f"{_times(group, 'shuffle')} over the ring cost {{}}: writers and readers divide differently",
        )


def _launches(explanation: Explanation) -> Iterator[tuple[float, str]]:
    number = len(explanation.launches)
    if number > 1:
        gain = explanation.totals.launches_us * (number - 1) / number
        yield gain, f"{number} launches: as one graph, without breaks, the host would save {us(gain)}"


def _product(execution: Execution, step: TimedStep, machine: Machine) -> Iterator[tuple[float, str]]:
    """A division that is faster by more than the clock errs; else how far a large product is from the peaks."""
    if not execution.macs:
        return
    sizes = "x".join(str(dim.size) for dim in execution.dims)
    head = f"{execution.number} {execution.op} {sizes} ({execution.share:.0%} of the time, bound by {execution.bound})"
    better = better_division(step, machine)
    if better is not None:
        text = f"{head}: divided {better.division} instead of {execution.division} it would save "
        yield better.saves_us, _safe(text) + "{}"
        return
    peak = machine.fp16_flops_per_second / 2 / 1e6
    least = max(execution.macs / peak, execution.memory_bytes / machine.device_memory_bytes_per_second * 1e6)
    if execution.share >= _LARGE_PRODUCT:
        text = f"{head}: {execution.macs / peak / execution.time_us:.0%} of the peak MACs; at the peaks on paper it would save "
        yield execution.time_us - least, _safe(text) + "{}, and no other division is better by more than the clock errs"


def _few_cores(execution: Execution, step: TimedStep, machine: Machine) -> Iterator[tuple[float, str]]:
    kernel = step.item.kernel
    if execution.cores >= machine.cores or not isinstance(kernel, Pointwise | Reduction | Norm | Gather):
        return
    more = predict(replace(kernel, cores=machine.cores), machine)
    if more.time_us < step.alone.time_us * (1 - step.alone.band.p90):
        gain = step.time_us * (1 - more.time_us / step.alone.time_us)
        text = f"{execution.number} {execution.op} runs on {execution.cores} of {machine.cores} cores: on all it would save "
        yield gain, _safe(text) + "{}"
