"""Regions that a model repeats (nested_compile_region): one launch for all of them, planned once, and results as without."""

import copy

import pytest
import torch
from torch import nn

from torch_spyre.inductor.launching.launch import counts
from torch_spyre.inductor.reporting.report import compile_report

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
WIDTH = 24


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH)

    @torch.compiler.nested_compile_region
    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Linear(WIDTH, WIDTH)

    @torch.compiler.nested_compile_region
    def forward(self, x):
        first, second = self.by(x).chunk(2, -1)
        return first.sigmoid() * x[..., : WIDTH // 2], second


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class TwoKinds(nn.Module):
    """Regions of two kinds, one of which has two results, both views of the same memory or not."""

    def __init__(self):
        super().__init__()
        self.layers, self.gates = nn.ModuleList((Layer(), Layer())), nn.ModuleList((Gate(), Gate()))

    def forward(self, x):
        for layer, gate in zip(self.layers, self.gates, strict=True):
            first, second = gate(layer(x))
            x = torch.cat((second, first), -1) + x.flip(0)
        return x


def placed(module):
    return copy.deepcopy(module).to("spyre")


def launches_of(run):
    before = counts()["launches"]
    run()
    return counts()["launches"] - before


@pytest.mark.parametrize("make", [lambda: Stack(1), lambda: Stack(5), TwoKinds], ids=["one", "five", "two kinds"])
def test_a_forward_pass_is_one_launch(make):
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(6, WIDTH)
    compiled, given = torch.compile(placed(module), fullgraph=True), x.to("spyre")
    with torch.no_grad():
        torch.testing.assert_close(compiled(given).cpu(), module(x), rtol=1e-5, atol=1e-5)
        assert launches_of(lambda: compiled(given)) == 1
    assert len(compile_report()[-1].bundles) == 1 and not compile_report()[-1].fallbacks


def test_regions_compute_the_bits_of_the_same_layers_without_regions():
    torch.manual_seed(1)
    module, x = placed(Stack(3).eval()), torch.randn(6, WIDTH).to("spyre")
    with torch.no_grad():
        by_regions = torch.compile(module)(x)
        torch.compiler.reset()
        original = Layer.forward
        try:
            Layer.forward = lambda self, x: x + self.down(nn.functional.silu(self.up(self.norm(x))))
            plain = torch.compile(module)(x)
        finally:
            Layer.forward = original
    assert torch.equal(by_regions.cpu(), plain.cpu())


def test_training_is_a_launch_forward_and_one_backward():
    torch.manual_seed(2)
    module, x = Stack(3), torch.randn(6, WIDTH)
    on_card, given = placed(module), x.to("spyre").requires_grad_()
    compiled = torch.compile(on_card, fullgraph=True)
    expected = x.clone().requires_grad_()
    module(expected).square().mean().backward()
    compiled(given).square().mean().backward()
    torch.testing.assert_close(given.grad.cpu(), expected.grad, rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(on_card.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-6)
    out = []
    assert launches_of(lambda: out.append(compiled(given))) == 1
    gradient = torch.ones_like(out[0])
    assert launches_of(lambda: out[0].backward(gradient)) == 1


def test_a_region_with_an_operator_that_only_the_cpu_has():
    class Odd(nn.Module):
        @torch.compiler.nested_compile_region
        def forward(self, x):
            return torch.special.i0(x.sin()) + x

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList((Odd(), Odd()))

        def forward(self, x):
            for part in self.parts:
                x = part(x) * 2
            return x

    torch.spyre.set_fallback_mode("silent")
    x = torch.randn(6, WIDTH)
    compiled = torch.compile(Twice(), fullgraph=True)
    torch.testing.assert_close(compiled(x.to("spyre")).cpu(), Twice()(x), rtol=1e-5, atol=1e-5)
    report = compile_report()[-1]
    assert [left.operator for left in report.fallbacks] == ["aten.i0.default"] * 2
    assert len(report.bundles) == 3  # before, between and behind


def test_a_region_in_a_region():
    inner = torch.compiler.nested_compile_region(lambda x: x.exp() * 0.5)
    outer = torch.compiler.nested_compile_region(lambda x: inner(x) + inner(x - 1))
    x = torch.randn(6, WIDTH)
    compiled = torch.compile(lambda x: outer(x) + outer(x * 0.5), fullgraph=True)
    given = x.to("spyre")
    expected = (x.exp() + (x - 1).exp() + (x / 2).exp() + (x / 2 - 1).exp()) * 0.5
    torch.testing.assert_close(compiled(given).cpu(), expected, rtol=1e-5, atol=1e-5)
    assert launches_of(lambda: compiled(given)) == 1


def test_a_region_of_sizes_that_change():
    scaled = torch.compiler.nested_compile_region(lambda x: x.softmax(-1) * x.shape[0])
    compiled = torch.compile(lambda x: scaled(scaled(x)), dynamic=True, fullgraph=True)
    for rows in (4, 7, 9):
        x = torch.randn(rows, WIDTH)
        expected = ((x.softmax(-1) * rows).softmax(-1)) * rows
        torch.testing.assert_close(compiled(x.to("spyre")).cpu(), expected, rtol=1e-5, atol=1e-5)


def test_a_region_with_a_constant_tensor():
    table = torch.arange(WIDTH, dtype=torch.float32)
    shifted = torch.compiler.nested_compile_region(lambda x: x + torch.tensor([1.0, 2.0, 3.0], device=x.device).sum())
    x = torch.randn(6, WIDTH)
    compiled = torch.compile(lambda x, t: shifted(x) + shifted(x * t), fullgraph=True)
    expected = x + 6 + x * table + 6
    torch.testing.assert_close(compiled(x.to("spyre"), table.to("spyre")).cpu(), expected, rtol=1e-5, atol=1e-5)


def test_a_region_with_sizes_that_depend_on_data_stays_a_function():
    torch.spyre.set_fallback_mode("silent")  # nonzero is the CPU's
    count = torch.compiler.nested_compile_region(lambda x: x * torch.nonzero(x > 0).shape[0])
    x, y = torch.randn(6, WIDTH), torch.randn(6, WIDTH)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(lambda x, y: (count(x) - count(y)) * 2)
        result = compiled(x.to("spyre"), y.to("spyre")).cpu()
    expected = (x * (x > 0).sum() - y * (y > 0).sum()) * 2
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


def test_regions_on_the_cpu_are_left_alone():
    doubled = torch.compiler.nested_compile_region(lambda x: x * 2)
    x = torch.randn(6, WIDTH)
    torch.ones(1, device="spyre")
    before = len(compile_report())
    torch.testing.assert_close(torch.compile(lambda x: doubled(doubled(x)), backend="inductor")(x), x * 4)
    assert len(compile_report()) == before
