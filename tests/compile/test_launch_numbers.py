"""Numbers of a launch: floats, integers and tensors without dims on the host choose no program and run no loop on the host."""

import pytest
import torch

from torch_spyre.inductor.launching import launch
from torch_spyre.inductor.reporting.report import compile_report

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
HOST = torch.arange(-66.0, 66.0).view(4, 33) / 8
FLOATS = (1.5, -2.25, 0.1, 3.7, 1e300)
WHOLE = (3, -4, 2, 1, 0)
HALF_SINGLE = (torch.float16, torch.float32)


def in_tensors(values, dtype=None):
    return [torch.tensor(value, dtype=dtype) for value in values]


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    launch.clear()


@pytest.fixture
def no_compiler(monkeypatch):
    """Inductor's loops for the host are compiled by whatever CXX names."""
    monkeypatch.setenv("CXX", "/no/compiler/here")


def bits_and_programs(function, x, numbers):
    """Calls the compiled function, compares with eager's bits; how many graphs, specialisations and launches that took."""
    compiled = torch.compile(function, fullgraph=True)
    earlier, before = compile_report(), launch.counts()
    for number in numbers:
        result, right = compiled(x, number), function(x, number)
        assert result.dtype is right.dtype
        torch.testing.assert_close(result.cpu(), right.cpu(), rtol=0, atol=0, equal_nan=True)
    reports = [report for report in compile_report() if not any(report is other for other in earlier)]
    after = launch.counts()
    assert not any(report.fallbacks for report in reports)
    return len(reports), *(after[name] - before[name] for name in ("specialisations", "launches"))


OPERANDS = {
    "a product": lambda x, s: x.relu() * s + 1,
    "a difference": lambda x, s: s - x * 2,
    "two places": lambda x, s: (x * s).sum() - x + s,
    "an expression": lambda x, s: (x * (s * 2 + 1)).exp() + s,
    "a comparison": lambda x, s: (x > s) & (x * s < 3),
}
CONSTANT_TO_DYNAMO = ("a difference", "a comparison")  # floats there are constants of its graphs, whatever the device


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32], ids=str)
@pytest.mark.parametrize("name", [name for name in OPERANDS if name not in CONSTANT_TO_DYNAMO])
def test_a_float(name, dtype, no_compiler):
    """Dynamo takes the first value for a constant, the second for a number."""
    graphs, specialisations, launches = bits_and_programs(OPERANDS[name], HOST.to(dtype).to("spyre"), FLOATS)
    assert (graphs, specialisations, launches) == (2, 2, len(FLOATS))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32], ids=str)
@pytest.mark.parametrize("name", OPERANDS)
def test_an_integer(name, dtype):
    values = [value for value in WHOLE if value not in (0, 1)]  # Dynamo has graphs of their own for these two
    graphs, specialisations, launches = bits_and_programs(OPERANDS[name], HOST.to(dtype).to("spyre"), values)
    assert (graphs, specialisations, launches) == (2, 2, len(values))


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        *((dtype, kind) for dtype in HALF_SINGLE for kind in (torch.float32, torch.float64, torch.int64)),
        *((torch.int32, kind) for kind in (torch.float32, torch.int64)),  # with float64 it would be float64
    ],
    ids=str,
)
@pytest.mark.parametrize("name", OPERANDS)
def test_a_tensor_without_dims_on_the_host(name, dtype, kind, no_compiler):
    numbers = in_tensors(FLOATS[:-1] if kind.is_floating_point else WHOLE, kind)
    assert bits_and_programs(OPERANDS[name], HOST.to(dtype).to("spyre"), numbers) == (1, 1, len(numbers))


ELSEWHERE = {
    "moved to the card": lambda x, s: x.relu() * s.to("spyre"),
    "filled in": lambda x, s: x.clone().fill_(s) + x,
    "chosen": lambda x, s: torch.where(x > 0, x, s),
    "masked in": lambda x, s: x.masked_fill(x > 0, s) * 2,
    "an exponent": lambda x, s: x.abs() ** s,
    "a bound": lambda x, s: x.clamp(max=s),
    "a weight": lambda x, s: torch.lerp(x, x + 1, s),
    "a part of a sum": lambda x, s: torch.addcmul(x, x, s),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_places_where_a_number_may_stand(name, no_compiler):
    assert bits_and_programs(ELSEWHERE[name], HOST.to("spyre"), in_tensors(FLOATS[:-1])) == (1, 1, 4)


@pytest.mark.parametrize(
    "function",
    [lambda x, s: x[:, :s] * s, lambda x, s: x.roll(s) * s, lambda x, s: torch.arange(s, s + 33, device="spyre") + x],
)
def test_an_integer_that_decides_sizes_and_places_chooses_a_program(function):
    values = (5, 4, 3)
    assert bits_and_programs(function, HOST.to("spyre"), values) == (2, 3, 3)


def test_a_number_that_the_graph_changes_is_read_before_and_after(no_compiler):
    def count(x, step):
        early = x * step
        step.add_(1)
        return early, x * step

    compiled, step, x = torch.compile(count, fullgraph=True), torch.tensor(1.0), HOST.to("spyre")
    for n in range(1, 4):
        early, late = compiled(x, step)
        assert torch.equal(early.cpu(), HOST * n) and torch.equal(late.cpu(), HOST * (n + 1))
        assert step.item() == n + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.full((3,), x.amax().item(), device=x.device) + 1,
        lambda x: x.clamp(max=x.amin().item() / 2),
    ],
)
def test_a_number_found_on_the_card(function, no_compiler):
    """`item()` waits for the card; what follows is a launch that brings the number."""
    before = launch.counts()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(function, fullgraph=True)
        for x in (HOST, HOST / 2, -HOST):
            assert torch.equal(compiled(x.to("spyre")).cpu(), function(x))
    after = launch.counts()
    assert after["specialisations"] - before["specialisations"] == 2
    assert after["launches"] - before["launches"] == 6


def test_an_integer_beyond_the_cards_range_is_refused():
    compiled = torch.compile(lambda x, n: x + n)
    x = torch.arange(4).to("spyre")
    assert compiled(x, torch.tensor(2)).cpu().tolist() == [2, 3, 4, 5]
    with pytest.raises(OverflowError, match="the number 1099511627776 does not fit the card's int32"):
        compiled(x, torch.tensor(2**40))
    assert compiled(x, torch.tensor(3)).cpu().tolist() == [3, 4, 5, 6]


def test_training_with_a_number_of_the_host():
    """The gradient of the number goes back to the host."""

    def gradients(device, wrap):
        x, s = HOST.to(device).requires_grad_(), torch.tensor(1.5, requires_grad=True)
        wrap(lambda x, s: (x * s).sin().sum())(x, s).backward()
        return x.grad.cpu(), s.grad

    card, right = gradients("spyre", torch.compile), gradients("cpu", lambda function: function)
    torch.testing.assert_close(card, right, rtol=1e-5, atol=1e-5)
    assert card[1].device.type == "cpu"
