"""Streams and events of the card, on top of torch's generic ones."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from openspyre.card.cards import settings_in_force
from openspyre.spec.errors import InvalidDevice
from torch_spyre import _torch
from torch_spyre.constants import DEVICE_NAME

DeviceLike = torch.device | int | str | None


def device_index(device: DeviceLike) -> int:
    """The card a user means: None is the current one, "spyre" too."""
    if device is None:
        return int(_torch.current_device())
    if isinstance(device, int) and not isinstance(device, bool):
        index = device
    else:
        named = torch.device(device)
        if named.type != DEVICE_NAME:
            raise InvalidDevice(f"{device!r} is not a spyre device; say 'spyre', 'spyre:0' or an index")
        index = int(_torch.current_device()) if named.index is None else named.index
    count = _torch.device_count()
    if not 0 <= index < count:
        raise InvalidDevice(
            f"there is no device {DEVICE_NAME}:{index}: {count} card(s) visible, numbered from 0; OPENSPYRE_CARDS sets how many"
        )
    return index


class Stream(torch.Stream):
    """A queue of work on a card: first in, first out; different streams run concurrently.

    `priority` 0 takes a stream of the low-priority pool, anything else of the high-priority one (32 each, round robin).
    The object is a context manager that makes it the current stream.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **known: int) -> Stream:
        if known:  # an existing stream, by its id
            return super().__new__(cls, **known)
        return super().__new__(cls, torch.device(DEVICE_NAME, device_index(device)), priority=priority)

    def device(self) -> torch.device:  # type: ignore[override]
        """The device of this stream. A method, as the Spyre documents have it, where torch.cuda has a property."""
        return torch.device(DEVICE_NAME, self.device_index)

    @property
    def id(self) -> int:
        """The documents' name of `stream_id`."""
        return int(self.stream_id)

    @property
    def priority(self) -> int:
        """0 for the low-priority pool and the default stream, -1 for the high-priority pool."""
        return -1 if self.stream_id > 32 else 0

    def __repr__(self) -> str:
        return f"torch.spyre.Stream(device='{self.device()}', stream_id={self.stream_id}, priority={self.priority})"


class Event(torch.Event):
    """A point in a stream, to wait for or to measure from."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, device: DeviceLike = None) -> Event:
        return super().__new__(
            cls, torch.device(DEVICE_NAME, device_index(device)), enable_timing=enable_timing, blocking=blocking
        )

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds between two recorded and reached timing events."""
        return float(_torch.elapsed_time(self, end_event))


def _ours(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def stream(stream: torch.Stream | None) -> Any:
    """For `with torch.spyre.stream(s):`; the stream is itself the context manager. None changes nothing."""
    if stream is None:
        return current_stream()
    return stream


def current_stream(device: DeviceLike = None) -> Stream:
    """The stream that work on a card goes to now."""
    return _ours(torch.accelerator.current_stream(device_index(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    """Stream 0 of a card."""
    kind = torch.device(DEVICE_NAME, 0)
    return Stream(stream_id=0, device_index=device_index(device), device_type=_device_type_number(kind))


def _device_type_number(device: torch.device) -> int:
    return int(torch.accelerator.current_stream(device.index).device_type)


FIRST_HOST_COMPUTE_STREAM = 65  # of the documents' numbers: behind both pools
_host_compute_turns = itertools.count()


def host_compute_stream(device: DeviceLike = None) -> Stream:
    """The next of the streams that prepare launches on the host; TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS says how many there are."""
    turn = next(_host_compute_turns) % settings_in_force().host_compute_streams
    return host_compute_stream_by_id(FIRST_HOST_COMPUTE_STREAM + turn, device)


def host_compute_stream_by_id(stream_id: int, device: DeviceLike = None) -> Stream:
    """One of them by its number, from 65 up. Here they are streams of the low-priority pool: preparing needs no queue of its own."""
    count = settings_in_force().host_compute_streams
    if not FIRST_HOST_COMPUTE_STREAM <= stream_id < FIRST_HOST_COMPUTE_STREAM + count:
        last = FIRST_HOST_COMPUTE_STREAM + count - 1
        raise InvalidDevice(
            f"there is no host compute stream {stream_id}: they are {FIRST_HOST_COMPUTE_STREAM} to {last}; "
            "TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS sets how many"
        )
    index = device_index(device)
    number = stream_id - FIRST_HOST_COMPUTE_STREAM + 1
    return Stream(stream_id=number, device_index=index, device_type=default_stream(index).device_type)


def set_stream(stream: torch.Stream) -> None:
    """Make a stream current for this thread; `with` is usually better."""
    torch.accelerator.set_stream(stream)


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all work on all streams: of one card, or of every card if none is named."""
    if device is None:
        _torch.synchronize_all()
    else:
        torch.accelerator.synchronize(device_index(device))
