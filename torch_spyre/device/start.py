"""The first use of the device: switches are read here, once, and handed to the cards."""

from __future__ import annotations

import atexit
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch

from openspyre import card
from openspyre.card import cards
from openspyre.spec import logs, progress, retired
from openspyre.spec.environment import Settings
from openspyre.spec.errors import OptionWarning
from torch_spyre import _torch
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.layouts import device_tensor_layout

log = logging.getLogger("spyre.device")
_copies = logging.getLogger("spyre.device.copies")
_wanted: dict[str, Any] = {}  # what the program asked for before the first use; it stands above the environment


def configure() -> None:
    """Called by the C++ half when the device is first used."""
    from torch_spyre.ops import eager  # the op table and the compiler: not before somebody computes

    settings = replace(Settings.read(), **_wanted)
    logs.followers.append(_follow_copies)
    logs.configure(settings)
    progress.switch(settings.progress)
    for note in retired.notes(os.environ):
        warnings.warn(note, OptionWarning, stacklevel=2)
    card.configure(settings)
    log.info("%d card(s) visible, %d threads", card.count(), card.worker_threads())
    # A rank beyond the visible cards is no error yet: the process may never touch this device.
    _torch.set_default_device(max(settings.local_rank, 0))
    eager.register()
    _torch.set_fallback_mode(settings.fallback)
    _torch.set_downcast_warning(settings.downcast_warning)
    _torch.set_trace_options(settings.profiler_steps, settings.profiler_predicted)
    if settings.save_failed is not None:
        from torch_spyre.device import saving  # nothing of it is needed otherwise

        saving.start(saving.SavedLaunches(settings.save_failed.absolute(), failed_only=True))
    atexit.register(_rest)


def _follow_copies() -> None:
    """The C++ half calls only while somebody wants to read of copies."""
    _torch.log_copies(_log_copy if _copies.isEnabledFor(logging.DEBUG) else None)


def _log_copy(source: torch.Tensor, target: torch.Tensor) -> None:
    to_card = target.device.type == DEVICE_NAME
    on_card = target if to_card else source
    layout = device_tensor_layout(on_card)
    way = f"host to {target.device}" if to_card else f"{source.device} to host"
    dtypes = " as ".join(dict.fromkeys((str(source.dtype), str(target.dtype))))
    count = source.numel() * source.element_size()
    _copies.debug("%s: %s %s, %d bytes, %s", way, list(source.shape), dtypes, count, layout or "bytes without a layout")


def _rest() -> None:
    """torch's autograd threads may still drop objects of Python when Python ends (csrc/torch/device/autograd_rest.cpp)."""
    if not is_in_bad_fork():
        with suppress(Exception):  # a lost card: the process ends anyway
            _torch.let_autograd_rest()


def enable_sanitizer(*, strict: bool = False) -> None:
    """Switch the sanitizer on for the cards of this process, as OPENSPYRE_SANITIZE=1 does: memory used wrongly is reported.

    Before the first tensor on the card; InvalidArgument afterwards. `strict` makes errors of what is only warned of.
    """
    wanted: dict[str, Any] = {"sanitize": True, "sanitize_strict": strict}
    if _torch.is_configured():
        card.configure(replace(cards.settings_in_force(), **wanted))
    _wanted.update(wanted)


def start_runtime() -> None:
    """Read the switches and start the cards; happens by itself on first use."""
    _torch.ensure_configured()
    for index in range(card.count()):
        card.get(index)


def free_runtime() -> None:
    """Wait for all work and give memory nobody uses back to the host. Tensors stay, and the cards go on when they are used."""
    if _torch.is_configured():
        _torch.synchronize_all()
        torch.accelerator.empty_cache()


def is_in_bad_fork() -> bool:
    """True in a forked child of a process that used a card: nothing on the device works there."""
    return card.in_bad_fork()


def get_downcast_warning() -> bool:
    """Whether moving int64 to the card, where it lives as int32, is warned of (once)."""
    _torch.ensure_configured()
    return bool(_torch.get_downcast_warning())


def set_downcast_warning(enabled: bool) -> None:
    """Switch that warning on or off; TORCH_SPYRE_DOWNCAST_WARN sets where it starts."""
    _torch.ensure_configured()
    _torch.set_downcast_warning(bool(enabled))


@contextmanager
def fault_injection(device: int = 0, why: str = "fault injected by a test") -> Iterator[None]:
    """Fault hook: inside, the card has fallen off the bus and refuses all work; afterwards it is reset."""
    _torch.ensure_configured()
    target = card.get(device)
    target.lose(why)
    try:
        yield
    finally:
        target.reset()
