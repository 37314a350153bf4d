"""torch.cond on the card: both branches are bundles of their own, and the condition is computed by a third."""

import pytest
import torch

from torch_spyre.inductor.reporting.report import compile_report


def choose(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 1, (x,))


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load
def test_both_branches_of_a_condition():
    torch.compiler.reset()
    compiled = torch.compile(choose)
    x = torch.rand(4, 33)
    for sign in (1, -1):
        torch.testing.assert_close(compiled((x * sign).to("spyre")).cpu(), choose(x * sign), rtol=1e-6, atol=1e-6)
    assert not any(report.fallbacks for report in compile_report()[-3:])
