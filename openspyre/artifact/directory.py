"""Files of a bundle's directory, read without following links or trusting anything."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from openspyre.artifact.fields import Problem
from openspyre.spec.errors import SpyreError

EXECUTION_LIST = "bundle.mlir"
MAX_FILE_BYTES = 256 << 20


class InvalidBundle(SpyreError, ValueError):
    """A bundle with problems; `problems` has all of them."""

    def __init__(self, where: str, problems: list[Problem]) -> None:
        shown = "".join(f"\n  {problem}" for problem in problems[:20])
        more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
        super().__init__(f"{where} is not a valid bundle, {len(problems)} problem(s):{shown}{more}")
        self.where = where
        self.problems = problems

    def __reduce__(self) -> tuple[type[InvalidBundle], tuple[str, list[Problem]]]:
        return type(self), (self.where, self.problems)


def json_text(tree: object) -> str:
    return json.dumps(tree, indent=2, allow_nan=False) + "\n"


def read_text(directory: Path, name: str) -> tuple[str, None] | tuple[None, str]:
    """A file's text, or why there is none. Only regular files directly in the directory are opened."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        return None, "a name that leads elsewhere"
    handle = -1
    try:
        handle = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None, "something that is no regular file"
        if status.st_size > MAX_FILE_BYTES:
            return None, f"{status.st_size} bytes, more than {MAX_FILE_BYTES}"
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8"), None
    except OSError as error:
        return None, (error.strerror or "no file").lower()
    except UnicodeDecodeError as error:
        return None, f"bytes that are no UTF-8 text ({error.reason} at {error.start})"
    finally:
        if handle >= 0:
            os.close(handle)


def is_directory(path: Path) -> bool:
    """Whether there is a directory, itself and not through a link."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False
