"""What has no elements asks for no order: a graph that reads nothing of a tensor, which is then written, still compiles."""

import pytest
import torch

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(60)]  # the compiler once waited for ever
HOST = torch.arange(-64.0, 64.0).view(128, 1, 1)


def an_empty_reader_before_a_write(x):
    large = x > 0
    nothing = torch.where(large, x, x.new_zeros((0, 3)))
    x[1::2] = 3
    return nothing, large


def an_empty_view_before_a_write(x):
    y = x + 1
    nothing = torch.cat([x[:0], y[:0]]) * 2
    x.mul_(2)
    return nothing, y


@pytest.mark.parametrize("function", [an_empty_reader_before_a_write, an_empty_view_before_a_write])
def test_what_is_empty_asks_for_no_order(function):
    torch.spyre.set_fallback_mode("silent")
    right, found = HOST.clone(), HOST.to("spyre")
    expected, results = function(right), torch.compile(function, fullgraph=True)(found)
    for result, other in zip((found, *results), (right, *expected), strict=True):
        assert torch.equal(result.cpu(), other)


def test_an_empty_draw_draws_nothing():
    def drawn(x):
        y = x + 1
        return torch.bernoulli(y[:0]), torch.rand_like(y)

    torch.spyre.set_fallback_mode("silent")
    x = HOST.to("spyre")
    torch.spyre.manual_seed(1)
    expected = drawn(x)
    torch.spyre.manual_seed(1)
    results = torch.compile(drawn, fullgraph=True)(x)
    assert results[0].shape == expected[0].shape == (0, 1, 1)
    assert torch.equal(results[1].cpu(), expected[1].cpu())
