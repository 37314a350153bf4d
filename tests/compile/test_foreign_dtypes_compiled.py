"""Dtypes that the card has no format for, in compiled graphs: they stay outside the launches, and the rest goes on."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # Inductor warns of complex numbers


@pytest.fixture(autouse=True)
def _fallbacks_are_expected(_fresh_compiler):
    torch.spyre.set_fallback_mode("silent")


FUNCTIONS = {
    "a cast there and back": lambda x: ((x + 1).double() * 2).float() + x,
    "a sum in float64": lambda x: x * x.sum(dtype=torch.float64).float(),
    "a constant": lambda x: (x * torch.ones(6, dtype=torch.float64, device=x.device)).sum(0),
    "a complex number made and left": lambda x: torch.complex(x, x * 2).abs() + 1,
    "a complex product": lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(4, 3, 2)) * (1 + 2j)) * 2,
    "conjugated": lambda x: (torch.complex(x, x + 1).conj() * 3).imag + x,
    "a Fourier transform": lambda x: torch.fft.irfft(torch.fft.rfft(x)) - x,
    "views": lambda x: x.double().t()[1:, ::2].clone().float() * 2,
    "a result": lambda x: (x.double(), torch.complex(x, x), x + 1),
    "logspace": lambda x: torch.logspace(0, 1, 6, device=x.device, dtype=torch.float64).float() * x,
    "in place": lambda x: x.double().mul_(3).add_(x).to(x.dtype) + 1,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_graph_with_a_dtype_the_card_has_not(name):
    host = torch.randn(4, 6, generator=torch.Generator().manual_seed(7))
    got = torch.compile(FUNCTIONS[name])(host.to("spyre"))
    want = FUNCTIONS[name](host)
    for mine, right in zip(*([v] if isinstance(v, torch.Tensor) else v for v in (got, want)), strict=True):
        assert mine.device.type == "spyre"
        torch.testing.assert_close(mine.cpu(), right)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float64])
def test_an_input_of_a_dtype_the_card_has_not(dtype):
    host = torch.randn(3, 5, dtype=dtype)
    got = torch.compile(lambda x, y: (x * 2 + y).abs().float() + y)(host.to("spyre"), torch.ones(5).to("spyre"))
    torch.testing.assert_close(got.cpu(), (host * 2 + 1).abs().float() + 1)


@pytest.mark.parametrize("name", ["a cast there and back", "a complex number made and left", "a complex product"])
def test_gradients_through_a_dtype_the_card_has_not(name):
    host = torch.randn(4, 6)
    card = host.to("spyre").requires_grad_()
    host.requires_grad_()
    torch.compile(FUNCTIONS[name])(card).square().sum().backward()
    FUNCTIONS[name](host).square().sum().backward()
    torch.testing.assert_close(card.grad.cpu(), host.grad)
