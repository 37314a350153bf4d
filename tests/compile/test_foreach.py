"""Calls on lists of tensors inside graphs, and the optimizers that make them: one launch, and torch's results."""

import copy

import pytest
import torch
from torch import nn

from torch_spyre.inductor.launching.launch import counts
from torch_spyre.inductor.reporting.report import compile_report

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations

CALLS = {
    "add": lambda a, b: torch._foreach_add(a, b, alpha=0.5),
    "add a number": lambda a, b: torch._foreach_add(a, 1.5),
    "numbers": lambda a, b: torch._foreach_mul(a, [0.5, 3.0]),
    "sub": lambda a, b: torch._foreach_sub(a, b),
    "div": lambda a, b: torch._foreach_div(a, b),
    "sqrt": lambda a, b: torch._foreach_sqrt(a),
    "addcmul": lambda a, b: torch._foreach_addcmul(a, a, b, 0.25),
    "addcdiv": lambda a, b: torch._foreach_addcdiv(a, a, b, value=0.25),
    "lerp": lambda a, b: torch._foreach_lerp(a, b, 0.3),
    "power of a number": lambda a, b: torch._foreach_pow(2.0, a),
    "power by a number": lambda a, b: torch._foreach_pow(a, 3.0),
    "power by tensors": lambda a, b: torch._foreach_pow(a, b),
    "maximum": lambda a, b: torch._foreach_maximum(a, b),
    "at least": lambda a, b: torch._foreach_clamp_min(a, 0.8),
    "norm": lambda a, b: torch._foreach_norm(a),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_on_lists_is_torchs(call):
    torch.spyre.set_fallback_mode("silent")
    lists = [[torch.rand(4, 33) + 0.5, torch.rand(70) + 0.5] for _ in range(2)]
    on_card = [[tensor.to("spyre") for tensor in tensors] for tensors in lists]
    made = torch.compile(lambda a, b: call(a, b))(*on_card)
    for ours, theirs in zip(made, call(*lists), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-5, atol=1e-6)


def test_lists_go_into_the_bundle():
    a = [torch.rand(4, 33).to("spyre"), torch.rand(70).to("spyre")]
    torch.compile(lambda a: torch._foreach_sqrt(torch._foreach_add(torch._foreach_mul(a, a), 1.0)))(a)
    report = compile_report()[-1]
    assert not report.fallbacks and [bundle.calls for bundle in report.bundles] == [6]


OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, {}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01}, {"capturable": True}),
}


@pytest.mark.parametrize(("kind", "options", "on_the_card"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_step_of_an_optimizer_is_one_launch(kind, options, on_the_card):
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(33, 40), nn.Tanh(), nn.Linear(40, 9)), torch.randn(5, 33)
    on_card, given = copy.deepcopy(module).to("spyre"), x.to("spyre")
    theirs, ours = kind(module.parameters(), **options), kind(on_card.parameters(), **options, **on_the_card)
    step = torch.compile(ours.step)
    for _ in range(3):
        for model, tensor in ((module, x), (on_card, given)):
            model.zero_grad()
            model(tensor).square().mean().backward()
        theirs.step()
        before = counts()["launches"]
        step()
    assert counts()["launches"] - before == 1
    for a, b in zip(on_card.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4)
