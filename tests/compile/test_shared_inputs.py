"""Inputs that lie in one storage: beside each other, overlapping, in the same sticks, or the next time somewhere else."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations


def write_the_second(a, b):
    b.add_(1)
    return a * 2


def write_both(a, b):
    a.add_(b)
    b.mul_(2)
    return a - b


def exchange(a, b):
    kept = a.clone()
    a.copy_(b)
    b.copy_(kept)
    return a + b


def write_a_part(a, b):
    a[..., :2].fill_(7)
    return b * 1, a.flip(0)


def read_both(a, b):
    return a.flip(0) + b, a.t() @ b


FUNCTIONS = (write_the_second, write_both, exchange, write_a_part, read_both)
APART = {
    "rows": lambda m: (m[:3], m[3:]),
    "columns of one stick": lambda m: (m[:3, :8], m[:3, 8:]),
    "every second column": lambda m: (m[:3, ::2], m[:3, 1::2]),
    "a view of a view": lambda m: (m.view(-1)[:48].view(3, 16), m[4:].view(1, 32).expand(3, 32)[:, 16:].clone()),
    "two tensors": lambda m: (m[:3].clone(), m[3:].clone()),
    "rows the other way round": lambda m: (m[3:], m[:3]),
}
OVERLAPPING = {
    "the same tensor": lambda m: (m, m),
    "the same rows": lambda m: (m[1:4], m[1:4]),
    "columns that overlap": lambda m: (m[:, :10], m[:, 6:]),
    "turned": lambda m: (m[:, :6], m[:, :6].t()),
}


def results(function, inputs, base):
    returned = function(*inputs)
    return [value.cpu() for value in (returned if isinstance(returned, tuple) else (returned,))] + [base.cpu()]


def check(function, compiled, view):
    host = torch.arange(96.0).view(6, 16)
    card = host.to("spyre")
    mine = results(compiled, view(card), card)
    for number, (result, right) in enumerate(zip(mine, results(function, view(host), host), strict=True)):
        assert torch.equal(result, right), f"result {number}: {result} is not {right}"


# torch refuses operands that overlap partly, or leaves open in which order they are read and written.
_NO_MEANING = {(f, name) for f in (write_both, exchange) for name in ("columns that overlap", "turned")}
CASES = [(f, name) for f in FUNCTIONS for name in APART | OVERLAPPING if (f, name) not in _NO_MEANING]


@pytest.mark.parametrize(("function", "name"), CASES)
def test_inputs_in_one_storage(function, name):
    check(function, torch.compile(function, dynamic=False), (APART | OVERLAPPING)[name])


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_graph_compiled_for_one_storage_runs_on_others(function, dynamic):
    """torch compiles once for inputs that do not overlap, wherever they lie."""
    compiled = torch.compile(function, dynamic=dynamic)
    # With sizes as symbols Inductor loses one of them where columns take turns, on the CPU as well.
    names = [name for name in APART if not (dynamic and name == "every second column")]
    for name in (*names, *reversed(names)):
        check(function, compiled, APART[name])
