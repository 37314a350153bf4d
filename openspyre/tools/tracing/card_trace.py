"""A trace as a real card would leave it, by the clock's times, in the form that aiu-trace-analyzer (`acelyzer`) reads.

Kernels are the ops of the bundles, one after the other as the card would run them; beside the trace lie the ideal cycles of each
kernel, from which acelyzer computes how full the arrays are.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openspyre.clock.transfers import from_card_us, to_card_us
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.machine import SPYRE, Machine
from openspyre.tools.tracing.reading import PREDICTED_ROWS, Event, Trace

SOC_MHZ = 1000  # of the counters TS1 to TS5, which are 32 bits wide
_COUNTERS = 1 << 32
_APART = 2  # cycles: kernels that end when the next begins would overlap it in the last digit of a float


@dataclass(frozen=True, slots=True)
class CardTrace:
    """Where it lies, and how acelyzer is asked about it."""

    trace: Path
    kernels: int
    command: str


def write_card_trace(trace: Trace, directory: Path, machine: Machine = SPYRE) -> CardTrace:
    """Writes trace.json and inductor-spyre/KERNEL/perf/ideal_cycles.json into a directory, made if it is not there."""
    if not trace.predicted:
        raise InvalidArgument(
            f"{trace.path}: has no lane of predicted times; profile with torch_spyre.profiler.configure(predicted=True), "
            "which is the default"
        )
    if directory.exists() and not directory.is_dir():
        raise InvalidArgument(f"{directory} is a file; --card names the directory that the trace and its cycles go to")
    core_mhz = machine.core_clock_hz / 1e6
    names = _kernel_names(trace)
    kernels = {
        names[correlation, place]: event
        for correlation, events in _launches(trace).items()
        for place, event in enumerate(events)
    }
    files: dict[str, Any] = {
        f"inductor-spyre/{name}/perf/ideal_cycles.json": [
            {"ideal_cycles": round(event.arguments.get("ideal us", 0.0) * core_mhz), "op_category": _op(event)}
        ]
        for name, event in kernels.items()
    }
    files["trace.json"] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Spyre"}],
                           "displayTimeUnit": "ms", "traceEvents": list(_events(trace, names, machine))}  # fmt: skip
    try:
        _write(directory, files)
    except OSError as problem:
        raise InvalidArgument(f"{directory}: cannot be written: {problem.strerror}") from None
    target = directory / "trace.json"
    command = f"acelyzer -i {target} -c {directory} -o {directory / 'analysed.json'} --freq {SOC_MHZ}:{core_mhz:.0f}"
    return CardTrace(target, len(kernels), command)


def _write(directory: Path, files: dict[str, Any]) -> None:
    """All of them or none: they are written beside the directory, and moved when they are whole. The trace goes last."""
    directory = directory.absolute()
    directory.parent.mkdir(parents=True, exist_ok=True)
    half = directory.with_name(f".{directory.name}.{os.getpid()}.half")
    try:
        for name, content in files.items():
            (half / name).parent.mkdir(parents=True, exist_ok=True)
            (half / name).write_text(json.dumps(content))
        if not directory.exists():
            half.rename(directory)
            return
        for name in files:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (half / name).replace(directory / name)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _op(event: Event) -> str:
    return event.name.removesuffix(" (predicted)")


def _letters(number: int, width: int) -> str:
    """Sorted as the numbers are. acelyzer takes digits out of names, so there are none."""
    text = ""
    for _ in range(width):
        number, digit = divmod(number, 26)
        text = chr(ord("a") + digit) + text
    return text


def _launches(trace: Trace) -> dict[int, list[Event]]:
    """Predicted kernels by the launch they belong to, in order."""
    found: dict[int, list[Event]] = defaultdict(list)
    for event in trace.predicted:
        found[event.correlation].append(event)
    return found


def _kernel_names(trace: Trace) -> dict[tuple[int, int], str]:
    """By launch and place in it. Launches of one program share names; sorted, they stand as the card runs them, which is how acelyzer
    finds a launch in the table of cycles."""
    programs: dict[tuple[object, ...], int] = {}
    names = {}
    for correlation, events in _launches(trace).items():
        alike = tuple((_op(event), event.arguments.get("predicted us")) for event in events)
        program = programs.setdefault(alike, len(programs))
        for place, event in enumerate(events):
            names[correlation, place] = f"{_letters(program, 3)}-{_letters(place, 4)}-{_op(event)}"
    return names


def _events(trace: Trace, names: dict[tuple[int, int], str], machine: Machine) -> Iterator[dict[str, Any]]:
    cards = {event.card - PREDICTED_ROWS for event in trace.predicted} | {event.card for event in trace.copies}
    for card in sorted(cards):
        yield {"ph": "M", "name": "process_name", "pid": card, "tid": 0, "ts": 0, "args": {"name": f"Spyre {card}"}}
    origin = min(event.start for event in (*trace.predicted, *trace.copies)) - 1
    free: dict[int, float] = defaultdict(float)  # by card, when it has done all before
    work = [(events[0].start, events) for events in _launches(trace).values()] + [
        (copy.start, [copy]) for copy in trace.copies
    ]
    for start, events in sorted(work, key=lambda item: item[0]):
        card = events[0].card % PREDICTED_ROWS
        at = max(free[card], start - origin)
        free[card] = yield from _of_one(events, names, card, at, machine)


def _of_one(
    events: list[Event], names: dict[tuple[int, int], str], card: int, at: float, machine: Machine
) -> Generator[dict[str, Any], None, float]:
    """A launch or a copy: what the host called, and what the card did."""
    correlation, begin, done = events[0].correlation, at, []
    for place, event in enumerate(events):
        if event.category == "gpu_memcpy":
            size = int(event.arguments.get("bytes", 0))
            took = (to_card_us if "HtoD" in event.name else from_card_us)(size, machine)
            arguments = {"bytes": size, "memory bandwidth (GB/s)": size / took / 1000 if took else 0.0}
            done.append(_complete(event.name, "gpu_memcpy", card, 0, at, took, correlation, arguments))
        else:
            took = float(event.arguments.get("predicted us", event.duration))
            name = f"{names[correlation, place]} Cmpt Exec"
            ran = max(took - _APART / SOC_MHZ, 1 / SOC_MHZ)
            done.append(_complete(name, "kernel", card, 0, at, ran, correlation, _counters(at, ran)))
        at += took
    call = "aiuMemcpy" if events[0].category == "gpu_memcpy" else "aiuLaunchScheduleCompute"
    yield _complete(call, "cuda_runtime", _HOST, 1, begin - 0.002, at - begin + 0.003, correlation, {})
    yield from done
    return at


_HOST = 100  # the process of the host's calls, apart from the cards


def _counters(at: float, took: float) -> dict[str, str]:
    """The card's own clock: data is there (TS1, TS2), it computes from TS3 to TS4, and has written (TS5)."""
    begin = round(at * SOC_MHZ) % _COUNTERS
    end = (begin + round(took * SOC_MHZ)) % _COUNTERS
    return {"TS1": str(begin), "TS2": str(begin), "TS3": str(begin), "TS4": str(end), "TS5": str(end)}


def _complete(
    name: str, category: str, pid: int, tid: int, start: float, took: float, correlation: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": round(start, 3), "dur": round(took, 3),
            "args": {"correlation": correlation, **arguments}}  # fmt: skip
