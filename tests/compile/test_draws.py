"""Graphs that draw: the same numbers as eager mode from the same seed, and the generator stands where eager leaves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torch_spyre.inductor.launching import launch
from torch_spyre.ops import eager

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations

CARD = "spyre"
Function = Callable[[torch.Tensor], Any]


def offset() -> int:
    return torch.spyre.default_generators[0].get_offset()


def _in_place(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x).uniform_(-2, 3)
    return y + torch.empty_like(x).exponential_(2.0) * torch.empty_like(x).normal_(1, 0.5)


def _others(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.clone()
    return y.log_normal_(0, 0.5), torch.empty_like(x).cauchy_(), torch.empty_like(x).geometric_(0.25)


def _integers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    drawn = torch.randint(-3, 9, x.shape, device=x.device)
    return drawn, torch.randint_like(x, 5), torch.randint_like(x, -4, 70), torch.randint(9, (5,), device=x.device)


GRAPHS: dict[str, Function] = {
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.3) * 2,
    "two dropouts": lambda x: torch.nn.functional.dropout(torch.nn.functional.dropout(x, 0.3).exp(), 0.6),
    "feature dropout": lambda x: torch.nn.functional.feature_alpha_dropout(x.unsqueeze(-1), 0.3, training=True),
    "rand, randn": lambda x: torch.rand(5, 70, device=x.device) + torch.randn(70, device=x.device, dtype=x.dtype),
    "like": lambda x: torch.rand_like(x) * torch.randn_like(x),
    "integers": _integers,
    "in place": _in_place,
    "others": _others,
    "bernoulli": lambda x: (torch.bernoulli(torch.sigmoid(x)), torch.empty_like(x).bernoulli_(0.2)),
    "normal of tensors": lambda x: torch.normal(x, x.abs()) + torch.normal(x, 2.0) + torch.normal(0.5, x.abs()),
    "multinomial": lambda x: torch.multinomial(x.float().softmax(-1), 3),
    "multinomial again": lambda x: torch.multinomial(x.float().softmax(-1), 40, replacement=True),
    "randperm": lambda x: torch.randperm(100, device=x.device),
    "rrelu": lambda x: torch.nn.functional.rrelu(x, training=True),
    "after a reduction": lambda x: torch.nn.functional.dropout(x.softmax(-1), 0.5).sum(-1),
    "transposed": lambda x: (torch.nn.functional.dropout(x.t(), 0.5).contiguous(), torch.rand_like(x.t())),
}


def results(function: Function, x: torch.Tensor, seed: int = 77) -> tuple[list[torch.Tensor], int]:
    torch.spyre.manual_seed(seed)
    returned = function(x)
    return [t.cpu() for t in (returned if isinstance(returned, tuple) else (returned,))], offset()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_draws_what_eager_draws(name: str, dtype: torch.dtype) -> None:
    x = torch.linspace(-2, 2, 33 * 70).reshape(33, 70).to(dtype).to(CARD)
    expected, end = results(GRAPHS[name], x)
    torch.spyre.reset_fallback_stats()
    compiled = torch.compile(GRAPHS[name], fullgraph=True)
    for _ in range(2):
        found, stands = results(compiled, x)
        assert stands == end
        for one, other in zip(found, expected, strict=True):
            assert one.dtype is other.dtype and torch.equal(one, other)
    others, _ = results(compiled, x, seed=78)
    assert not all(torch.equal(one, other) for one, other in zip(others, expected, strict=True))
    assert torch.spyre.fallback_stats() == {}


def test_a_training_step_draws_what_eager_draws() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.2, batch_first=True).to(CARD)
    x = torch.randn(2, 17, 64, device=CARD)

    def step(model: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        layer.zero_grad()
        torch.spyre.manual_seed(5)
        model(x).square().mean().backward()
        return [p.grad.cpu() for p in layer.parameters()]

    for one, other in zip(step(torch.compile(layer)), step(layer), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_draws_left_out_of_a_bundle_keep_their_order() -> None:
    """poisson runs on the CPU, between draws of the card that do not depend on it."""

    def mixed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.rand_like(x), torch.poisson(x), torch.rand_like(x), torch.poisson(x), torch.randn_like(x)

    torch.spyre.set_fallback_mode("silent")
    x = torch.full((20, 30), 4.0, device=CARD)
    expected, end = results(mixed, x)
    found, stands = results(torch.compile(mixed), x)
    assert stands == end and all(map(torch.equal, found, expected))


def test_one_graph_draws_for_many_sizes() -> None:
    def draw(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    compiled = torch.compile(draw, dynamic=True)
    for n in (5, 64, 99):
        x = torch.ones(3, n, device=CARD, dtype=torch.float16)
        expected, end = results(draw, x)
        found, stands = results(compiled, x)
        assert stands == end and torch.equal(found[0], expected[0])


def test_a_draw_is_part_of_the_launch() -> None:
    x = torch.ones(40, 64, device=CARD, dtype=torch.float16)
    compiled = torch.compile(lambda t: torch.nn.functional.dropout(t * 2, 0.5) + torch.rand_like(t))
    compiled(x)
    before = launch.counts()["launches"], eager.counts()["launches"]
    compiled(x)
    assert (launch.counts()["launches"], eager.counts()["launches"]) == (before[0] + 1, before[1] + 1)


@pytest.mark.filterwarnings("ignore")  # Dynamo tells of its graph breaks
def test_a_compiled_function_may_save_and_restore_the_state() -> None:
    def again(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.testing._utils.freeze_rng_state():  # type: ignore[attr-defined]  # in torch's folder: not looked into
            first = x.clone().uniform_()
        return first, x.clone().uniform_()

    first, second = (t.cpu() for t in torch.compile(again)(torch.ones(64, device="spyre")))
    assert torch.equal(first, second) and len(set(first.tolist())) > 32
