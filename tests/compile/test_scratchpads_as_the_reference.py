"""Which tensors lie in scratchpads, and how large the pool is, beside what the reference's front end has for the same functions.

`pytest -s` prints a table with the reasons of what differs.
"""

import importlib.util
import json

import pytest
import torch

import torch_spyre
from openspyre.artifact.bundle import read_bundle
from openspyre.artifact.superdsc import Component
from openspyre.compiler.passes.plan_scratchpads import PlanScratchpads
from tests.foreign.vectors import ABSENT, VECTORS
from tests.named import name_dims
from torch_spyre._inductor import config

AUGUST = VECTORS / "august"
pytestmark = pytest.mark.skipif(not (VECTORS / "graphs.py").exists(), reason=ABSENT)

INDEX = {"index_rows": 0, "embedding": 0, "index_put_rows": 1}


def functions():
    spec = importlib.util.spec_from_file_location("reference_graphs", VECTORS / "graphs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.GRAPHS


def ops_of(bundle):
    return [bundle.ops[execute.file] for execute in bundle.function.listed()]


def where(op):
    """Of each tensor its byte in the scratchpads, or None."""
    return [tensor.starts[0] if tensor.component is Component.SCRATCHPAD else None for tensor in op.tensors]


def theirs(name):
    launch = AUGUST / name / "launch_0"
    (first, *_) = json.loads((launch / "args.json").read_text())["args"]
    pool = first["bytes"] if first["parameter"] == "%pool_base_addr" else 0
    return ops_of(read_bundle(launch / "bundle")), pool


def ours(name, lowered, directory):
    function, shapes, *named = functions()[name]
    inputs = [
        torch.arange(shape[0]) if INDEX.get(name) == number else torch.ones(shape).half()
        for number, shape in enumerate(shapes)
    ]
    on_card = [tensor.to("spyre") for tensor in inputs]
    name_dims(on_card, *named)
    with config.patch(planner="documented"):
        (launch,) = torch_spyre.export_bundle(function, *on_card, directory=directory, with_inputs=False)
    return ops_of(read_bundle(launch)), lowered[-1]


def compared(name, lowered, directory):
    """Tensors that lie alike, all tensors, and a line for every difference."""
    wanted, pool = theirs(name)
    found, program = ours(name, lowered, directory)
    notes = [] if program.pool_bytes == pool else [f"pool {program.pool_bytes}, the reference has {pool}"]
    names = [[op.op for op in ops] for ops in (found, wanted)]
    if names[0] != names[1]:
        return 0, sum(len(op.tensors) for op in wanted), [*notes, f"ops {names[0]}, the reference has {names[1]}"]
    alike = total = 0
    for mine, other in zip(found, wanted, strict=True):
        same = [a == b for a, b in zip(where(mine), where(other), strict=False)]
        alike, total = alike + sum(same), total + len(other.tensors)
        if not all(same):
            notes.append(f"{mine.name}: {where(mine)}, the reference has {where(other)}")
    reasons = PlanScratchpads().plan(program).reasons
    return alike, total, notes + [f"{tensor}: {why}" for tensor, why in reasons.items()] * bool(notes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(functions()) if AUGUST.exists() else [])
def test_the_same_tensors_stay_at_the_same_bytes(name, lowered, tmp_path):
    alike, total, notes = compared(name, lowered, tmp_path)
    print(f"\n{name:20} {alike:3} of {total:3}")
    for note in notes:
        print("   ", note)
    assert not notes, "\n".join(notes)
