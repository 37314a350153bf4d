"""Reads a Chrome trace with the card's events in it, as torch.profiler exports it; .json, or .json.gz."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openspyre.spec.errors import InvalidArgument
from openspyre.tools.explaining.text import printable

PREDICTED_ROWS = 64  # the predicted lane of card n is process 64 + n: csrc/torch/profiler/activities.h

_OF_CARDS = frozenset({"kernel", "gpu_memset", "gpu_memcpy", "privateuse1_runtime", "gpu_user_annotation"})
_MOST = 1e18  # microseconds are 30,000 years, and bytes more than there are
_NUMBERS = frozenset({"correlation", "bytes", "predicted us", "ideal us"})  # of the arguments


@dataclass(frozen=True, slots=True)
class Event:
    """Times in microseconds. `arguments`: what the profiler says of it."""

    name: str
    category: str
    card: int
    row: int  # a stream, or a row of the predicted lane
    start: float
    duration: float
    arguments: Mapping[str, Any]

    @property
    def end(self) -> float:
        return self.start + self.duration

    @property
    def correlation(self) -> int:
        return int(self.arguments.get("correlation", 0))


@dataclass(frozen=True, slots=True)
class Trace:
    """Of one process, in order of time. `predicted`: kernels as a real card would run them."""

    path: Path
    launches: tuple[Event, ...]
    copies: tuple[Event, ...]
    steps: tuple[Event, ...]
    calls: tuple[Event, ...]
    predicted: tuple[Event, ...]


def read_trace(path: Path) -> Trace:
    """InvalidArgument tells what is wrong with a file that is no trace, or not a whole one."""
    events = _events(path)
    launches, copies, steps, calls, predicted = [], [], [], [], []
    for event in sorted(_complete(path, events), key=lambda event: event.start):
        match event.category:
            case "kernel" | "gpu_memset":
                launches.append(event)
            case "gpu_memcpy":
                copies.append(event)
            case "privateuse1_runtime":
                calls.append(event)
            case "gpu_user_annotation" if event.card >= PREDICTED_ROWS and event.row == 0:
                predicted.append(event)
            case "gpu_user_annotation" if event.card < PREDICTED_ROWS and "step" in event.arguments:
                steps.append(event)
    return Trace(path, tuple(launches), tuple(copies), tuple(steps), tuple(calls), tuple(predicted))


def _events(path: Path) -> list[Any]:
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        found = json.loads(raw)
    except OSError as problem:
        raise InvalidArgument(f"{path}: cannot be read: {problem.strerror}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise InvalidArgument(f"{path}: the packed file is not whole ({problem}); export the trace again") from None
    except RecursionError:
        raise InvalidArgument(f"{path}: lists lie too deep in each other: this is no Chrome trace") from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path}: no text: this is no Chrome trace") from None
    except json.JSONDecodeError as problem:
        end = problem.pos >= len(problem.doc) - 1 or "Unterminated" in problem.msg
        what = "it ends in the middle: the export was cut off (a full disk?)" if end else "this is no Chrome trace"
        raise InvalidArgument(f"{path}: line {problem.lineno}, column {problem.colno}: {problem.msg}; {what}") from None
    listed = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(listed, list):
        raise InvalidArgument(f"{path}: has no list of traceEvents: this is no Chrome trace")
    return listed


def _complete(path: Path, events: list[Any]) -> Iterator[Event]:
    for number, event in enumerate(events):
        if not isinstance(event, dict) or event.get("ph") != "X" or not isinstance(event.get("pid"), int):
            continue
        try:
            yield _event(event)
        except KeyError as problem:
            raise InvalidArgument(f"{path}: event {number} is none of a Chrome trace: it has no {problem}") from None
        except (TypeError, ValueError, OverflowError) as problem:
            raise InvalidArgument(f"{path}: event {number} is none of a Chrome trace: {problem}") from None


def _event(event: dict[str, Any]) -> Event:
    arguments, category = event.get("args") or {}, str(event.get("cat", ""))
    if not isinstance(arguments, dict):
        arguments = {}
    if category in _OF_CARDS:
        for name in _NUMBERS & arguments.keys():
            _number(name, arguments[name])
        arguments = {name: printable(value) if isinstance(value, str) else value for name, value in arguments.items()}
    return Event(
        printable(str(event.get("name", ""))), category, event["pid"], int(event.get("tid", 0)),
        _number("ts", event["ts"]), _number("dur", event.get("dur", 0.0)), arguments,
    )  # fmt: skip


def _number(name: str, value: object) -> float:
    """Of a file that anybody may have written: what follows adds it up."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"its {name!r} is {value!r}, no number")
    if abs(value) > _MOST:
        raise ValueError(f"its {name!r} is {float(value):g}, more than can be")
    if value < 0 and name != "ts":
        raise ValueError(f"its {name!r} is {value!r}, less than nothing")
    return float(value)
