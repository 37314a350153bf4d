"""Processes that use cards: found by the counters among their open files, which nobody but their user may look at.

The memory has no name in any directory and ends with its process, so nothing stale is ever found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from openspyre.spec.counters import MAGIC, MEMORY_NAME, TOTAL_BYTES, Head, Reading, block_bytes, read, read_block
from openspyre.tools.explaining.text import printable

_LINK = f"/memfd:{MEMORY_NAME} (deleted)"
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """Counters that another version of openspyre has laid out."""

    layout: int


@dataclass(frozen=True, slots=True)
class Published:
    """Counters that a process shows; the inode tells two processes of the same number apart."""

    pid: int
    inode: int
    path: Path

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.inode


def published(proc: Path = PROC) -> Iterator[Published]:
    """Of all processes that we may look at; those of others, and those that end meanwhile, are passed over."""
    for pid in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()):
        with suppress(OSError):
            for path in (proc / str(pid) / "fd").iterdir():
                with suppress(OSError):
                    if str(path.readlink()) == _LINK:
                        yield Published(pid, path.stat().st_ino, path)


class Watched:
    """A process's counters, held open until closed."""

    def __init__(self, found: Published) -> None:
        """OSError if it has ended meanwhile."""
        self.pid = found.pid
        self.command = command_of(found.pid)
        self.uid = (PROC / str(found.pid)).stat().st_uid
        self._descriptor = os.open(found.path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._descriptor)

    def bytes_at(self, begin: int, count: int) -> bytes:
        """What lies there now, less at the end of the memory. Read, not mapped: whatever becomes of the file, we go on."""
        with suppress(OSError):
            return os.pread(self._descriptor, count, begin)
        return b""

    def read(self) -> Reading | OtherVersion | None:
        """None: these are no counters, or none yet, or those of the process that this one was just forked from."""
        begin = self.bytes_at(0, block_bytes(Head))
        if len(begin) < block_bytes(Head):
            return None
        head = read_block(Head, begin, 0)
        if head.magic != MAGIC or head.pid != pid_inside(self.pid):
            return None
        return read(self.bytes_at(0, TOTAL_BYTES)) or OtherVersion(head.layout)


def pid_inside(pid: int) -> int:
    """As the process sees itself: in a container its number is another one."""
    with suppress(OSError, ValueError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return pid


def command_of(pid: int) -> str:
    """Its command line, as a terminal may show it."""
    words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    return printable(" ".join(word for word in words if word))
