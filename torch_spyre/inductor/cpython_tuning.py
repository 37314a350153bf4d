"""What CPython does behind a compiler's back, and how to keep it away: garbage collections, and frames that cross a block's end."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
_SLOTS = 5000  # of 8 bytes: more than 32 kB, so the frame gets a block of 64 kB and leaves the rest to what it calls


def with_room_for_frames(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Runs a function, and all it calls, in a block of its own.

    CPython keeps frames in blocks of 16 kB and frees a block with the first frame in it, so a loop that calls across the end of a
    block maps and unmaps memory at every call: microseconds become dozens, wherever the stack happens to end.
    """

    @wraps(function)
    def roomy(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
        return function(*args, **kwargs)

    assert isinstance(roomy, FunctionType)
    roomy.__code__ = roomy.__code__.replace(co_stacksize=_SLOTS)
    return roomy


@contextmanager
def without_collections() -> Iterator[None]:
    """No garbage collection while we compile: we make many objects and no cycles, and a collection walks over all that Dynamo keeps.

    Also a decorator; inside itself, or where somebody has switched them off before, it changes nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
