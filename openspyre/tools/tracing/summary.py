"""What a trace comes to: where the host's time went, and where a real card's would go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from openspyre.tools.explaining.text import table
from openspyre.tools.tracing.reading import PREDICTED_ROWS, Event, Trace


@dataclass(frozen=True, slots=True)
class Line:
    """Steps of one name, or launches of one: how often, how long on the host, and how long a real card would take."""

    name: str
    calls: int
    host_us: float
    share: float
    predicted_us: float
    bound: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """Microseconds. `busy`: launches and copies at work, whatever overlaps counted once; `gaps`: between them, longest first."""

    path: str
    span_us: float
    busy_us: float
    launches_us: float
    copies_us: float
    overlap_us: float
    copied_bytes: int
    waits_us: float
    compiles_us: float
    launches: tuple[Line, ...]
    steps: tuple[Line, ...]
    gaps: tuple[tuple[float, str, str], ...]  # how long, behind which event, before which
    predicted_us: float
    bounds: tuple[tuple[str, float], ...]  # what a real card would wait for, longest first
    array_use: float  # share of the arrays' peak while a real card runs kernels

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(trace: Trace, top: int = 10) -> Summary:
    work = sorted((*trace.launches, *trace.copies), key=lambda event: event.start)
    start = min((event.start for event in work), default=0.0)
    end = max((event.end for event in work), default=0.0)
    launches, copies = _united(trace.launches), _united(trace.copies)
    predicted = sum(event.arguments.get("predicted us", event.duration) for event in trace.predicted)
    bounds: dict[str, float] = defaultdict(float)
    for event in trace.predicted:
        bounds[str(event.arguments.get("bound", ""))] += event.arguments.get("predicted us", event.duration)
    ideal = sum(event.arguments.get("ideal us", 0.0) for event in trace.predicted)
    return Summary(
        str(trace.path),
        end - start,
        _length(_united(work)),
        _length(launches),
        _length(copies),
        _length(launches) + _length(copies) - _length(_merged([*launches, *copies])),
        sum(int(event.arguments.get("bytes", 0)) for event in trace.copies),
        sum(event.duration for event in trace.calls if event.name.endswith("Synchronize")),
        sum(event.duration for event in trace.calls if event.name == "aiuCompileGraph"),
        _lines(trace.launches, top),
        _lines(trace.steps, top),
        _gaps(work, top),
        predicted,
        tuple(sorted(bounds.items(), key=lambda item: -item[1])),
        ideal / predicted if predicted else 0.0,
    )


def _lines(events: Sequence[Event], top: int) -> tuple[Line, ...]:
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        groups[event.name].append(event)
    whole = sum(event.duration for event in events)
    lines = []
    for name, group in groups.items():
        spent = sum(event.duration for event in group)
        longest = max(group, key=lambda event: event.duration).arguments
        predicted = sum(float(event.arguments.get("predicted us", 0.0)) for event in group)
        bound, source = str(longest.get("bound", "")), str(longest.get("source", ""))
        lines.append(Line(name, len(group), spent, spent / whole if whole else 0.0, predicted, bound, source))
    return tuple(sorted(lines, key=lambda line: -line.host_us)[:top])


def _gaps(work: Sequence[Event], top: int) -> tuple[tuple[float, str, str], ...]:
    """Times at which no stream of a card had work."""
    found = []
    by_card: dict[int, list[Event]] = defaultdict(list)
    for event in work:
        by_card[event.card % PREDICTED_ROWS].append(event)
    for events in by_card.values():
        last = events[0]
        for event in events[1:]:
            if event.start > last.end:
                found.append((event.start - last.end, last.name, event.name))
            last = max(last, event, key=lambda e: e.end)
    return tuple(sorted(found, key=lambda gap: -gap[0])[:top])


def _united(events: Iterable[Event]) -> list[tuple[float, float]]:
    return _merged([(event.start, event.end) for event in events])


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _length(spans: Iterable[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans)


def _short(name: str, letters: int) -> str:
    """Without its middle: a name's end says which of several alike it is."""
    if len(name) <= letters:
        return name
    end = (letters - 3) // 3
    return f"{name[: letters - 3 - end]}...{name[-end:]}"


def text_of(summary: Summary) -> str:
    if not summary.launches and not summary.copies_us:
        return (
            f"{summary.path}: no event of the card; profile with activities that include ProfilerActivity.PrivateUse1 "
            "(torch.profiler.profile() without arguments does)"
        )

    def us(value: float) -> str:
        return f"{value / 1000:.3f} ms" if value >= 1000 else f"{value:.1f} us"

    def share(part: float, whole: float) -> str:
        return f"{part / whole:.0%}" if whole else "-"

    parts = [
        f"{summary.path}: {us(summary.span_us)} from the first event of the card to the last",
        f"  busy {us(summary.busy_us)} ({share(summary.busy_us, summary.span_us)}): launches {us(summary.launches_us)}, "
        f"copies {us(summary.copies_us)} ({summary.copied_bytes:,} bytes), at the same time {us(summary.overlap_us)}",
        f"  the host waited {us(summary.waits_us)}, and compiled {us(summary.compiles_us)}",
    ]
    if summary.predicted_us:
        bounds = ", ".join(f"{name} {share(spent, summary.predicted_us)}" for name, spent in summary.bounds)
        parts.append(
            f"  a real card would take {us(summary.predicted_us)} for the kernels, bound by {bounds}; arrays at "
            f"{summary.array_use:.1%} of their peak"
        )
    for title, lines in (("launches", summary.launches), ("steps", summary.steps)):
        if lines:
            rows = [
                [_short(line.name, 60), str(line.calls), us(line.host_us), f"{line.share:.0%}", us(line.predicted_us), line.bound,
                 line.source]
                for line in lines
            ]  # fmt: skip
            heads = [title, "calls", "host", "share", "predicted", "bound", "longest from"]
            parts += ["", *table(heads, rows)]
    if summary.gaps:
        rows = [[us(gap), _short(behind, 40), _short(before, 40)] for gap, behind, before in summary.gaps]
        parts += ["", *table(["gap", "behind", "before"], rows)]
    return "\n".join(parts)
