"""Samples as rows: cells of text that the plain tables and the live view share, lines for `dmon`, and JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from openspyre.artifact.json_types import Json
from openspyre.tools.monitoring.samples import CardSample, ProcessSample, Sample

CARD_HEAD = ("card", "processes", "memory", "busy", "PT", "bandwidth", "launches/s", "copies/s")
PROCESS_HEAD = (
    "pid",
    "card",
    "memory",
    "busy",
    "PT",
    "bandwidth",
    "to card",
    "from card",
    "copies/s",
    "launches/s",
    "queue",
    "command",
)
DMON_HEAD = (*PROCESS_HEAD[:-1], "fallbacks/s")
_DMON_WIDTHS = (8, 5, 22, 6, 6, 12, 12, 12, 9, 11, 6, 12)
JSON_VERSION = 1


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards that a process started here would see."""

    count: int
    memory_bytes: int


def title(sample: Sample, version: str) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(sample.time))
    return f"openspyre {version}   {when}   the last {sample.seconds:.1f} s"


def card_rows(sample: Sample, here: Cards) -> list[tuple[str, ...]]:
    """One row per card, over all processes: each has cards of its own in software, so memory and work are summed."""
    seen = [card for process in sample.processes for card in process.cards]
    count = max([here.count, *(process.visible for process in sample.processes)])
    return [_card_row(index, [card for card in seen if card.index == index], here) for index in range(count)]


def _card_row(index: int, used: list[CardSample], here: Cards) -> tuple[str, ...]:
    total = max([card.memory_total_bytes for card in used], default=here.memory_bytes)
    held = sum(card.memory_used_bytes for card in used)
    real = sum(card.predicted_share for card in used)
    return (
        str(index),
        str(len(used)),
        f"{bytes_(held)} of {bytes_(total)}",
        percent(max([card.busy for card in used], default=0.0)),
        percent(sum(card.pt_utilisation * card.predicted_share for card in used) / real if real else 0.0),
        rate(sum(card.memory_bytes_per_second * card.predicted_share for card in used) / real if real else 0.0),
        number(sum(card.launches_per_second for card in used)),
        number(sum(card.copies_per_second for card in used)),
    )


def process_rows(sample: Sample) -> list[tuple[str, ...]]:
    """One row per process and card that it has used."""
    return [(*_cells(process, card)[:-1], process.command) for process in sample.processes for card in process.cards]


def _cells(process: ProcessSample, card: CardSample) -> tuple[str, ...]:
    """As DMON_HEAD names them."""
    return (
        str(process.pid),
        str(card.index),
        f"{bytes_(card.memory_used_bytes)} of {bytes_(card.memory_total_bytes)}",
        percent(card.busy),
        percent(card.pt_utilisation),
        rate(card.memory_bytes_per_second),
        rate(card.to_card_bytes_per_second),
        rate(card.from_card_bytes_per_second),
        number(card.copies_per_second),
        number(card.launches_per_second),
        str(card.queue_depth),
        number(card.fallbacks_per_second),
    )


def notes(sample: Sample) -> Iterator[str]:
    if not sample.processes:
        yield "no process uses a card"
    for pid, command, _ in sample.others:
        yield f"{pid} uses cards with another version of openspyre, whose counters this one cannot read: {command}"


def text(sample: Sample, here: Cards, version: str, width: int) -> Iterator[str]:
    yield title(sample, version)
    yield from _table(CARD_HEAD, card_rows(sample, here))
    if sample.processes:
        yield ""
        yield from (line[:width] for line in _table(PROCESS_HEAD, process_rows(sample)))
    yield from notes(sample)


def _table(head: Sequence[str], rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in [tuple(head), *rows]) for place in range(len(head))]
    for row in [tuple(head), *rows]:
        cells = [
            cell.ljust(w) if name == "command" else cell.rjust(w)
            for cell, w, name in zip(row, widths, head, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def dmon_head() -> str:
    return "time    " + "".join(name.rjust(width) for name, width in zip(DMON_HEAD, _DMON_WIDTHS, strict=True))


def dmon_lines(sample: Sample) -> Iterator[str]:
    when = time.strftime("%H:%M:%S", time.localtime(sample.time))
    for process in sample.processes:
        for card in process.cards:
            cells = zip(_cells(process, card), _DMON_WIDTHS, strict=True)
            yield when + "".join(cell.rjust(width) for cell, width in cells)
    for note in notes(sample):
        yield f"{when}  {note}"


def as_json(sample: Sample, here: Cards) -> dict[str, Json]:
    return {
        "version": JSON_VERSION,
        "time": sample.time,
        "seconds": sample.seconds,
        "cards": [{"index": index, "memory_total_bytes": here.memory_bytes} for index in range(here.count)],
        "processes": [asdict(process) for process in sample.processes],
        "others": [{"pid": pid, "command": command} for pid, command, _ in sample.others],
    }


def bytes_(count: float) -> str:
    """1.5 GiB, 12 MiB, 0 B."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def rate(per_second: float) -> str:
    for unit in ("B/s", "KB/s", "MB/s"):
        if per_second < 1000:
            return f"{per_second:.0f} {unit}"
        per_second /= 1000
    return f"{per_second:.1f} GB/s"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def number(per_second: float) -> str:
    return f"{per_second:.0f}" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}"
