"""A small graph through torch.compile: imported once, one launch, the CPU's result."""

import pytest
import torch

from torch_spyre.inductor.reporting.report import compile_report


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load
def test_relu_matmul_softmax_and_a_transpose_are_one_bundle():
    def block(x, w):
        return torch.softmax(torch.relu(x) @ w, -1).t() + 1

    x, w = torch.randn(33, 70), torch.randn(70, 50)
    compiled = torch.compile(block, dynamic=False)
    for _ in range(2):
        result = compiled(x.to("spyre"), w.to("spyre"))
    torch.testing.assert_close(result.cpu(), block(x, w), rtol=1e-5, atol=1e-6)
    report = compile_report()[-1]
    assert len(report.bundles) == 1 and not report.fallbacks
    turned = compiled(x.t().contiguous().to("spyre").t(), w.to("spyre"))
    torch.testing.assert_close(turned.cpu(), block(x, w), rtol=1e-5, atol=1e-6)
