"""An explanation for the terminal: a table of executions, the totals against their bounds, the savings in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openspyre.tools.explaining.records import Execution, Explanation, KeptOut, Launch, Tiled, Totals

_HEAD = ("op", "sizes", "division", "cores", "memory", "scratchpad", "ring", "work", "time", "+-", "bound by", "share", "from")  # fmt: skip
_KEPT = ("tensor", "bytes", "from", "to", "why")
_MOST_KEPT = 10
_RIGHT = frozenset(["bytes", "cores", "memory", "scratchpad", "ring", "work", "time", "+-", "share"])


def render(explanation: Explanation) -> Iterator[str]:
    if explanation.note:
        yield explanation.note
    for number, launch in enumerate(explanation.launches):
        yield from _launch(number, launch)
    for fallback in explanation.fallbacks:
        calls = f"{fallback.calls} calls" if fallback.calls > 1 else "1 call"
        yield f"between the launches: {fallback.name} on the CPU, {calls} with {bytes_(fallback.bytes)}, {us(fallback.time_us)}"
    yield from _totals(explanation.totals, len(explanation.launches))
    if explanation.savings:
        yield "what would save most (by the clock; they do not add up)"
        yield from (f"  {saving.text}" for saving in explanation.savings)


def _launch(number: int, launch: Launch) -> Iterator[str]:
    yield f"launch {number} {launch.name!r}, {len(launch.executions)} executions, {us(launch.card_us)} on the card"
    yield from (f"  {line}" for line in table(_HEAD, [_row(e) for e in launch.executions], _RIGHT))
    yield from (f"  {tiled_words(tiled)}" for tiled in launch.tiled)
    if launch.kept_out:
        moved = bytes_(sum(kept.bytes for kept in launch.kept_out))
        yield f"  handed on through memory: {len(launch.kept_out)} tensor(s), {moved}; the largest, and why they are in no scratchpad"
        yield from (
            f"    {line}" for line in table(_KEPT, [_kept(k, launch) for k in launch.kept_out[:_MOST_KEPT]], _RIGHT)
        )


def tiled_words(tiled: Tiled) -> str:
    """Why ops run in a loop that nobody asked for, and what that gains."""
    ops = f"{len(tiled.ops)} ops ({tiled.ops[0]} to {tiled.ops[-1]})"
    why = (
        f"the scratchpads have no room for {tiled.large} ({bytes_(tiled.large_bytes)}) beside what else is needed then"
    )
    gain = f"{us(tiled.before_us)} without the loop, {us(tiled.after_us)} in it"
    return f"tiled by the clock: {ops} in {tiled.tiles} tiles, because {why}: {gain}, and the clock may be off by {us(tiled.error_us)}"


def _kept(kept: KeptOut, launch: Launch) -> tuple[str, ...]:
    written = "outside" if kept.written_by is None else named(kept.written_by, launch)
    return kept.name, bytes_(kept.bytes), written, ", ".join(named(n, launch) for n in kept.read_by[:4]), kept.first_why


def named(number: int, launch: Launch) -> str:
    return f"{number} {launch.executions[number].op}"


def _row(execution: Execution) -> tuple[str, ...]:
    often = f" x{execution.runs}" if execution.runs > 1 else ""
    return (
        f"{execution.number} {execution.op}{often}",
        "x".join(str(dim.size) for dim in execution.dims),
        execution.division,
        str(execution.cores),
        bytes_(execution.memory_bytes),
        bytes_(execution.scratchpad_bytes),
        bytes_(execution.ring_bytes),
        work(execution),
        us(execution.time_us),
        f"{_off(execution):.0%}{'' if execution.band_is_measured else '?'}",
        execution.bound,
        f"{execution.share:.1%}",
        line(execution.source),
    )


def _off(execution: Execution) -> float:
    return (execution.high_us - execution.time_us) / execution.time_us if execution.time_us else 0.0


def _totals(totals: Totals, launches: int) -> Iterator[str]:
    yield f"the card takes {us(totals.card_us)}, nine of ten between {us(totals.low_us)} and {us(totals.high_us)}"
    yield f"a second model, the published formula for whole programs, says {us(totals.published_us)} for the card"
    if totals.round_trips_us:
        yield f"round trips of ops that the card does not have: {us(totals.round_trips_us)} on top"
    yield f"{launches} launch(es): {us(totals.launches_us)} of the host's time on top"
    moved = {
        "through memory": totals.memory_bytes,
        "in scratchpads": totals.scratchpad_bytes,
        "over the ring": totals.ring_bytes,
    }
    yield "moved: " + ", ".join(f"{bytes_(number)} {where}" for where, number in moved.items() if number)
    yield f"at least {us(totals.data_once_us)}: {bytes_(totals.data_bytes)} of data once through memory, at its peak ({_of(totals.data_once_us, totals)} of the card's time)"
    if totals.macs:
        yield f"at least {us(totals.peak_macs_us)}: {count(totals.macs)} MACs at the arrays' peak ({_of(totals.peak_macs_us, totals)} of the card's time)"


def _of(bound: float, totals: Totals) -> str:
    return f"{bound / totals.card_us:.1%}" if totals.card_us else "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()) -> Iterator[str]:
    """Columns as wide as what is in them; one that nobody fills is left out."""
    kept = [column for column in range(len(head)) if any(row[column] not in ("", "-") for row in rows)]
    widths = {column: max(len(line[column]) for line in (head, *rows)) for column in kept}
    for line in (head, *rows):
        cells = [
            line[c].rjust(widths[c]) if head[c] in right else line[c].ljust(widths[c]) for c in kept
        ]  # numbers to the right
        yield "  ".join(cells).rstrip()


def printable(text: str) -> str:
    """Of a stranger's text what cannot steer a terminal."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def work(execution: Execution) -> str:
    if execution.macs:
        return f"{count(execution.macs)} MAC"
    return f"{count(execution.vector_elements)} el" if execution.vector_elements else "-"


def line(source: str) -> str:
    """Of a path its last two parts: who looks at a table knows the rest."""
    return " ".join("/".join(word.split("/")[-2:]) for word in source.split())


def us(time: float) -> str:
    return f"{time / 1e3:.2f} ms" if time >= 1e3 else f"{time:.1f} us" if time >= 1 else f"{time:.2f} us"


def bytes_(number: int) -> str:
    """In powers of ten, as rates are."""
    return f"{count(number)}B" if number else "-"


def count(number: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:g} "
