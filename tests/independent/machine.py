"""Launches of bundles, one after another, on one card."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import mlir, sdsc
from .errors import BundleError, UnknownOperation
from .memory import CORES, SCRATCHPAD, Memory
from .operations import execute


def run(
    directories: list[Path], images: list[list[np.ndarray]], scratchpads: np.ndarray | None = None
) -> list[list[np.ndarray]]:
    """The bytes of every argument of every launch after it. Scratchpads, zero at first, live on between launches."""
    if scratchpads is None:
        scratchpads = np.zeros((CORES, SCRATCHPAD), dtype=np.uint8)
    return [_launch(Path(d), arguments, scratchpads) for d, arguments in zip(directories, images, strict=True)]


def _launch(directory: Path, arguments: list[np.ndarray], scratchpads: np.ndarray) -> list[np.ndarray]:
    program = mlir.read(directory / "bundle.mlir")
    if program.addresses and len(program.addresses) != len(arguments):
        raise BundleError(f"{program.path}: {len(program.addresses)} parameters, {len(arguments)} arguments")
    pool = program.addresses.index(mlir.POOL) if mlir.POOL in program.addresses else None
    memory = Memory(arguments, scratchpads, pool)
    documents = cache(sdsc.load)
    program.run(lambda file, symbols: _execute(directory / file, documents(directory / file), symbols, memory))
    return memory.images()


def _execute(path: Path, document: dict[str, Any], symbols: dict[int, int], memory: Memory) -> None:
    operation = sdsc.read(path, document, symbols)
    try:
        execute(operation, memory)
    except UnknownOperation:
        raise
    except (BundleError, LookupError, ValueError) as problem:
        raise BundleError(f"{path}: {operation.name}: {problem}") from problem
