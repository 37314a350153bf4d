"""What is alike is worked out once: layers of a model, calls, ops, steps. What comes out is the same either way."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

Answer = TypeVar("Answer")
_on: ContextVar[bool] = ContextVar("sharing", default=True)


def shares_work() -> bool:
    return _on.get()


@contextmanager
def nothing_shared() -> Iterator[None]:
    """Inside, everything is worked out by itself: what tests compare with, and a way to rule sharing out."""
    before = _on.set(False)
    try:
        yield
    finally:
        _on.reset(before)


class Memo(Generic[Answer]):
    """Answers that were worked out before, `limit` of them at most. A key has all that an answer depends on; answers are not changed."""

    def __init__(self, limit: int = 1 << 13) -> None:
        self.limit = limit
        self._known: dict[Hashable, Answer] = {}

    def get(self, key: Hashable, work_out: Callable[[], Answer]) -> Answer:
        if not shares_work():
            return work_out()
        try:
            return self._known[key]
        except KeyError:
            answer = work_out()
        if len(self._known) >= self.limit:
            self._known.clear()
        return self._known.setdefault(key, answer)  # another thread may have been faster
