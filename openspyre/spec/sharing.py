"""Whether what is alike is worked out once: layers of a model, calls, ops, steps. What comes out is the same either way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
