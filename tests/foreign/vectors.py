"""Test vectors of other compilers: bundles with the memory of their arguments before and after. They lie outside the project."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
VECTORS = Path(os.environ.get("OPENSPYRE_FOREIGN_BUNDLES", ROOT.parent / "shared" / "foreign_bundles"))
ABSENT = f"no test vectors of other compilers at {VECTORS} (OPENSPYRE_FOREIGN_BUNDLES says where)"


@dataclass(frozen=True, slots=True)
class Argument:
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    format: str
    is_pool: bool


@dataclass(frozen=True, slots=True)
class VectorLaunch:
    bundle: Path
    arguments: list[Argument]


def graphs() -> list[Path]:
    """Graphs with data, by version of the front end and name."""
    found = sorted(VECTORS.glob("*/*/launch_0/arg0_before.npy"))
    return [path.parents[1] for path in found]


def launches(graph: Path) -> list[VectorLaunch]:
    return [_launch(directory) for directory in sorted(graph.glob("launch_*"))]


def _launch(directory: Path) -> VectorLaunch:
    told = json.loads((directory / "args.json").read_text())["args"]
    arguments = []
    for number, argument in enumerate(told):
        before, after = (
            np.load(directory / f"arg{number}_{when}.npy").view(np.uint8).ravel() for when in ("before", "after")
        )
        # In June's form the pool is not marked: it is the first argument, a flat one that no input lies in.
        flat = argument["host_size"] == [before.nbytes // 2] and number == 0
        pool = argument.get("parameter") == "%pool_base_addr" or ("parameter" not in argument and flat)
        arguments.append(Argument(before, after, argument["format"], pool))
    return VectorLaunch(directory / "bundle", arguments)
