"""What cards did between two looks at their processes' counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from openspyre.spec.counters import (
    CARD_BYTES,
    CARDS_BEGIN,
    STREAMS,
    WORD_BYTES,
    CardCounts,
    CardReading,
    ProcessCounts,
    Reading,
    StreamCounts,
    block_bytes,
)
from openspyre.tools.monitoring.processes import OtherVersion, Watched, published

_SAMPLE_SECONDS = 0.004


@dataclass(frozen=True, slots=True)
class CardSample:
    """One card of one process. Busy is the share of looks at which it had work; utilisation and bandwidth are a real card's, by the clock."""

    index: int
    memory_used_bytes: int
    memory_total_bytes: int
    memory_reserved_bytes: int
    busy: float
    pt_utilisation: float
    memory_bytes_per_second: float
    predicted_share: float  # how long a real card would be busy in a second of ours
    launches_per_second: float
    copies_per_second: float
    to_card_bytes_per_second: float
    from_card_bytes_per_second: float
    fallbacks_per_second: float
    queue_depth: int
    counts: StreamCounts  # since the process began


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """A process; `visible` cards it sees, `cards` it has used."""

    pid: int
    uid: int
    command: str
    began_ns: int
    visible: int
    cards: tuple[CardSample, ...]
    compiled: ProcessCounts


class OtherProcess(NamedTuple):
    """A process whose counters we cannot read."""

    pid: int
    command: str
    layout: int


@dataclass(frozen=True, slots=True)
class Sample:
    """All processes over some seconds."""

    time: float
    seconds: float
    processes: tuple[ProcessSample, ...]
    others: tuple[OtherProcess, ...]


Key = tuple[int, int]


class Monitor:
    """Looks at all processes again and again; each sample tells what happened since the one before."""

    def __init__(self) -> None:
        self._watched: dict[Key, Watched] = {}
        self._before: dict[Key, Reading] = {}
        self._when = time.monotonic()
        self._look()
        self._before = self._readings()

    def close(self) -> None:
        for process in self._watched.values():
            process.close()
        self._watched.clear()

    def sample(self, seconds: float, leave: Callable[[], bool] = lambda: False) -> Sample:
        """After so many seconds, or once the user wants to leave. A process that came meanwhile is there, one that ended is not."""
        busy = self._busy_for(seconds, leave)
        self._look()
        now, before = time.monotonic(), self._before
        passed, self._when = max(now - self._when, 1e-6), now
        self._before = self._readings()
        processes = [
            _process(self._watched[key], reading, before.get(key), busy.get(key, {}), passed)
            for key, reading in self._before.items()
        ]
        return Sample(time.time(), passed, tuple(processes), tuple(self._others()))

    def _look(self) -> None:
        found = {one.key: one for one in published()}
        for key in [key for key in self._watched if key not in found]:
            self._watched.pop(key).close()
        for key, one in found.items():
            if key not in self._watched:
                try:
                    self._watched[key] = Watched(one)
                except OSError:  # it has just ended
                    continue

    def _readings(self) -> dict[Key, Reading]:
        found = {key: process.read() for key, process in self._watched.items()}
        return {key: reading for key, reading in found.items() if isinstance(reading, Reading)}

    def _others(self) -> list[OtherProcess]:
        found = [(process, process.read()) for process in self._watched.values()]
        return [OtherProcess(p.pid, p.command, now.layout) for p, now in found if isinstance(now, OtherVersion)]

    def _busy_for(self, seconds: float, leave: Callable[[], bool]) -> dict[Key, dict[int, float]]:
        """Share of looks at which cards had work."""
        end, looks = time.monotonic() + seconds, 0
        counts: dict[Key, dict[int, int]] = {}
        while (left := end - time.monotonic()) > 0 and not leave():
            time.sleep(min(left, _SAMPLE_SECONDS))
            looks += 1
            for key, reading in self._before.items():
                for card in reading.cards:
                    at_work = counts.setdefault(key, {})
                    at_work[card.index] = at_work.get(card.index, 0) + _has_work(self._watched[key], card.index)
        return {key: {card: count / looks for card, count in cards.items()} for key, cards in counts.items()}


def _has_work(process: Watched, card: int) -> bool:
    begin = CARDS_BEGIN + card * CARD_BYTES + block_bytes(CardCounts)
    size = block_bytes(StreamCounts)
    image = process.bytes_at(begin, STREAMS * size)
    if len(image) < STREAMS * size:
        return False
    words = np.frombuffer(image, dtype="<u8").reshape(STREAMS, size // WORD_BYTES)
    return bool((words[:, 0] > words[:, 1]).any())  # submitted, completed


def _process(
    process: Watched, now: Reading, before: Reading | None, busy: Mapping[int, float], seconds: float
) -> ProcessSample:
    """One that was not there before counts from zero."""
    then = {card.index: card.total() for card in before.cards} if before is not None else {}
    cards = [
        _card(card, card.total(), then.get(card.index, StreamCounts()), busy.get(card.index, 0.0), seconds)
        for card in now.cards
    ]
    head = now.head
    return ProcessSample(
        process.pid, process.uid, process.command, head.began_ns, head.cards, tuple(cards), now.process
    )


def _card(card: CardReading, now: StreamCounts, before: StreamCounts, busy: float, seconds: float) -> CardSample:
    done = now.since(before)
    moved = done.memory_read_bytes + done.memory_written_bytes
    return CardSample(
        card.index,
        card.own.allocated_bytes,
        card.own.total_bytes,
        card.own.reserved_bytes,
        busy,
        done.array_ns / done.predicted_ns if done.predicted_ns else 0.0,
        moved / done.predicted_ns * 1e9 if done.predicted_ns else 0.0,
        done.predicted_ns * 1e-9 / seconds,
        done.launches / seconds,
        (done.copies_to_card + done.copies_from_card + done.copies_within) / seconds,
        done.to_card_bytes / seconds,
        done.from_card_bytes / seconds,
        done.fallbacks / seconds,
        now.queue_depth,
        now,
    )
