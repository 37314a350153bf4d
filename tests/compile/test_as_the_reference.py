"""What we emit for functions that the reference front end compiled, field by field beside what it emitted.

Divisions and scratchpads are the planner's: numbers of slices, starts and components are left out, and so are its copies into scratchpads.
"""

import importlib.util

import pytest
import torch

import torch_spyre
from openspyre.artifact.bundle import read_bundle
from openspyre.artifact.superdsc import Component
from openspyre.compiler.emit import emit_bundle
from tests.foreign.vectors import ABSENT, VECTORS

ALIKE = ["pw_chain", "broadcast_row", "sum_first", "mm", "bmm", "cat_rows", "slice_cols", "where_cmp", "cast_up"]
FIRST_OP = ["sum_last", "max_last"]  # the reference leaves one value a stick to its caller, we lay them side by side

pytestmark = pytest.mark.skipif(not (VECTORS / "graphs.py").exists(), reason=ABSENT)


def fields(op):
    """All that is neither a division nor a place."""
    tensors = [(t.name, t.role, t.format, t.order, t.sticks, t.scales, t.gaps, t.indirection) for t in op.tensors]
    axes = [(axis.label, axis.size) for axis in op.axes]
    return op.op, op.unit, op.format, axes, op.inputs, op.outputs, op.constants, op.masks, tensors


def copies_in(op):
    """Whether an op only brings an argument into the scratchpads."""
    return op.op == "identity" and op.tensors[-1].component is Component.SCRATCHPAD


def theirs(name):
    """Ops of the reference, without those that only bring an argument into the scratchpads."""
    ops = read_bundle(VECTORS / "august" / name / "launch_0" / "bundle").ops.values()
    return [fields(op) for op in ops if not copies_in(op)]


def ours(name, lowered, directory):
    spec = importlib.util.spec_from_file_location("reference_graphs", VECTORS / "graphs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function, shapes = module.GRAPHS[name]
    inputs = [torch.ones(shape).half().to("spyre") for shape in shapes]
    torch_spyre.export_bundle(function, *inputs, directory=directory, with_inputs=False)  # whatever was compiled before
    program = lowered[-1]
    ops = emit_bundle(program).bundle.ops.values()
    return [fields(op) for op in ops if not copies_in(op)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ALIKE)
def test_the_same_fields(name, lowered, tmp_path):
    assert ours(name, lowered, tmp_path) == theirs(name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FIRST_OP)
def test_the_same_fields_of_the_first_op(name, lowered, tmp_path):
    assert ours(name, lowered, tmp_path)[0] == theirs(name)[0]
