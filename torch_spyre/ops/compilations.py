"""What was compiled and why: the first time, or because sizes, strides, layouts or something else were new."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Mapping

_log = logging.getLogger("spyre.compiler")
_KEPT = 16  # calls of one operator or graph that a new one is compared with
_lock = threading.Lock()
_seen: dict[str, deque[Mapping[str, object]]] = defaultdict(lambda: deque(maxlen=_KEPT))
_counts: dict[str, Counter[str]] = defaultdict(Counter)


def note(who: str, facts: Mapping[str, object]) -> None:
    """One compilation. `facts` decide what the program is, the weightiest first: what follows from another comes after it."""
    with _lock:
        earlier = _seen[who]
        nearest = min(earlier, key=lambda other: sum(other[name] != facts[name] for name in facts), default=None)
        changed = [] if nearest is None else [name for name in facts if facts[name] != nearest[name]]
        reason = "first call" if nearest is None else changed[0] if changed else "forgotten"
        earlier.append(dict(facts))
        _counts[who][reason] += 1
    if nearest is None or not changed:
        _log.info("%s is compiled: %s", who, reason)
    else:
        now, before = _different(facts[reason], nearest[reason])
        _log.info("%s is compiled anew: %s %s, before %s", who, reason, now, before)


def _different(now: object, before: object) -> tuple[object, object]:
    """Of lists only the first item that is not the same: there may be as many as a model has weights."""
    if isinstance(now, tuple) and isinstance(before, tuple) and len(now) == len(before):
        return next(pair for pair in zip(now, before, strict=True) if pair[0] != pair[1])
    return now, before


def compilation_stats() -> dict[str, dict[str, int]]:
    """Per operator or graph: how often it was compiled, by reason ("first call", "sizes", ...), the most compiled first."""
    with _lock:
        found = {who: dict(reasons) for who, reasons in _counts.items()}
    return dict(sorted(found.items(), key=lambda item: -sum(item[1].values())))


def reset_compilation_stats() -> None:
    """Start counting anew."""
    with _lock:
        _counts.clear()
