"""Draws a trace: what the host called, what the card did, and what a real one would do, over time; one SVG file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from openspyre.spec.errors import InvalidArgument
from openspyre.tools.tracing.reading import PREDICTED_ROWS, Event, Trace
from openspyre.tools.whole_file import whole_file

_WIDTH, _LEFT, _RIGHT, _ROW, _BAR, _TOP = 1400, 170, 50, 34, 24, 30
_LEAST = 0.4  # narrower bars in one row are drawn as one
_LETTER = 6.3  # wide, of the names in bars
_COLOURS = {
    "memory": "#4589ff", "array": "#24a148", "vector": "#8a3ffc", "ring": "#ff832b", "host link": "#da1e28", "cpu": "#da1e28",
    "fixed": "#8d8d8d", "core stream": "#009d9a",
}  # fmt: skip
_LAUNCH, _COPY, _CALL, _OTHER, _MANY = "#0f62fe", "#ff832b", "#a8a8a8", "#6929c4", "#c6c6c6"


@dataclass(slots=True)
class _Bar:
    start: float
    end: float
    name: str
    told: str
    colour: str
    count: int = 1


def write_picture(trace: Trace, file: Path) -> None:
    """InvalidArgument where there is nothing to draw, or the file cannot be written."""
    rows = _rows(trace)
    if not rows:
        raise InvalidArgument(f"{trace.path}: no event of the card, so there is nothing to draw")
    try:
        with whole_file(file) as drawing:
            drawing.write(_drawing(rows).encode())
    except OSError as problem:
        raise InvalidArgument(f"{file}: cannot be written: {problem.strerror}") from None


def _rows(trace: Trace) -> dict[str, list[Event]]:
    work = (*trace.launches, *trace.copies)
    if not work:
        return {}
    found: dict[str, list[Event]] = {}

    def add(label: str, events: Sequence[Event]) -> None:
        for event in sorted(events, key=lambda event: event.start):
            found.setdefault(label, []).append(event)

    for thread, calls in _split(trace.calls).items():
        add(f"host, thread {thread[1]}", calls)
    steps = _split(trace.steps)
    for (card, stream), events in sorted(_split(work).items()):
        add(f"card {card}, stream {stream}", events)
        add(f"card {card}, stream {stream}: steps", steps.get((card, stream), ()))
    for (card, _), events in sorted(_split(trace.predicted).items()):
        add(f"card {card - PREDICTED_ROWS} (predicted)", events)
    return found


def _split(events: Sequence[Event]) -> dict[tuple[int, int], list[Event]]:
    rows: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        rows[event.card, event.row].append(event)
    return rows


def _colour(event: Event) -> str:
    match event.category:
        case "kernel" | "gpu_memset":
            return _LAUNCH
        case "gpu_memcpy":
            return _COPY
        case "privateuse1_runtime":
            return _CALL
        case _:
            return _COLOURS.get(str(event.arguments.get("bound", "")), _OTHER)


def _told(event: Event) -> str:
    wanted = ("shape", "bytes", "bound", "predicted us", "operator", "source", "module")
    known = [f"{name}: {event.arguments[name]}" for name in wanted if event.arguments.get(name)]
    return "\n".join([f"{event.name}, {event.duration:.1f} us", *known])


def _bars(events: Sequence[Event], start: float, per_us: float) -> list[_Bar]:
    bars: list[_Bar] = []
    for event in events:
        begin = _LEFT + (event.start - start) * per_us
        end = begin + max(event.duration * per_us, _LEAST)
        last = bars[-1] if bars else None
        if last is not None and last.end - last.start <= 2 * _LEAST and begin < last.end + _LEAST:
            last.end, last.count, last.colour = max(last.end, end), last.count + 1, _MANY
            last.name, last.told = "", f"{last.count} events, too short to be drawn apart"
        else:
            bars.append(_Bar(begin, end, event.name, _told(event), _colour(event)))
    return bars


def _drawing(rows: dict[str, list[Event]]) -> str:
    start = min(event.start for events in rows.values() for event in events)
    end = max(event.end for events in rows.values() for event in events)
    per_us = (_WIDTH - _LEFT - _RIGHT) / max(end - start, 1e-3)
    height = _TOP + _ROW * len(rows) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}">',
        "<style>svg { background: #fafafa; } text { font: 11px system-ui, sans-serif; fill: #525252; } "
        ".in { fill: #fff; } .axis { stroke: #e0e0e0; }</style>",
        *_axis(start, end, per_us, height),
    ]
    for number, (label, events) in enumerate(rows.items()):
        y = _TOP + number * _ROW
        parts.append(f'<text x="8" y="{y + 16}">{escape(label)}</text>')
        for bar in _bars(events, start, per_us):
            width = bar.end - bar.start
            parts.append(
                f'<g><title>{escape(bar.told)}</title><rect x="{bar.start:.2f}" y="{y}" width="{width:.2f}" '
                f'height="{_BAR}" fill="{bar.colour}"/>{_name(bar, width, y)}</g>'
            )
    parts += [*_legend(rows, height), "</svg>"]
    return "\n".join(parts) + "\n"


def _name(bar: _Bar, width: float, y: float) -> str:
    letters = int((width - 6) / _LETTER)
    if letters < 4 or not bar.name:
        return ""
    shown = bar.name if len(bar.name) <= letters else bar.name[: letters - 1] + "…"
    return f'<text class="in" x="{bar.start + 3:.2f}" y="{y + 16}">{escape(shown)}</text>'


def _axis(start: float, end: float, per_us: float, height: int) -> list[str]:
    """A line at round times, about ten of them."""
    span = max(end - start, 1e-3)
    step = next(
        base * 10.0**power for power in range(-4, 18) for base in (1, 2, 5) if span / (base * 10.0**power) <= 12
    )
    unit, scale = ("ms", 1000.0) if step >= 1000 else ("us", 1.0)
    parts = []
    for number in range(int(span / step) + 1):
        x = _LEFT + number * step * per_us
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="18" y2="{height - 26}"/>')
        parts.append(f'<text x="{x + 2:.1f}" y="14">{number * step / scale:g} {unit}</text>')
    return parts


def _legend(rows: dict[str, list[Event]], height: int) -> list[str]:
    colours = {_colour(event) for events in rows.values() for event in events}
    named = {"launch": _LAUNCH, "copy": _COPY, "call of the host": _CALL}
    bounds = {f"bound by {name}": colour for name, colour in _COLOURS.items()}
    x, parts = _LEFT, []
    for name, colour in (named | bounds).items():
        if colour in colours:
            colours.discard(colour)
            parts.append(f'<rect x="{x}" y="{height - 18}" width="10" height="10" fill="{colour}"/>')
            parts.append(f'<text x="{x + 14}" y="{height - 9}">{name}</text>')
            x += 30 + int(len(name) * _LETTER)
    return parts
