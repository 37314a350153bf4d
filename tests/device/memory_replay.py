"""A memory snapshot walked backwards, as torch's viewer does it: from what lies where at the end to how it was before each entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Snapshot = dict[str, Any]
PAGE = 1 << 16


class State:
    """Blocks that are allocated or awaited, by address, and the pages that the host backs."""

    def __init__(self, snapshot: Snapshot, device: int) -> None:
        self.blocks: dict[int, int] = {}
        self.pages: set[int] = set()
        for segment in snapshot["segments"]:
            if segment["device"] != device:
                continue
            address = segment["address"]
            self._map(address, segment["total_size"])
            for block in segment["blocks"]:
                assert block["address"] == address  # the viewer adds sizes up
                if block["state"] != "inactive":
                    self.blocks[address] = block["requested_size"]
                address += block["size"]
            assert address == segment["address"] + segment["total_size"]

    def _map(self, address: int, size: int) -> None:
        pages = range(address // PAGE, (address + size) // PAGE)
        assert address % PAGE == 0 and not self.pages.intersection(pages)
        self.pages.update(pages)

    def undo(self, entry: dict[str, Any]) -> None:
        """What was before an entry."""
        match entry["action"]:
            case "alloc":
                assert self.blocks.pop(entry["addr"]) == entry["size"]
            case "free_completed":
                assert entry["addr"] not in self.blocks
                self.blocks[entry["addr"]] = entry["size"]
            case "free_requested":
                assert self.blocks[entry["addr"]] == entry["size"]
            case "segment_unmap":
                self._map(entry["addr"], entry["size"])
            case "segment_map":
                pages = range(entry["addr"] // PAGE, (entry["addr"] + entry["size"]) // PAGE)
                assert self.pages.issuperset(pages)
                self.pages.difference_update(pages)
            case "oom" | "snapshot":
                pass
            case other:
                raise AssertionError(f"the viewer knows no {other}")

    def check(self) -> None:
        """Every block lies in pages that are there, and beside the others."""
        end = 0
        for address, size in sorted(self.blocks.items()):
            assert address >= end
            end = address + size
            assert self.pages.issuperset(range(address // PAGE, -(-end // PAGE)))


def states_before(snapshot: Snapshot, device: int = 0) -> Iterator[State]:
    """The state at the end and before every entry, the last first."""
    state = State(snapshot, device)
    state.check()
    yield state
    for entry in reversed(snapshot["device_traces"][device]):
        state.undo(entry)
        state.check()
        yield state
