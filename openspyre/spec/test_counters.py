import struct
from dataclasses import astuple, fields

import pytest

from openspyre.spec.counters import (
    CARD_BYTES,
    CARDS_BEGIN,
    LAYOUT,
    MAGIC,
    TOTAL_BYTES,
    CardCounts,
    Head,
    LaunchWork,
    ProcessCounts,
    StreamCounts,
    block_bytes,
    groups,
    read,
    words,
)


def image(head: Head, **blocks: tuple[int, tuple[int, ...]]) -> bytes:
    """Memory with a head, and words at some bytes."""
    made = bytearray(TOTAL_BYTES)
    struct.pack_into("<7Q", made, 0, *words(head))
    for begin, row in blocks.values():
        struct.pack_into(f"<{len(row)}Q", made, begin, *row)
    return bytes(made)


HEAD = Head(MAGIC, LAYOUT, TOTAL_BYTES, 7, 8, 2, 0b10)


def test_groups_begin_lines_of_their_own_and_a_launch_fills_one_of_them() -> None:
    assert [row.name for row in groups(StreamCounts)["work"]] == [row.name for row in fields(LaunchWork)]
    assert block_bytes(Head) == block_bytes(ProcessCounts) == block_bytes(CardCounts) == 64
    assert block_bytes(StreamCounts) == 64 + 128 + 64  # 3, 11 and 8 words
    assert TOTAL_BYTES == 128 + 8 * (64 + 65 * 256)


def test_words_are_read_from_where_they_lie() -> None:
    stream_3 = CARDS_BEGIN + CARD_BYTES + 64 + 3 * 256
    found = read(
        image(
            HEAD,
            process=(64, (1, 2, 3)),
            card=(CARDS_BEGIN + CARD_BYTES, (100, 90, 95)),
            queue=(stream_3, (9, 4, 2)),
            work=(stream_3 + 64, (11, 22)),
            traffic=(stream_3 + 192, (5, 50)),
        )
    )
    assert found is not None and found.head == HEAD
    assert (found.process.eager_compiles, found.process.graph_plans, found.process.graph_compiles) == (1, 2, 3)
    (card,) = found.cards
    assert (card.index, astuple(card.own)) == (1, (100, 90, 95))
    assert list(card.streams) == [3]
    stream = card.streams[3]
    assert (stream.queue_depth, stream.launches, stream.steps, stream.macs) == (5, 2, 11, 22)
    assert (stream.copies_to_card, stream.to_card_bytes) == (5, 50)
    assert found.total() == card.total() == stream


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        image(HEAD)[:-1],
        image(Head(MAGIC + 1, LAYOUT)),
        image(Head(MAGIC, LAYOUT + 1)),
        b"\xff" * TOTAL_BYTES,
    ],
    ids=["empty", "short", "foreign", "another version", "noise"],
)
def test_what_is_no_memory_of_counters_is_not_read(wrong: bytes) -> None:
    assert read(wrong) is None


def test_differences_leave_gauges_alone() -> None:
    before, now = (
        StreamCounts(submitted=10, completed=10, launches=4),
        StreamCounts(submitted=15, completed=12, launches=6),
    )
    assert now.since(before) == StreamCounts(submitted=15, completed=12, launches=2)
    assert (now + before).launches == 10
