"""Options that change between two calls: each call runs the program of its own options, and none is compiled twice."""

import threading

import pytest
import torch

from openspyre.spec.errors import InvalidArgument
from torch_spyre._inductor import config
from torch_spyre.inductor.launching import launch

pytestmark = pytest.mark.filterwarnings("ignore")


def cores(program):
    return max(torch.Size(dim.split for dim in op.dims).numel() for op in program.ops)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_call_runs_what_its_own_options_ask_for(lowered, compiled):
    function = torch.compile(torch.exp) if compiled else torch.exp
    x = torch.rand(32, 640 + 64 * compiled).half().to("spyre")
    results = []
    for sencores in (32, 8, 2, 8, 32):
        with config.patch(sencores=sencores):
            results.append(function(x).cpu())
    assert [cores(program) for program in lowered] == [32, 8, 2]
    assert all(torch.equal(result, results[0]) for result in results)


def test_a_call_that_no_options_changed_looks_nothing_up_in_python(lowered):
    function = torch.compile(torch.exp)
    x = torch.rand(32, 832).half().to("spyre")
    function(x)
    before = launch.counts()
    with config.patch(sencores=16):
        pass
    for _ in range(3):
        function(x)
    after = launch.counts()
    assert after["launches"] - before["launches"] == 3 and after["specialisations"] == before["specialisations"]


def test_options_that_cannot_be_are_told_even_where_the_program_is_there_already():
    function = torch.compile(torch.exp)
    x = torch.rand(32, 896).half().to("spyre")
    function(x)
    with config.patch(sencores=33), pytest.raises(InvalidArgument, match="1 to 32"):
        function(x)
    function(x)


def test_options_are_a_threads_own(lowered):
    """As in all of torch's configs."""
    x = torch.rand(32, 960).half().to("spyre")
    with config.patch(sencores=4):
        thread = threading.Thread(target=lambda: torch.exp(x))
        thread.start()
        thread.join()
        torch.exp(x)
    assert [cores(program) for program in lowered] == [32, 4]
