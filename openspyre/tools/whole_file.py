"""Files that are written complete or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[IO[bytes]]:
    """Takes its place when it is whole; whatever goes wrong, what was there before stays. Links are followed, and a pipe or a device is
    written to, not replaced. `private`: for the user alone.
    """
    named = Path(path)
    if named.exists() and not named.is_file():  # asked by its name: /dev/stdout leads to a pipe that has no path
        with named.open("wb") as device:
            yield device
        return
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666), "wb") as file:
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
