"""Traces written whole: Kineto writes a trace once, and says nothing to its caller where it cannot."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openspyre.tools.whole_file import whole_file

_KEPT = (
    "_spyre_whole_trace"  # of a profile whose trace could not be written where it should: (what was recorded, the file)
)
_IN_MEMORY = Path("/dev/shm")


def export(profile: Any, path: str | os.PathLike[str], write: Callable[[str], object]) -> None:
    """`write(place)` makes the trace, as JSON where the name does not end in .gz. OSError tells what to do, and the next export has
    the trace all the same.
    """
    target = Path(path)
    whole = _kept(profile) or _written(profile, write)
    try:
        _copy(whole, target)
    except OSError as problem:
        size = whole.stat().st_size / 2**20
        raise OSError(
            problem.errno,
            f"the trace ({size:.1f} MiB) cannot be written: {problem.strerror}; it is kept: export it to another place, or again "
            "once there is room",
            str(target),
        ) from None


def _kept(profile: Any) -> Path | None:
    """A cycle of a schedule has results of its own."""
    results, whole = getattr(profile, _KEPT, (None, Path()))
    return whole if results is profile.profiler.kineto_results and whole.is_file() else None


def _written(profile: Any, write: Callable[[str], object]) -> Path:
    """Where there is most room, for a second attempt would be refused; gone with the profile."""
    places = [place for place in (Path(tempfile.gettempdir()), _IN_MEMORY) if os.access(place, os.W_OK)]
    place = max(places, key=lambda place: shutil.disk_usage(place).free)
    directory = Path(tempfile.mkdtemp(prefix="spyre_trace_", dir=place))
    weakref.finalize(profile, shutil.rmtree, directory, ignore_errors=True)
    whole = directory / "trace.json"
    write(str(whole))
    if not whole.exists():  # Kineto writes beside it and renames at the end
        raise OSError(
            errno.ENOSPC,
            "the trace could not be made here, before it is copied to its place: profile fewer steps, or set TMPDIR",
            str(place),
        )
    setattr(profile, _KEPT, (profile.profiler.kineto_results, whole))
    return whole


def _copy(whole: Path, target: Path) -> None:
    with whole.open("rb") as source, whole_file(target) as plain:
        if target.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=plain, mode="wb", compresslevel=6) as packed:
                shutil.copyfileobj(source, packed, 1 << 20)
        else:
            shutil.copyfileobj(source, plain, 1 << 20)
