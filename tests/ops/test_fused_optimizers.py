"""Optimizers with fused=True step on the card, as they do on the CPU."""

import pytest
import torch

WAYS = {
    "adamw": (torch.optim.AdamW, {"lr": 1e-2}),
    "adamw of the largest": (torch.optim.AdamW, {"lr": 1e-2, "amsgrad": True, "weight_decay": 0.1}),
    "adam with decay": (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    "adam upwards": (torch.optim.Adam, {"lr": 1e-2, "maximize": True}),
    "sgd": (torch.optim.SGD, {"lr": 1e-2}),
    "sgd with momentum": (torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "sgd with dampening": (torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9, "dampening": 0.5}),
}


def _trained(device, kind, settings, *, fused, lr_tensor=False, scaler=None):
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(size, generator=generator).to(device).requires_grad_() for size in ((5, 70), (33,))]
    settings = settings | ({"lr": torch.tensor(settings["lr"], device=device)} if lr_tensor else {})
    optimizer = kind(weights, fused=fused, **settings)
    for step in range(3):
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator).to(device)
        if scaler is not None:
            scaled = scaler(step, device)
            optimizer.grad_scale, optimizer.found_inf = scaled
        optimizer.step()
    return [tensor.detach().cpu() for weight in weights for tensor in (weight, weight.grad)]


@pytest.mark.parametrize("name", WAYS)
def test_a_fused_step_is_the_step_of_the_cpu(name):
    torch.spyre.set_fallback_mode("error")
    for found, expected in zip(
        _trained("spyre", *WAYS[name], fused=True), _trained("cpu", *WAYS[name], fused=False), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=2**-14, atol=2**-16)


def test_a_rate_that_is_a_tensor():
    torch.spyre.set_fallback_mode("error")
    for found, expected in zip(
        _trained("spyre", *WAYS["adamw"], fused=True, lr_tensor=True),
        _trained("cpu", *WAYS["adamw"], fused=False),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, rtol=2**-14, atol=2**-16)


def test_a_step_with_an_infinite_gradient_is_left_out():
    def scaled(step, device):
        return torch.full((), 4.0, device=device), torch.full((), float(step == 1), device=device)

    torch.spyre.set_fallback_mode("error")
    found = _trained("spyre", *WAYS["adamw"], fused=True, scaler=scaled)
    for one, other in zip(found, _trained("cpu", *WAYS["adamw"], fused=True, scaler=scaled), strict=True):
        torch.testing.assert_close(one, other, rtol=2**-14, atol=2**-16)
