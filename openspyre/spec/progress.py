"""Long work speaks: what takes longer than two seconds is shown in a line that lives on a terminal, in lines of a log otherwise.

Whoever begins such work says `with working("compiling graph0")`, whoever is at work says `stage("DivideWork", "930 ops")`:
that of the calling thread is meant. Nothing is shown before somebody has called `switch(True)`, and nothing here fails.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

PATIENCE_SECONDS = 2.0
_REDRAWN_SECONDS = 0.2
_ERASED = "\r\x1b[2K"
_log = logging.getLogger("spyre.progress")
_own = threading.local()  # .work: the thread's outermost work
_drawing = threading.Lock()  # held by the work whose line is on the terminal
_speaks = False


def switch(on: bool) -> None:
    """TORCH_SPYRE_PROGRESS, once it is known."""
    global _speaks
    _speaks = on


class Work:
    """Something that may take long. A thread of its own watches it, and ends with it."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.stage = ""
        self._began = monotonic()
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name=f"progress of {what}", daemon=True)
        self._watcher.start()

    def end(self) -> None:
        self._ended.set()
        self._watcher.join()

    def __str__(self) -> str:
        return f"{': '.join(filter(None, (self.what, self.stage)))}, {monotonic() - self._began:.0f} s"

    def _watch(self) -> None:
        if self._ended.wait(PATIENCE_SECONDS) or not _speaks:
            return
        columns = _terminal_columns()
        if columns is None:
            _tell(f"{self} so far")
            self._ended.wait()
            _tell(f"{self.what}: done after {monotonic() - self._began:.1f} s")
        else:
            self._live(columns)

    def _live(self, columns: int) -> None:
        """One line for all threads: who comes second waits for the first to end."""
        while not _drawing.acquire(timeout=_REDRAWN_SECONDS):
            if self._ended.is_set():
                return
        try:
            while _write(f"{_ERASED}spyre: {self}"[: len(_ERASED) + columns - 1]):
                if self._ended.wait(_REDRAWN_SECONDS):
                    break
            _write(_ERASED)
        finally:
            _drawing.release()


def begin(what: str) -> Work | None:
    """The thread's work from now on; None inside work, which is told as a stage of it. Where `with` will not do."""
    if getattr(_own, "work", None) is not None:
        stage(what)
        return None
    try:
        _own.work = Work(what)
    except RuntimeError:  # no thread can be started: at the interpreter's end, or too many of them
        return None
    return _own.work  # type: ignore[no-any-return]


def end(work: Work | None) -> None:
    """What `begin` returned is over."""
    if work is not None:
        _own.work = None
        work.end()


@contextmanager
def working(what: str) -> Iterator[None]:
    work = begin(what)
    try:
        yield
    finally:
        end(work)


def stage(name: str, detail: str = "") -> None:
    """What the calling thread's work does now."""
    work = getattr(_own, "work", None)
    if work is not None:
        work.stage = f"{name}, {detail}" if detail else name


def _terminal_columns() -> int | None:
    """None where standard error is no terminal."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80 if sys.stderr.isatty() else None
    except (AttributeError, OSError, ValueError):  # closed, replaced, or none at all
        return None


def _tell(line: str) -> None:
    """By the log if somebody reads it, else as the log would."""
    if _log.isEnabledFor(logging.INFO) and _log.parent is not None and _log.parent.handlers:
        _log.info(line)
    else:
        _write(f"[INFO] [{_log.name}] {line}\n")


def _write(text: str) -> bool:
    """False where nobody can be told."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        return False
    return True


def _after_fork() -> None:
    """The child has none of the watchers, and must not wait for one."""
    global _drawing
    _drawing = threading.Lock()
    _own.work = None


os.register_at_fork(after_in_child=_after_fork)
