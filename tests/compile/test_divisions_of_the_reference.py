"""Ops and their divisions beside those of the reference front end, for every function whose bundle we have; prints a table.

Copies into scratchpads and shuffles between them are ops as others; where their tensors lie is compared beside this.
"""

import importlib.util
import re

import pytest
import torch

from openspyre.artifact.bundle import read_bundle
from openspyre.compiler.emit import emit_bundle
from tests.foreign.vectors import ABSENT, VECTORS
from tests.named import name_dims
from torch_spyre._inductor import config
from torch_spyre.inductor.launching import launch

WHOLE_NUMBERS = {"embedding": [0], "index_rows": [0], "index_put_rows": [1]}

pytestmark = [
    pytest.mark.skipif(not (VECTORS / "graphs.py").exists(), reason=ABSENT),
    pytest.mark.filterwarnings("ignore"),
]


def names():
    return sorted(path.name for path in VECTORS.glob("august/*"))


def function_of(name):
    if size := re.fullmatch(r"mm_m(\d+)_k(\d+)_n(\d+)", name):
        m, k, n = map(int, size.groups())
        return torch.matmul, [(m, k), (k, n)]
    spec = importlib.util.spec_from_file_location("reference_graphs", VECTORS / "graphs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.GRAPHS[name]


def division(op):
    """What is compared: the op, its slices per dim, and which core has which."""
    return op.op, tuple((axis.label, axis.split) for axis in op.axes), op.slices


def theirs(name):
    bundles = [launch / "bundle" for launch in sorted((VECTORS / "august" / name).glob("launch_*"))]
    return [op for bundle in bundles for op in read_bundle(bundle).ops.values()]


def ours(name, lowered):
    function, shapes, *named = function_of(name)
    whole = WHOLE_NUMBERS.get(name, [])
    inputs = [torch.zeros(s).long() if i in whole else torch.ones(s).half() for i, s in enumerate(shapes)]
    launch.clear()  # another test may have compiled it
    on_card = [value.to("spyre") for value in inputs]
    name_dims(on_card, *named)
    with config.patch(planner="documented"):
        torch.compile(function)(*on_card)
    found = [op for program in lowered for op in emit_bundle(program).bundle.ops.values()]
    assert found, "nothing was compiled"
    return found


def matched(wanted, found):
    """Ops of one list that the other has too, in the same order: the longest such list."""
    length = [[0] * (len(found) + 1) for _ in range(len(wanted) + 1)]
    for i, one in enumerate(wanted):
        for j, other in enumerate(found):
            length[i + 1][j + 1] = length[i][j] + 1 if one == other else max(length[i][j + 1], length[i + 1][j])
    return length[-1][-1]


@pytest.mark.parametrize("name", names())
def test_the_same_ops_divided_alike(name, lowered, capsys):
    wanted, found = [division(op) for op in theirs(name)], ours(name, lowered)
    divisions = [division(op) for op in found]
    with capsys.disabled():
        print(f"\n{name:24} {matched(wanted, divisions):3} of {len(wanted):3}", end="")
    assert wanted == divisions
