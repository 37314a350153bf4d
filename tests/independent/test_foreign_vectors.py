"""Bundles of the reference front end, run here, against the memory that another interpreter left after them."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from . import run
from .formats import FORMATS

ROOT = Path(__file__).parents[2]
PLACE = Path(os.environ.get("OPENSPYRE_FOREIGN_BUNDLES", ROOT / ".." / "shared" / "foreign_bundles"))
VECTORS = sorted(path.parent for path in PLACE.glob("*/*/launch_0"))

# What computes nothing that could be rounded otherwise, or added in another order.
EXACT = {"identity", "ReStickifyOpHBM", "shuffle", "add", "sub", "mul", "neg", "abs", "relufwd", "where3", "max", "min"}
EXACT |= {"maximum", "minimum", "equal", "notequal", "greaterthan", "greaterequal", "lesserthan", "lesserequal"}
EXACT |= {"dl16tofp32", "fp32todl16", "topkvalue", "topkindex", "floor", "clip"}


def test_there_are_vectors() -> None:
    if not VECTORS:
        pytest.skip(f"no test vectors in {PLACE.resolve()}; set OPENSPYRE_FOREIGN_BUNDLES to where they are")


@pytest.mark.parametrize("graph", VECTORS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_memory_afterwards(graph: Path) -> None:
    launches = sorted(graph.glob("launch_*"))
    before, after = ([_images(launch, when) for launch in launches] for when in ("before", "after"))
    if not all(before):
        pytest.skip("of model size: the vectors hold the bundle alone, for its division")
    if all((b == a).all() for b, a in zip(before[-1], after[-1], strict=True)):
        before[-1][-1][:] = 0xA5  # the result lay there already: the launch must write it again
    operations_run = {_operation(path) for launch in launches for path in launch.glob("bundle/sdsc_*.json")}
    results = run([launch / "bundle" for launch in launches], before)
    for launch, got, expected in zip(launches, results, after, strict=True):
        for i, argument in enumerate(json.loads((launch / "args.json").read_text())["args"]):
            differ = _exactly if operations_run <= EXACT else _nearly
            problem = differ(argument["format"], got[i], expected[i])
            assert problem is None, f"{launch.name} argument {i}: {problem}"


def _images(launch: Path, when: str) -> list[np.ndarray]:
    count = len(list(launch.glob(f"arg*_{when}.npy")))
    return [np.load(launch / f"arg{i}_{when}.npy").reshape(-1) for i in range(count)]


def _operation(path: Path) -> str:
    ((_, top),) = json.loads(path.read_text()).items()
    return top["dscs_"][0][next(iter(top["dscs_"][0]))]["computeOp_"][0]["opFuncName"]


def _exactly(layout: str, got: np.ndarray, expected: np.ndarray) -> str | None:
    wrong = int((got != expected).sum())
    return f"{wrong} of {got.size} bytes differ" if wrong else None


def _nearly(layout: str, got: np.ndarray, expected: np.ndarray) -> str | None:
    """At most one in a hundred off by a code: of its own, or, where a sum cancels, of the tensor's mean square."""
    if layout != "SEN169_FP16":
        return _exactly(layout, got, expected)
    codes = [image.view(np.uint16) for image in (got, expected)]
    values, wanted = (FORMATS[layout].decode(c).astype(np.float64) for c in codes)
    off = (codes[0] != codes[1]) & ~(np.isnan(values) & np.isnan(wanted))
    if off.mean() > 0.01:
        return f"{off.mean():.2%} of the elements differ"
    mean_square = np.mean(wanted**2, where=np.isfinite(wanted)) if off.any() else 0.0
    values, wanted = values[off], wanted[off]
    size = np.maximum(np.maximum(np.abs(wanted), np.abs(values)), np.sqrt(mean_square))
    far = ~(np.abs(values - wanted) <= size * 2.0**-9)
    return f"{values[far]} instead of {wanted[far]}" if far.any() else None
