"""The process-wide set of cards: configured once, started on first use."""

import threading
import warnings
from typing import Any

from openspyre.card import _card
from openspyre.spec.environment import Settings
from openspyre.spec.machine import SPYRE

_lock = threading.Lock()
_configured: Settings | None = None
_applied: dict[str, Any] = {}


def configure(settings: Settings | None = None) -> Settings:
    """Fixes what the cards of this process are; by default as the environment says.

    Settings for the same cards are fine at any time; for others only as long as no card is in use.
    """
    global _configured, _applied
    settings = Settings.read() if settings is None else settings
    with _lock:
        if (wanted := _of_cards(settings)) != _applied:
            if settings.card == "null":
                said = "OPENSPYRE_CARD=null: programs are accepted, nothing is computed, and all that is read back is 0"
                warnings.warn(said, stacklevel=2)
            if missing := settings.missing_cards():
                said = f"SPYRE_DEVICES names {', '.join(map(str, missing))}, but the machine has {settings.machine_cards} card(s)"
                warnings.warn(f"{said}, numbered from 0: dropped (OPENSPYRE_CARDS sets how many)", stacklevel=2)
            _card.configure(**wanted)
            _applied = wanted
        _configured = settings
    return settings


def _of_cards(settings: Settings) -> dict[str, Any]:
    """What of the settings the cards themselves are told."""
    return {
        "cards": len(settings.visible_cards()),
        "threads": settings.threads,
        "memory_bytes": settings.card_memory_bytes,
        "host_reserve_bytes": settings.host_reserve_mib << 20,
        "cache_watermark": settings.cache_watermark,
        "sanitize": settings.sanitize,
        "sanitize_strict": settings.sanitize_strict,
        "null": settings.card == "null",
        "isa": settings.isa,
        "core_span_bytes": settings.machine.max_span_bytes_per_core_and_tensor,
        "scratchpad_bytes": SPYRE.scratchpad_bytes_per_core,
    }


def settings_in_force() -> Settings:
    """What the cards were configured with; configures them now if nobody has."""
    return _configured if _configured is not None else configure()


def count() -> int:
    """Cards this process sees. Starts none of them."""
    settings_in_force()
    return _card.card_count()


def get(index: int | None = None) -> _card.Card:
    """A card, started if it was not; the default one (LOCAL_RANK, or 0) without an index. InvalidDevice, BadFork."""
    settings = settings_in_force()
    return _card.card(settings.default_card if index is None else index)


def synchronize() -> None:
    """Waits for all work of all cards that were started."""
    if _card.cards_started():
        _card.synchronize_all()


def worker_threads() -> int:
    """Host threads that execute the cores."""
    settings_in_force()
    return _card.worker_threads()


def host_memory_bytes() -> tuple[int, int]:
    """Total and available memory of the host, its cgroup's limit considered."""
    return _card.host_memory()
