"""What a user may do wrong under torch.compile: the error says what and where, and the next call works; what torch can do with
data-dependent control flow works on the card as well."""

from pathlib import Path

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
HOST = torch.arange(-66.0, 66.0).view(4, 33)
CLOSED_OVER = torch.ones(33)


def card():
    return HOST.to("spyre")


@pytest.fixture(autouse=True)
def _the_device_works_afterwards():
    yield
    torch.compiler.reset()
    assert torch.equal(torch.compile(lambda x: x * 2 + 1)(card()).cpu(), HOST * 2 + 1)


# --- numbers that the card does not hold


def test_an_integer_that_the_card_cannot_hold():
    with pytest.raises(RuntimeError, match=r"element \[0\] is 1099511627776, which int64 .* cannot hold"):
        torch.compile(lambda x: x + 1)(torch.tensor([2**40]).to("spyre"))


# --- shapes


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x + x[:, :32], r"broadcast a dimension of length 32"),
        (lambda x: torch.relu(x @ x), r"got \[4, 33\] X \[4, 33\]"),
        (lambda x: x.view(5, 7), r"shape '\[5, 7\]' is invalid for input of size 132"),
        (lambda x: torch.cat([x, x[:, :32]]), r"Expected 33 in dimension 1 but got 32"),
        (lambda x: x.index_select(2, torch.arange(2, device=x.device)), r"Dimension out of range"),
    ],
)
def test_shapes_that_do_not_fit(function, message):
    with pytest.raises(Exception, match=message) as error:
        torch.compile(function)(card())
    assert Path(__file__).name in str(error.value)


@pytest.mark.parametrize("look_up", [lambda x, i: x[i], lambda x, i: x.index_select(0, i) * 2])
def test_an_index_out_of_bounds(look_up):
    with pytest.raises(IndexError, match="index 9 is out of bounds for a dimension of size 4"):
        torch.compile(look_up)(card(), torch.tensor([0, 9]).to("spyre")).cpu()


# --- devices


@pytest.mark.parametrize(
    "function", [lambda x: x + CLOSED_OVER, lambda x: x @ CLOSED_OVER, lambda x: torch.where(x > 0, x, CLOSED_OVER)]
)
def test_a_tensor_of_the_cpu_in_the_middle(function):
    with pytest.raises(Exception, match="at least two devices, spyre:0 and cpu") as error:
        torch.compile(function)(card())
    assert Path(__file__).name in str(error.value)


def test_a_model_that_was_left_on_the_cpu():
    with pytest.raises(Exception, match="at least two devices, spyre:0 and cpu"):
        torch.compile(nn.Linear(33, 4))(card())


def test_what_may_come_from_the_cpu():
    moved = torch.compile(lambda x: x + CLOSED_OVER.to(x.device))(card())
    assert torch.equal(moved.cpu(), HOST + 1)
    number = torch.compile(lambda x, y: x * y)(card(), torch.tensor(3.0))
    assert torch.equal(number.cpu(), HOST * 3)


# --- gradients


def test_a_leaf_that_needs_a_gradient_is_not_written():
    leaf = card().requires_grad_()
    with pytest.raises(Exception, match="a leaf Variable that requires grad is being used in an in-place operation"):
        torch.compile(lambda x: x.add_(1))(leaf)
    assert torch.equal(leaf.detach().cpu(), HOST)


def test_a_value_that_backward_needs_is_not_written():
    leaf = card().requires_grad_()
    result = torch.compile(lambda x: x.exp())(leaf)
    result.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


# --- control flow that depends on data


def branch(x):
    return x + 1 if x.sum() > 0 else x - 1


def loop(x):
    while x.amax() > 4:
        x = x / 2
    return x


FLOWS = {
    "a branch": branch,
    "a loop": loop,
    "a number": lambda x: x * x.amax().item(),
    "a count": lambda x: x[: int((x[:, 0] > 0).sum())] + 1,
    "places": lambda x: x.nonzero() * 2,
    "a mask": lambda x: x[x > 0] * 2,
    "a mask written": lambda x: torch.where(x > 0, x, 0).masked_fill_(x > 3, 3),
    "rows by a mask": lambda x: x[x.sum(-1) > 0].sum(0),
    "places by condition": lambda x: torch.where(x > 0)[1] + 1,
    "distinct values": lambda x: x.sign().unique() * 2,
}


@pytest.mark.parametrize("name", FLOWS)
def test_control_flow_that_depends_on_data(name):
    torch.spyre.set_fallback_mode("silent")  # how much there is to find, the CPU finds out
    compiled = torch.compile(FLOWS[name])
    for x in (HOST, -HOST, HOST.abs(), HOST - 200):
        result, right = compiled(x.to("spyre")).cpu(), FLOWS[name](x)
        assert result.shape == right.shape and result.dtype is right.dtype
        torch.testing.assert_close(result, right)


def test_a_branch_in_a_whole_graph_is_refused_with_its_line():
    with pytest.raises(Exception, match="Data-dependent branching") as error:
        torch.compile(branch, fullgraph=True)(card())
    assert "return x + 1 if x.sum() > 0" in str(error.value) and "torch.cond" in str(error.value)


def test_a_package_of_aot_inductor_is_refused_with_the_way_out():
    exported = torch.export.export(torch.nn.Linear(8, 8).to("spyre"), (torch.ones(2, 8, device="spyre"),))
    with pytest.raises(RuntimeError, match=r"AOTInductor.*save_compiled_function"):
        torch._inductor.aoti_compile_and_package(exported)
