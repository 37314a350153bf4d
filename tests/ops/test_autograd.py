"""Gradients of the operators stay on the card and follow torch's own in float64, within fp32 sums of some 70 terms."""

import pytest
import torch
import torch.nn.functional as F
from oracle import held

FUNCTIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky relu": lambda x: F.leaky_relu(x, 0.1),
    "gelu": F.gelu,
    "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softplus": F.softplus,
    "elu": F.elu,
    "hardswish": F.hardswish,
    "exp, log": lambda x: torch.log(torch.exp(x) + 1),
    "sqrt, rsqrt": lambda x: (x * x + 1).sqrt() + (x * x + 1).rsqrt(),
    "division": lambda x: x / (x.abs() + 1),
    "power": lambda x: x**2 + x**3,
    "clamp": lambda x: x.clamp(-1, 1),
    "where": lambda x: torch.where(x > 0, x * 2, x),
    "masked fill": lambda x: x.masked_fill(x > 1, 0.0),
    "maximum": lambda x: torch.maximum(x, -x * 0.5),
    "broadcast": lambda x: x * x[:1] + x[:, :1],
    "transposed": lambda x: x.t() * 2,
    "sum": lambda x: x.sum(1, keepdim=True) * x,
    "mean": lambda x: x - x.mean(0),
    "variance": lambda x: x.var(1) + x.std(0).sum(),
    "norm": lambda x: x / torch.linalg.vector_norm(x, dim=1, keepdim=True),
    "amax": lambda x: x.amax(1),
    "product": lambda x: x @ x.t(),
    "linear": lambda x: F.linear(x, x[:5], x[:5, 0]),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    host = torch.randn(9, 70, generator=torch.Generator().manual_seed(5))
    card = host.to("spyre").requires_grad_()
    exact = held(host).requires_grad_()
    FUNCTIONS[name](card).sum().backward()
    FUNCTIONS[name](exact).sum().backward()
    torch.testing.assert_close(card.grad.cpu().double(), exact.grad, rtol=2e-5, atol=2e-5)
