"""No garbage collection while we compile: we make many objects and no cycles, and a collection walks over all that Dynamo keeps."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Also a decorator; inside itself, or where somebody has switched them off before, it changes nothing."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
