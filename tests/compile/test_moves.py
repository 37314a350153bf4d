"""Tensors that move between host and card inside a graph: torch's numbers, and the strides that eager gives them."""

import subprocess
import sys

import pytest
import torch
from corpus_crossing import MOVED


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", MOVED)
def test_a_tensor_moves_inside_a_graph(name, dynamic):
    function, given = MOVED[name]
    x = given.draw(0)
    eager = function(x)
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic)(x)
    assert (compiled.device, compiled.dtype, compiled.shape) == (eager.device, eager.dtype, eager.shape)
    assert compiled.stride() == eager.stride() or not compiled.numel()
    assert torch.equal(compiled.cpu(), eager.cpu())


FIRST = {
    "moved": "torch.compile(lambda x: x[:, :3].to('spyre') * 2, fullgraph=True)(torch.ones(2, 5))",
    "made": "torch.compile(lambda: torch.full((2, 3), 2.0, device='spyre') * 1, fullgraph=True)()",
    "inside": "torch.compile(lambda x: (x.to('spyre') * 2).cpu()[:, :3] * 1, fullgraph=True)(torch.ones(2, 5))",
}


@pytest.mark.parametrize("name", FIRST)
def test_a_graph_may_be_the_first_that_names_the_device(name):
    program = f"import torch; assert {FIRST[name]}.cpu().tolist() == [[2.0] * 3] * 2"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
