"""The CPU fallback, as the user meets it: a warning once per operator, an error on request, and counts."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from openspyre.spec.errors import InvalidArgument, SpyreError
from torch_spyre import _torch

FallbackMode = Literal["warn", "error", "silent"]


class FallbackWarning(UserWarning):
    """An operator ran on the CPU because the card has no kernel for it."""


class FallbackError(SpyreError, NotImplementedError):
    """An operator has no kernel on the card, and TORCH_SPYRE_FALLBACK=error forbids the CPU's, or there is none."""


_met: ContextVar[str] = ContextVar("met", default="")


@contextmanager
def first_met(where: str) -> Iterator[None]:
    """Names what is moved meanwhile, for a warning about its dtype."""
    token = _met.set(f" ({where})")
    try:
        yield
    finally:
        _met.reset(token)


def announce(what: str, manner: str) -> None:
    """Called by the C++ half: the first time an operator falls back, every time in error mode, and once per foreign dtype."""
    if manner == "nowhere":
        raise FallbackError(
            f"{what} has no kernel on spyre, and none on the CPU that it could fall back to; give it one: "
            f'torch.library.register_kernel("{what}", "spyre", function), or "cpu", or a custom_op without device_types '
            "where torch's own operators do the work"
        )
    if manner == "error":
        raise FallbackError(
            f"{what} has no kernel on spyre and TORCH_SPYRE_FALLBACK=error forbids the CPU fallback; "
            "set it to warn or silent, or move the operands with .cpu()"
        )
    told = {
        "warn": f"{what} is falling back to cpu: its operands are copied to the host and its results back "
        "(torch.spyre.fallback_stats() counts it; TORCH_SPYRE_FALLBACK=error makes this an error, =silent hides it)",
        "dtype": f"the card has no format for {what}{_met.get()}: tensors of it are held as the host has them, without a layout, and "
        "everything computed with them runs on the CPU (x.to(torch.float32) converts; TORCH_SPYRE_FALLBACK=silent hides this)",
    }
    warnings.warn(told[manner], FallbackWarning, stacklevel=3)  # the user's line: two frames of ours lie between


def fallback_stats() -> dict[str, dict[str, int]]:
    """Per operator that ran on the CPU: calls, bytes_to_host and bytes_to_device, the busiest first."""
    counts: dict[str, dict[str, int]] = _torch.fallback_statistics()
    return dict(sorted(counts.items(), key=lambda item: -item[1]["calls"]))


def reset_fallback_stats() -> None:
    """Start counting anew; every operator will be announced again."""
    _torch.reset_fallback_statistics()


def set_fallback_mode(mode: FallbackMode) -> None:
    """What happens when an operator has no kernel on the card: "warn" (once per operator), "error" or "silent"."""
    if mode not in ("warn", "error", "silent"):
        raise InvalidArgument(f"fallback mode {mode!r} is not one of 'warn', 'error', 'silent'")
    _torch.ensure_configured()  # first, or the environment's choice would come later and win
    _torch.set_fallback_mode(mode)
