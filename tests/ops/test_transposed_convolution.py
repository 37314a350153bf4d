"""Gradients of transposed convolutions, with all that stretches their result: stride, padding, output_padding, dilation, groups."""

import pytest
import torch
import torch.nn.functional as F

_GEOMETRIES = [  # output_padding, dilation, stride, padding
    (0, 1, 1, 0),
    (1, 1, 2, 1),
    (1, 2, 1, 0),
    (1, 2, 1, 1),
    (0, 2, 3, 1),
    (2, 3, 2, 0),
    (2, 1, 3, 2),
]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("geometry", _GEOMETRIES, ids=str)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_are_the_cpus(dims, geometry, groups):
    torch.manual_seed(0)
    torch.spyre.set_fallback_mode("silent")  # the forward pass is the CPU's
    output_padding, dilation, stride, padding = geometry
    x, weight = torch.randn(2, 4, *range(4, 4 + dims)), torch.randn(4, 3, *[3] * dims)
    bias = torch.randn(3 * groups)
    found = []
    for device in ("cpu", "spyre"):
        leaves = [t.clone().to(device).requires_grad_() for t in (x, weight, bias)]
        convolve = getattr(F, f"conv_transpose{dims}d")
        result = convolve(*leaves, stride, padding, output_padding, groups, dilation)
        (result * torch.linspace(-1, 1, result.numel(), device=device).view_as(result)).sum().backward()
        found.append([result.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
    for got, want in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
