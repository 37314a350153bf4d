"""What torch.profiler shows of the card, beside launches and copies."""

from __future__ import annotations

from types import TracebackType

from torch_spyre import _torch


def is_available() -> bool:
    """Whether torch.profiler sees the card: it does, with the stock wheel of torch."""
    return True


class ProfilerOptions:
    """The options in force. As a context manager it brings back, at its end, those that were in force before."""

    def __init__(self, steps: bool, predicted: bool, before: tuple[bool, bool]) -> None:
        self.steps, self.predicted, self._before = steps, predicted, before

    def __enter__(self) -> ProfilerOptions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _torch.set_trace_options(*self._before)

    def __repr__(self) -> str:
        return f"ProfilerOptions(steps={self.steps}, predicted={self.predicted})"


def options() -> ProfilerOptions:
    """Those in force."""
    _torch.ensure_configured()
    now = _torch.trace_options()
    return ProfilerOptions(*now, before=now)


def configure(*, steps: bool | None = None, predicted: bool | None = None) -> ProfilerOptions:
    """`steps`: an event for every step of a launch, with op, shape, division, bytes, bound and Python line. `predicted`: what a
    real card would take, in a lane of its own. What is not given stays. `with configure(...)` holds for the block alone.
    """
    _torch.ensure_configured()
    before = _torch.trace_options()
    chosen = tuple(old if new is None else bool(new) for old, new in zip(before, (steps, predicted), strict=True))
    _torch.set_trace_options(*chosen)
    return ProfilerOptions(chosen[0], chosen[1], before)
