"""`openspyre run` of a saved launch: the same program on the same bytes, compared with what came of it when it was saved."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from openspyre.artifact.launch_files import file_of
from openspyre.artifact.launch_spec import read_launch_spec
from openspyre.tools.launch_images import untiled
from openspyre.tools.saving.replaying import Replayed, replay

_NOT_HERE = ("arg", "layout", "image", "input", "set")


def run_saved_launch(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """0 if it came out as it was saved; 1 if it did not, and if it failed, as it did then or otherwise."""
    if len(options.directories) > 1:
        parser.error("a saved launch runs alone: give one directory")
    if given := [f"--{name}" for name in _NOT_HERE if getattr(options, name)]:
        parser.error(f"{', '.join(given)}: a saved launch brings its arguments itself")
    (directory,) = options.directories
    done = replay(directory)
    written = _write(options.out, done, directory) if options.out and done.error is None else {}
    if options.json:
        told = None if done.error is None else {"class": type(done.error).__name__, "message": str(done.error)}
        print(json.dumps({"error": told, "differences": done.differences, "written": written}, indent=2))
    else:
        _print(done, written)
    return 1 if done.error is not None or done.differences else 0


def _print(done: Replayed, written: dict[str, str]) -> None:
    at = f", launched at {done.launch.site}" if done.launch.site else ""
    print(f"{done.launch.name}: {len(done.program.steps)} steps{at}")
    if done.error is not None:
        print(f"openspyre: {done.error}", file=sys.stderr)
    if done.differences:
        print("\n".join(f"not as it was saved: {difference}" for difference in done.differences), file=sys.stderr)
    elif done.error is None:
        print("same bits as when it was saved")
    else:
        print("the same error as when it was saved")
    if written:
        print("\n".join(f"{name}: {path}" for name, path in written.items()))


def _write(folder: Path, done: Replayed, directory: Path) -> dict[str, str]:
    """Every argument's bytes as `segment_<i>.npy`; host values of results where a launch spec tells how they lie."""
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, str] = {}
    for number, argument in enumerate(done.launch.arguments):
        path = folder / f"segment_{number}.npy"
        np.save(path, np.frombuffer(done.after[argument.buffer], np.uint8))
        written[argument.name] = str(path)
    buffers = {argument.name: argument.buffer for argument in done.launch.arguments}
    for number, said in enumerate(read_launch_spec(directory) or ()):
        if said.role in ("output", "update") and said.layout is not None and said.name in buffers:
            path = folder / file_of(said.name, number)
            image = done.after[buffers[said.name]]
            np.save(path, untiled(image, said.size, said.layout, said.dtype, said.stride))
            written[said.name] = str(path)
    return written
