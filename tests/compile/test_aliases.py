"""Inputs that share memory, layouts of the caller's choice, and reading bits as another dtype."""

import os
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations


def compiled(function):
    return torch.compile(function, dynamic=False)


def test_inputs_that_are_the_same_tensor():
    x = torch.randn(4, 33)
    mine = x.to("spyre")
    result = compiled(lambda a, b: a * 2 + b)(mine, mine)
    torch.testing.assert_close(result.cpu(), x * 3)


def test_writing_one_of_two_views_of_a_tensor_is_seen_by_the_other():
    def function(a, b):
        a.add_(1)
        return b * 2

    for device in ("cpu", "spyre"):
        base = torch.arange(40.0).view(4, 10).to(device)
        wrapped = function if device == "cpu" else compiled(function)
        result = wrapped(base[1:], base[:3])
        if device == "cpu":
            right, left = result, base
    torch.testing.assert_close(result.cpu(), right)
    torch.testing.assert_close(base.cpu(), left)


def test_views_of_a_tensor_in_different_dtypes_of_the_graph():
    x = torch.randn(4, 32)
    result = compiled(lambda x: x.view(torch.int32) & 0x7FFFFFFF)(x.to("spyre"))
    assert torch.equal(result.cpu(), x.view(torch.int32) & 0x7FFFFFFF)


def test_a_graph_runs_on_layouts_it_was_not_compiled_for():
    x, w = torch.randn(33, 70), torch.randn(70, 40)
    function = compiled(lambda x, w: torch.relu(x @ w) + x.sum())
    right = torch.relu(x @ w) + x.sum()
    other = torch.spyre.SpyreTensorLayout([33, 70], [70, 1], torch.float32, [1, 0])
    for mine in (x.to("spyre"), x.to("spyre", device_layout=other), x.t().contiguous().to("spyre").t()):
        torch.testing.assert_close(function(mine, w.to("spyre")).cpu(), right, rtol=1e-4, atol=1e-4)


def test_offsets_may_differ_from_call_to_call():
    base = torch.randn(200)
    mine = base.to("spyre")
    function = compiled(lambda x: x.view(4, 8).softmax(-1) * 2)
    for start in (0, 32, 7, 64, 100):
        result = function(mine[start : start + 32])
        torch.testing.assert_close(result.cpu(), base[start : start + 32].view(4, 8).softmax(-1) * 2)


def test_a_result_that_is_an_input_is_that_input():
    x = torch.randn(4, 33).to("spyre")
    same, doubled = compiled(lambda x: (x, x * 2))(x)
    assert same is x
    assert torch.equal(doubled.cpu(), x.cpu() * 2)


def test_a_constant_that_is_returned_is_new_every_time():
    function = compiled(lambda x: (x + 1, torch.tensor([1.0, 2.0, 3.0], device=x.device)))
    x = torch.randn(3).to("spyre")
    first = function(x)[1]
    first.mul_(5)
    assert function(x)[1].cpu().tolist() == [1.0, 2.0, 3.0]


def test_a_constant_that_is_written_is_whole_every_time():
    def function(x):
        table = torch.tensor([1.0, 2.0, 3.0], device=x.device)
        table[0] = x.sum()
        return x * table

    x = torch.randn(3)
    mine = compiled(function)
    for _ in range(2):
        torch.testing.assert_close(mine(x.to("spyre")).cpu(), function(x))


def test_the_first_graph_of_a_process_is_like_the_others():
    """Whole operators and compositions must be known before anything is decomposed."""
    program = """
import torch
x = torch.randn(2, 4, 8, 8).half().to("spyre")
function = lambda x: torch.nn.functional.avg_pool2d(x, 2) + x.softmax(-1)[..., :4, :4]
print(torch.equal(torch.compile(function)(x).cpu(), function(x).cpu()))
from torch_spyre.inductor.reporting.report import compile_report
print(len(compile_report()[-1].bundles), compile_report()[-1].fallbacks)
"""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
        check=False,
    )
    assert ran.stdout.split("\n")[:2] == ["True", "1 []"], ran.stdout + ran.stderr


def fill_a_part(x):
    x[0, 0][:4].fill_(1)


def change_a_part_twice(x):
    x[0, 0, :3].fill_(3)
    x[0, 0, :3].mul_(-1).clamp_(-3, 3)


@pytest.mark.parametrize("write", [fill_a_part, change_a_part_twice])
def test_writing_part_of_a_stick_leaves_the_rest(write):
    x = torch.arange(8.0).view(1, 1, 8)
    mine = x.to("spyre")
    compiled(write)(mine)
    write(x)
    assert torch.equal(mine.cpu(), x)


def test_a_flipped_view_that_stands_still_along_a_dim():
    def function(x):
        wide = x.expand(2, 2, 1)
        return torch.cat([wide, wide.flip(1)], 1)

    x = torch.tensor([[3.0], [5.0]])
    assert torch.equal(compiled(function)(x.to("spyre")).cpu(), function(x))
