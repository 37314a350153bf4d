"""Runs the sides of a comparison, here or in another interpreter, and leaves their records on disk."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from openspyre.spec.errors import InvalidArgument, SpyreError
from openspyre.tools.bisecting.by_ops import trace_ops
from openspyre.tools.bisecting.by_steps import trace_steps
from openspyre.tools.bisecting.records import Record, TraceWriter
from openspyre.tools.bisecting.sides import Launch


class Form(StrEnum):
    """What of a launch runs: the program that did, the same before fusion, or its bundle op by op."""

    FUSED = "fused"
    UNFUSED = "unfused"
    OPS = "ops"


def record(launches: Sequence[Launch], form: Form, directory: Path) -> None:
    """An error of the card ends a run; it is part of what the run left."""
    writer = TraceWriter(directory)
    try:
        for number, launch in enumerate(launches):
            for found in _trace(number, launch, form):
                writer.add(found)
    except SpyreError as error:
        writer.end(f"{type(error).__name__}: {error}")
        return
    except OSError as error:
        raise InvalidArgument(f"what the runs compute does not fit into {directory}: {error}; set TMPDIR") from None
    writer.end()


def _trace(number: int, launch: Launch, form: Form) -> Iterable[Record]:
    if form is Form.OPS:
        if launch.bundle is None:
            raise InvalidArgument(f"{launch.directory} has no bundle beside its program, so that its ops are not known")
        return trace_ops(number, launch, launch.bundle)
    found = launch.fused if form is Form.FUSED else launch.unfused
    if found is None:
        raise InvalidArgument(f"{launch.directory}: there is no {form} program of it")
    return trace_steps(number, launch, found)


def record_elsewhere(python: str, path: Path, images: Sequence[str], directory: Path) -> None:
    """The same by the openspyre of another interpreter."""
    given = [word for image in images for word in ("--image", image)]
    command = [python, "-m", "openspyre.tools.command", "bisect", str(path), *given, "--record", str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InvalidArgument(f"cannot run {python}: {error.strerror or error}") from None
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        hint = "; its openspyre may be older than `openspyre bisect`" if done.returncode == 2 else ""
        raise InvalidArgument(f"{python} does not run {path}: {why}{hint}")
