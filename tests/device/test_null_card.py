"""The null card (OPENSPYRE_CARD=null): programs compile and are accepted, nothing is computed, no memory is taken."""

import os
import subprocess
import sys

import pytest

from openspyre.spec.environment import Settings


def run(*command, **environment):
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "OPENSPYRE_CARD": "null", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


COUNTS = """
import torch
from torch_spyre.ops import eager
x, w = torch.ones(130, 70).half().to("spyre"), torch.ones(70, 65).half().to("spyre")
for _ in range(3):
    y = torch.softmax(torch.relu(x @ w + 1), -1).sum(0)
print(y.shape, y.dtype, eager.counts())
print(y.cpu().count_nonzero().item(), x.cpu().count_nonzero().item(), torch.cat([x, x]).cpu().sum().item())
"""


def test_programs_are_compiled_and_counted_and_all_reads_are_zero():
    done = run("-c", COUNTS)
    assert done.returncode == 0, done.stderr
    assert "torch.Size([65]) torch.float16 {'launches': 15, 'compilations': 5, 'programs': 5}" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 0 0.0"
    assert "OPENSPYRE_CARD=null" in done.stderr


MEMORY = """
import copy, io, resource
import torch
many = [torch.empty(2**14, 2**15, dtype=torch.float16, device="spyre") for _ in range(40)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
y = many[0] + 1
z = [y.clone(), y.t().contiguous()]
state = io.BytesIO()
torch.save(torch.ones(2**24, dtype=torch.uint8), state)
state.seek(0)
loaded = torch.load(state, map_location="spyre")
copied = copy.deepcopy(loaded)
loaded.untyped_storage().resize_(2**25)
torch.spyre.synchronize()
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
print(torch.spyre.memory_allocated() >> 30, grown < 300, grown)
"""


@pytest.mark.parametrize("sanitize", ["0", "1"])
def test_tensors_larger_than_the_host_take_nothing_from_it(sanitize):
    done = run("-c", MEMORY, OPENSPYRE_SANITIZE=sanitize)
    assert done.returncode == 0, done.stderr
    allocated, flat, _ = done.stdout.split()
    assert int(allocated) >= 42 and flat == "True", done.stdout


LAUNCH = """
import torch
from openspyre.card import _card
from torch_spyre import _torch
from torch_spyre.ops import eager
x = torch.ones(3, 70, device="spyre")
plan = eager.compile_call("aten::neg", [x])
for tensors in ([x], [x, torch.empty(3, 70, device="spyre")]):
    try:
        _card.run_program(plan.program, 0, 0, [_torch.buffer_of(tensor)["address"] for tensor in tensors], [])
        print("accepted")
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_a_launch_is_checked_all_the_same():
    done = run("-c", LAUNCH)
    first, second = done.stdout.splitlines()[-2:]
    assert "was launched with 1 addresses, it has 2" in first
    assert second == "accepted"


def test_a_graph_compiles_for_it():
    done = run(
        "-c",
        "import torch; f = torch.compile(lambda x: torch.relu(x) * 2 + 1); "
        "print(f(torch.ones(4, 70).half().to('spyre')).cpu().sum().item())",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "0.0"


def test_it_is_a_switch():
    assert Settings.read({"OPENSPYRE_CARD": "NULL"}).card == "null"
    assert Settings().card == "software"
