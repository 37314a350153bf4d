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

from openspyre.spec.errors import InvalidArgument
from openspyre.tools.whole_file import whole_file

_KEPT = "_spyre_whole_trace"  # of a profile: (what was recorded, the file it was written to)
_BEING_WRITTEN = "_spyre_trace_is_being_written"
_IN_MEMORY = Path("/dev/shm")


def export(profile: Any, path: str | os.PathLike[str], write: Callable[[str], object]) -> None:
    """`write(place)` makes the trace, as JSON where the name does not end in .gz. OSError tells what to do, and the next export has
    the trace all the same.
    """
    target = Path(path)
    if getattr(
        profile, _BEING_WRITTEN, False
    ):  # torch.profiler's export makes the trace by that of torch.autograd.profiler
        write(str(target))
        return
    _check_results(profile)
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


def _check_results(profile: Any) -> None:
    """torch crashes where there are none."""
    results = profile.kineto_results
    if results is None:
        raise InvalidArgument(
            "the profile has not ended: export its trace behind the `with` block, or in on_trace_ready"
        )
    if results.trace_start_ns() == 0:
        raise InvalidArgument(
            "this profile has no trace: another one was begun within it and took over, as torch has one at a time; "
            "export that one, or profile one after the other"
        )


def _kept(profile: Any) -> Path | None:
    """A cycle of a schedule has results of its own."""
    results, whole = getattr(profile, _KEPT, (None, Path()))
    return whole if results is profile.kineto_results and whole.is_file() else None


def _written(profile: Any, write: Callable[[str], object]) -> Path:
    """Where there is most room, for a second attempt would be refused; gone with the profile."""
    places = [place for place in (Path(tempfile.gettempdir()), _IN_MEMORY) if os.access(place, os.W_OK)]
    place = max(places, key=lambda place: shutil.disk_usage(place).free)
    directory = Path(tempfile.mkdtemp(prefix="spyre_trace_", dir=place))
    weakref.finalize(profile, shutil.rmtree, directory, ignore_errors=True)
    whole = directory / "trace.json"
    setattr(profile, _BEING_WRITTEN, True)
    try:
        write(str(whole))
    finally:
        delattr(profile, _BEING_WRITTEN)
    if not whole.exists():  # Kineto writes beside it and renames at the end
        raise OSError(
            errno.ENOSPC,
            "the trace could not be made here, before it is copied to its place: profile fewer steps, or set TMPDIR",
            str(place),
        )
    setattr(profile, _KEPT, (profile.kineto_results, whole))
    return whole


def _copy(whole: Path, target: Path) -> None:
    with whole.open("rb") as source, whole_file(target) as plain:
        if target.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=plain, mode="wb", compresslevel=6) as packed:
                shutil.copyfileobj(source, packed, 1 << 20)
        else:
            shutil.copyfileobj(source, plain, 1 << 20)
