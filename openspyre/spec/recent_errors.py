"""The last errors of the card and findings of the sanitizer in this process, for reports."""

from __future__ import annotations

from collections import deque

_last: deque[tuple[str, str]] = deque(maxlen=64)


def note(kind: str, message: str) -> None:
    """Class and text."""
    _last.append((kind, message[:4000]))


def recent() -> list[tuple[str, str]]:
    """The oldest first."""
    return list(_last)
