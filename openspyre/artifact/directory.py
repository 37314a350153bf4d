"""A bundle as a directory: written at once or not at all, read without following links or trusting anything."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

from openspyre.artifact.fields import Problem
from openspyre.artifact.geometry import geometry
from openspyre.artifact.listing import file_name, first_symbols, listing
from openspyre.artifact.manifest import FILE as MANIFEST
from openspyre.artifact.manifest import manifest_json, manifest_of
from openspyre.artifact.mlir import print_listing
from openspyre.artifact.model import Bundle
from openspyre.artifact.sdsc import sdsc_json
from openspyre.spec.errors import InvalidArgument, SpyreError

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


def texts(bundle: Bundle) -> dict[str, str]:
    """Every file of a bundle by name."""
    shapes = [geometry(description) for description in bundle.descriptions]
    firsts = first_symbols(shapes)
    files = {
        file_name(index): json_text(sdsc_json(description, index, firsts[index]))
        for index, description in enumerate(bundle.descriptions)
    }
    files[EXECUTION_LIST] = print_listing(listing(bundle, shapes))
    files[MANIFEST] = json_text(manifest_json(manifest_of(bundle, files)))
    return files


def json_text(tree: object) -> str:
    return json.dumps(tree, indent=2, allow_nan=False) + "\n"


def write(bundle: Bundle, directory: Path) -> None:
    """Writes all files beside the place and moves them there in one step; InvalidArgument if something is there."""
    if directory.exists() or directory.is_symlink():
        raise InvalidArgument(f"{directory} exists already; give the bundle a directory of its own, or remove this one")
    directory.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        for name, text in texts(bundle).items():
            (building / name).write_text(text, encoding="utf-8")
        building.chmod(0o755)
        building.rename(directory)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


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
