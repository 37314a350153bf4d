"""What would save most, in words: each thing alone, worth what the clock says of the bundle without it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from openspyre.clock import TimedStep, time_bundle
from openspyre.clock.kernels import Gather, Norm, Pointwise, Reduction
from openspyre.clock.predict import predict
from openspyre.spec.machine import SPYRE, Machine
from openspyre.tools.explaining.counting import LaunchedBundle, explain_bundles
from openspyre.tools.explaining.products import better_division
from openspyre.tools.explaining.records import Dim, Execution, Explanation, Fallback, KeptOut, Launch, Saving
from openspyre.tools.explaining.text import bytes_, line, named, us
from openspyre.tools.explaining.through_memory import Far, clock_for, through_memory, would_save

_LEAST = 0.01  # of the whole, below which nobody wants to hear of it
_LARGE_PRODUCT = 0.1
_MOST = 12
_MOST_KEPT = 8  # groups of tensors of a launch that are tried
_NUMBERS = re.compile(r"\d+")


def explained(
    bundles: Sequence[LaunchedBundle], machine: Machine = SPYRE, note: str = "", fallbacks: tuple[Fallback, ...] = ()
) -> Explanation:
    """Bundles as launches in order, and what the CPU did between them, with what would save most first."""
    explanation = replace(explain_bundles(bundles, machine, note), fallbacks=fallbacks)
    whole = explanation.totals.card_us + explanation.totals.round_trips_us
    if not whole:
        return explanation
    found = [
        Saving(gain, gain / whole, text.format(f"{us(gain)} ({gain / whole:.0%})"))
        for gain, text in _found(bundles, explanation)
        if gain > _LEAST * whole
    ]
    return replace(explanation, savings=tuple(sorted(found, key=lambda saving: -saving.us)[:_MOST]))


def _found(bundles: Sequence[LaunchedBundle], explanation: Explanation) -> Iterator[tuple[float, str]]:
    """What it is worth, and a text with a place for that."""
    yield from _restickifies(explanation)
    yield from _round_trips(explanation)
    yield from _fallbacks(explanation)
    yield from _shuffles(explanation)
    yield from _launches(explanation)
    yield from _products(bundles, explanation)
    for number, (bundle, launch) in enumerate(zip(bundles, explanation.launches, strict=True)):
        where = f"launch {number}: " if len(bundles) > 1 else ""
        steps = time_bundle(bundle.documented, explanation.machine).steps
        for execution, step in zip(launch.executions, steps, strict=True):
            yield from _few_cores(where, execution, step, explanation.machine)
        card_us = clock_for(explanation.machine)
        far = through_memory(bundle, launch, explanation.machine, card_us)
        yield from _far(where, far)
        known = {tensor.name for tensor in far.tensors}
        kept = [k for k in launch.kept_out if k.name not in known and _by_division(k, explanation.machine)]
        for group in _alike(kept, launch)[:_MOST_KEPT]:
            yield from _divided(where, group, launch, would_save(bundle.documented, group, card_us))


def _far(where: str, found: Far) -> Iterator[tuple[float, str]]:
    if not found.tensors:
        return
    first, moved = found.tensors[0], bytes_(sum(tensor.bytes for tensor in found.tensors))
    if len(found.tensors) == 1:
        text = f"{where}{first.name} ({moved}) goes through memory from {first.writer} to {first.readers}: "
        yield found.saves_us, _safe(text) + "in the scratchpads, where there is room for it, it would save {}"
        return
    text = f"{where}{len(found.tensors)} tensors ({moved}) go through memory though the scratchpads have room for all of them, "
    largest = f"the largest from {first.writer} to {first.readers}: there they would save "
    yield found.saves_us, _safe(text + largest) + "{}"


def _by_division(kept: KeptOut, machine: Machine) -> bool:
    fits = kept.bytes <= machine.cores * machine.scratchpad_planned_bytes_per_core
    return fits and any(
        word in kept.why for word in ("divide it differently", "needs what others have", "adds up parts")
    )


def _alike(kept: list[KeptOut], launch: Launch) -> list[list[KeptOut]]:
    """Tensors of one line that go the same way for the same reason together, as those of all layers do; the largest first."""
    groups: dict[tuple[str, ...], list[KeptOut]] = {}
    for one in kept:
        if one.written_by is not None:
            ops = [launch.executions[number] for number in (one.written_by, *one.read_by)]
            why = _NUMBERS.sub("", one.first_why)
            groups.setdefault((ops[0].source, why, *(op.op for op in ops)), []).append(one)
    return sorted(groups.values(), key=lambda group: -sum(one.bytes for one in group))


def _divided(where: str, group: list[KeptOut], launch: Launch, gain: float) -> Iterator[tuple[float, str]]:
    """What another division would let stay."""
    first, moved = group[0], bytes_(sum(one.bytes for one in group))
    many, it = len(group) > 1, "they" if len(group) > 1 else "it"
    head = f"{len(group)} tensors like {first.name} ({moved}) go" if many else f"{first.name} ({moved}) goes"
    way = f"from {named(first.written_by or 0, launch)} to {', '.join(named(n, launch) for n in first.read_by[:4])}"
    text = f"{where}{head} through memory {way}, because {first.first_why}: "
    yield gain, _safe(text) + f"divided alike and kept in the scratchpads, {it} would save up to {{}}"


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
    """Together by the Python line they come from, where it is told, else by the tensor that is turned."""
    moves = [e for e in explanation.executions if e.op == "ReStickifyOpHBM"]
    made = {operand.name for e in explanation.executions for operand in e.operands if operand.written}
    for group in _grouped((e.source or _turned(e), e) for e in moves).values():
        names = list(dict.fromkeys(map(_turned, group)))
        told = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        from_line = f" ({line(group[0].source)})" if group[0].source else ""
        verb, it = ("costs", "its") if sum(e.runs for e in group) == 1 else ("cost", "their")
        text = f"{_times(group, 'restickify').replace('restickifys', 'restickifies')} of {told}{from_line} {verb} "
        advice = (
            f"let {it} writer{'' if len(names) == 1 else 's'} lay {'it as its' if len(names) == 1 else 'them as their'} readers want"
            if any(name in made for name in names)
            else f"lay {'it as its' if len(names) == 1 else 'them as their'} readers want from the start (device_layout=)"
        )
        yield _cost(group), _safe(text) + "{}: " + advice


def _turned(execution: Execution) -> str:
    return next(operand.name for operand in execution.operands if not operand.written)


def _round_trips(explanation: Explanation) -> Iterator[tuple[float, str]]:
    trips = ((e.op, e) for e in explanation.executions if e.host_link_bytes)
    for op, group in _grouped(trips).items():
        moved = bytes_(sum(e.host_link_bytes for e in group))
        text = f"{op}: the card has no such op; {_times(group, 'round trip')} to the CPU with {moved} would cost "
        yield _cost(group), _safe(text) + "{}"


def _fallbacks(explanation: Explanation) -> Iterator[tuple[float, str]]:
    for fallback in explanation.fallbacks:
        text = f"{fallback.name} falls back to the CPU, and cuts the graph in two: there it and its copies cost "
        yield fallback.time_us, _safe(text) + "{}"


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


def _products(bundles: Sequence[LaunchedBundle], explanation: Explanation) -> Iterator[tuple[float, str]]:
    """Products that are alike together."""
    alike: dict[tuple[str, tuple[Dim, ...], str], list[tuple[str, Execution, TimedStep]]] = {}
    for number, (bundle, launch) in enumerate(zip(bundles, explanation.launches, strict=True)):
        steps = time_bundle(bundle.documented, explanation.machine).steps
        for execution, step in zip(launch.executions, steps, strict=True):
            label = f"{number}.{execution.number}" if len(bundles) > 1 else str(execution.number)
            if execution.macs:
                key = (execution.op, execution.dims, execution.bound)
                alike.setdefault(key, []).append((label, execution, step))
    for group in alike.values():
        yield from _product(group, explanation.machine)


def _product(group: list[tuple[str, Execution, TimedStep]], machine: Machine) -> Iterator[tuple[float, str]]:
    """A division that is faster by more than the clock errs; else how far large products are from the peaks."""
    labels, executions, steps = zip(*group, strict=True)
    first = executions[0]
    sizes, share = "x".join(str(dim.size) for dim in first.dims), sum(e.share for e in executions)
    told = ", ".join(labels[:4]) + (f" and {len(labels) - 4} more" if len(labels) > 4 else "")
    head = f"{first.op} {sizes} ({told}: {share:.0%} of the time, bound by {first.bound})"
    better = [found for step in steps if (found := better_division(step, machine)) is not None]
    if better:
        text = f"{head}: divided {better[0].division} instead of {first.division} it would save "
        yield sum(found.saves_us for found in better), _safe(text) + "{}"
        return
    peak = machine.fp16_flops_per_second / 2 / 1e6
    macs, time = sum(e.macs for e in executions), sum(e.time_us for e in executions)
    moved = sum(e.memory_bytes for e in executions) / machine.device_memory_bytes_per_second * 1e6
    if share >= _LARGE_PRODUCT:
        text = f"{head}: {macs / peak / time:.0%} of the peak MACs; at the peaks on paper it would save "
        gain = time - max(macs / peak, moved)
        yield gain, _safe(text) + "{}, and no other division is better by more than the clock errs"


def _few_cores(where: str, execution: Execution, step: TimedStep, machine: Machine) -> Iterator[tuple[float, str]]:
    kernel = step.item.kernel
    if execution.cores >= machine.cores or not isinstance(kernel, Pointwise | Reduction | Norm | Gather):
        return
    more = predict(replace(kernel, cores=machine.cores), machine)
    if more.time_us < step.alone.time_us * (1 - step.alone.band.p90):
        gain = step.time_us * (1 - more.time_us / step.alone.time_us)
        text = f"{where}{execution.number} {execution.op} runs on {execution.cores} of {machine.cores} cores: on all it would save "
        yield gain, _safe(text) + "{}"
