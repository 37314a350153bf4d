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
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as device:
            yield device
        return
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666), "wb") as file:
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
