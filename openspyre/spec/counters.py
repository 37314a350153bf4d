"""What a process counts of its cards, and how the counts lie in the memory that it shows to `openspyre smi`.

The C++ structures are generated from these classes (csrc/card/generated/counters.h). Groups are written by different threads, so each
begins a cache line of its own. The first words of the memory stay what they are for ever; all others belong to one LAYOUT.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any, Self, TypeVar

from openspyre.spec.machine import SPYRE

MEMORY_NAME = "openspyre-counters"
MAGIC = int.from_bytes(b"ospycnts", "little")
STREAMS = 65  # of a card, as csrc/card/streams/stream.h has them
WORD_BYTES, LINE_BYTES = 8, 64


def count(group: str, meaning: str, *, gauge: bool = False) -> Any:
    """A word of a group. A gauge goes up and down; all others only grow."""
    return field(default=0, metadata={"group": group, "meaning": meaning, "gauge": gauge})


@dataclass(frozen=True, slots=True)
class Counts:
    """Words, added and subtracted one by one."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(mine + theirs for mine, theirs in zip(words(self), words(other), strict=True)))

    def since(self, before: Self) -> Self:
        """What came after `before`; gauges stay as they are."""
        pairs = zip(fields(self), words(self), words(before), strict=True)
        return type(self)(*(now if row.metadata["gauge"] else now - then for row, now, then in pairs))


@dataclass(frozen=True, slots=True)
class StreamCounts(Counts):
    """Of one stream, counted when the host submits. `work` is what the bundle of a launch says a card does for it."""

    submitted: int = count("queue", "tasks that the host has submitted: launches, copies, events", gauge=True)
    completed: int = count("queue", "tasks that have ended", gauge=True)
    launches: int = count("queue", "programs that the host has launched")
    steps: int = count("work", "executions of ops, with the passes of loops")
    macs: int = count("work", "products that were added up")
    memory_read_bytes: int = count("work", "read from the card's memory")
    memory_written_bytes: int = count("work", "written to the card's memory")
    scratchpad_read_bytes: int = count("work", "read from scratchpads")
    scratchpad_written_bytes: int = count("work", "written to scratchpads")
    ring_bytes: int = count("work", "moved from core to core over the rings")
    relayouts: int = count("work", "steps that move elements to other sticks")
    extension_ops: int = count("work", "steps that a real card leaves to the host")
    predicted_ns: int = count("work", "what a real card would be busy, by the clock")
    array_ns: int = count("work", "what the PT arrays would need for the products at their best")
    copies_to_card: int = count("traffic", "copies from the host to the card")
    to_card_bytes: int = count("traffic", "their bytes")
    copies_from_card: int = count("traffic", "copies from the card to the host")
    from_card_bytes: int = count("traffic", "their bytes")
    copies_within: int = count("traffic", "copies within a card or to another one")
    within_bytes: int = count("traffic", "their bytes")
    relayout_copies: int = count("traffic", "copies within the card that move elements to other sticks")
    fallbacks: int = count("traffic", "operators that ran on the CPU")

    @property
    def queue_depth(self) -> int:
        """Tasks that wait or run."""
        return max(0, self.submitted - self.completed)


@dataclass(frozen=True, slots=True)
class CardCounts(Counts):
    """Of one card."""

    total_bytes: int = count("memory", "memory of the card", gauge=True)
    allocated_bytes: int = count("memory", "of it, what tensors hold", gauge=True)
    reserved_bytes: int = count("memory", "memory of the host behind it, in use or cached", gauge=True)


@dataclass(frozen=True, slots=True)
class ProcessCounts(Counts):
    """Of all cards together: what the compiler and its caches did."""

    eager_compiles: int = count("process", "calls that were compiled")
    graph_plans: int = count("process", "launches of graphs that had to be specialised: compiled, or found on disk")
    graph_compiles: int = count("process", "of these, compiled")
    text_cache_hits: int = count("process", "of these, found on disk")
    retiled_weights: int = count("process", "parameters that were moved to the layout that graphs prefer")


@dataclass(frozen=True, slots=True)
class Head(Counts):
    """How the memory begins, in every version."""

    magic: int = count("head", "says that these are counters")
    layout: int = count("head", "which layout follows")
    bytes: int = count("head", "all of it")
    pid: int = count("head", "of the process, as it sees itself")
    began_ns: int = count("head", "when it took its first card into use, in CLOCK_REALTIME")
    cards: int = count("head", "cards that it sees")
    started: int = count("head", "a bit for each that it has used")


@dataclass(frozen=True, slots=True)
class LaunchWork:
    """What one launch of a program adds to the `work` of its stream."""

    steps: int = 0
    macs: int = 0
    memory_read_bytes: int = 0
    memory_written_bytes: int = 0
    scratchpad_read_bytes: int = 0
    scratchpad_written_bytes: int = 0
    ring_bytes: int = 0
    relayouts: int = 0
    extension_ops: int = 0
    predicted_ns: int = 0
    array_ns: int = 0


Row = TypeVar("Row", bound=Counts)


def words(counts: Counts | LaunchWork) -> tuple[int, ...]:
    return tuple(getattr(counts, row.name) for row in fields(counts))


def groups(of: type[Counts]) -> dict[str, list[Field[int]]]:
    found: dict[str, list[Field[int]]] = {}
    for row in fields(of):
        found.setdefault(row.metadata["group"], []).append(row)
    return found


def _lines(words_: int) -> int:
    return -(-words_ * WORD_BYTES // LINE_BYTES) * LINE_BYTES


def block_bytes(of: type[Counts]) -> int:
    return sum(_lines(len(group)) for group in groups(of).values())


CARD_BYTES = block_bytes(CardCounts) + STREAMS * block_bytes(StreamCounts)
CARDS_BEGIN = block_bytes(Head) + block_bytes(ProcessCounts)
TOTAL_BYTES = CARDS_BEGIN + SPYRE.max_cards * CARD_BYTES


def _layout_text() -> str:
    rows = [(of.__name__, row.metadata["group"], row.name) for of in _BLOCKS for row in fields(of)]
    return f"{rows} {STREAMS} {SPYRE.max_cards} {LINE_BYTES}"


_BLOCKS: tuple[type[Counts], ...] = (Head, ProcessCounts, CardCounts, StreamCounts)
LAYOUT = zlib.crc32(_layout_text().encode())


def read_block(of: type[Row], image: bytes, begin: int) -> Row:
    """A block as it lies in the memory, from a byte on."""
    found: list[int] = []
    for group in groups(of).values():
        found += struct.unpack_from(f"<{len(group)}Q", image, begin)
        begin += _lines(len(group))
    return of(*found)


@dataclass(frozen=True, slots=True)
class CardReading:
    """A card at one moment: itself, and its streams that were ever used."""

    index: int
    own: CardCounts
    streams: dict[int, StreamCounts]

    def total(self) -> StreamCounts:
        """All streams together."""
        return sum(self.streams.values(), StreamCounts())


@dataclass(frozen=True, slots=True)
class Reading:
    """All counts of a process at one moment."""

    head: Head
    process: ProcessCounts
    cards: tuple[CardReading, ...]

    def total(self) -> StreamCounts:
        return sum((card.total() for card in self.cards), StreamCounts())


def read(image: bytes) -> Reading | None:
    """What the memory says; None if it is none of this layout."""
    if len(image) < TOTAL_BYTES:
        return None
    head = read_block(Head, image, 0)
    if head.magic != MAGIC or head.layout != LAYOUT:
        return None
    started = [index for index in range(SPYRE.max_cards) if head.started >> index & 1]
    return Reading(
        head, read_block(ProcessCounts, image, block_bytes(Head)), tuple(_card(image, index) for index in started)
    )


def _card(image: bytes, index: int) -> CardReading:
    begin = CARDS_BEGIN + index * CARD_BYTES
    return CardReading(index, read_block(CardCounts, image, begin), dict(_streams(image, begin)))


def _streams(image: bytes, card_begin: int) -> Iterator[tuple[int, StreamCounts]]:
    size, begin = block_bytes(StreamCounts), card_begin + block_bytes(CardCounts)
    for stream in range(STREAMS):
        here = begin + stream * size
        if any(image[here : here + size]):
            yield stream, read_block(StreamCounts, image, here)
