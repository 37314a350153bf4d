"""The generator: a seed and an offset, 16 bytes, that torch's own machinery can save, move and give back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.distributed.tensor import _random as dtensor_random
from torch.utils.checkpoint import checkpoint

CARD = "spyre"


def offset() -> int:
    return torch.spyre.default_generators[0].get_offset()


def test_a_state_is_seed_and_offset() -> None:
    torch.spyre.manual_seed(2**40 + 7)
    torch.rand(10, device=CARD)
    state = torch.spyre.get_rng_state()
    assert (state.dtype, state.device.type, state.numel()) == (torch.uint8, "cpu", 16)
    assert state.view(torch.int64).tolist() == [2**40 + 7, 12]


@pytest.mark.parametrize("count, taken", [(0, 0), (1, 4), (4, 4), (5, 8), (1000, 1000), (1001, 1004)])
def test_a_draw_takes_its_elements_in_whole_blocks(count: int, taken: int) -> None:
    torch.spyre.manual_seed(0)
    torch.rand(count, device=CARD)
    assert offset() == taken


def test_a_state_given_back_gives_the_same_numbers() -> None:
    torch.spyre.manual_seed(3)
    torch.randn(77, device=CARD)
    state = torch.spyre.get_rng_state()
    first = torch.randn(100, device=CARD).cpu()
    assert not torch.equal(torch.randn(100, device=CARD).cpu(), first)
    torch.spyre.set_rng_state(state)
    assert torch.equal(torch.randn(100, device=CARD).cpu(), first)


def test_generators_seed_offset_clone_and_copy() -> None:
    generator = torch.Generator(device=CARD).manual_seed(5)
    assert (generator.initial_seed(), generator.get_offset()) == (5, 0)
    first = torch.rand(6, device=CARD, generator=generator).cpu()
    again = generator.clone_state()
    second = torch.rand(6, device=CARD, generator=generator).cpu()
    assert torch.equal(torch.rand(6, device=CARD, generator=again).cpu(), second)
    generator.set_offset(0)
    assert torch.equal(torch.rand(6, device=CARD, generator=generator).cpu(), first)
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_offset(3)
    assert generator.seed() == generator.initial_seed() and generator.get_offset() == 0
    other = torch.Generator(device=CARD)
    other.set_state(generator.get_state())
    assert other.initial_seed() == generator.initial_seed()


def test_a_generator_of_its_own_leaves_the_default_one_alone() -> None:
    torch.spyre.manual_seed(1)
    torch.rand(8, device=CARD, generator=torch.Generator(device=CARD).manual_seed(2))
    assert offset() == 0


@pytest.mark.parametrize("call", [
    lambda g: torch.rand(4, device=CARD, generator=g), lambda g: torch.empty(4, device=CARD).bernoulli_(generator=g),
    lambda g: torch.multinomial(torch.ones(4, device=CARD), 2, generator=g),
    lambda g: torch.randperm(4, device=CARD, generator=g), lambda g: torch.poisson(torch.ones(4, device=CARD), generator=g),
], ids=["rand", "bernoulli_", "multinomial", "randperm", "poisson"])  # fmt: skip
def test_a_generator_of_the_cpu_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RuntimeError, match="Expected a 'spyre' device type for generator but found 'cpu'"):
        call(torch.Generator())


def test_states_of_other_sizes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="16 bytes, seed and offset, but this one has 5056"):
        torch.spyre.set_rng_state(torch.Generator().get_state())


def test_a_fork_of_the_state_is_put_back() -> None:
    torch.spyre.manual_seed(9)
    with torch.random.fork_rng(devices=[0], device_type=CARD):
        inside = torch.rand(5, device=CARD).cpu()
        torch.spyre.manual_seed(1000)
    assert offset() == 0 and torch.equal(torch.rand(5, device=CARD).cpu(), inside)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_drops_the_same_elements_again(reentrant: bool) -> None:
    """A gradient is 0 or the scale where, and only where, the value was 0 or scaled."""
    x = torch.ones(64, 64, device=CARD, dtype=torch.float16, requires_grad=True)
    torch.spyre.manual_seed(4)
    y = checkpoint(lambda t: torch.nn.functional.dropout(t * 1, 0.3, training=True), x, use_reentrant=reentrant)
    torch.rand(1000, device=CARD)
    y.sum().backward()
    assert torch.equal(x.grad.cpu() != 0, y.detach().cpu() != 0)
    assert 0.6 < (y != 0).float().mean().item() < 0.8


def test_dtensor_reads_and_moves_the_state() -> None:
    """Its tracker computes with the two numbers: every shard draws at an offset of its own."""
    torch.spyre.manual_seed(11)
    torch.rand(16, device=CARD)
    state = dtensor_random._PhiloxState(torch.spyre.get_rng_state())
    assert (int(state.seed), int(state.offset)) == (11, 16)
    state.offset = state.offset + 64
    torch.spyre.set_rng_state(state.state)
    shard = torch.rand(64, device=CARD).cpu()
    torch.spyre.manual_seed(11)
    assert torch.equal(torch.rand(144, device=CARD).cpu()[80:], shard)


def test_a_deep_copied_model_keeps_its_generator_out_of_it() -> None:
    torch.spyre.manual_seed(0)
    copy.deepcopy(torch.nn.Linear(4, 4).to(CARD))
    assert offset() == 0


def test_what_runs_on_the_cpu_follows_seed_and_offset() -> None:
    """poisson has no row: the CPU's generator is made from the card's for the call, and the CPU's own is left alone."""
    rates = torch.full((100,), 30.0, device=CARD)
    torch.manual_seed(5)
    host = torch.get_rng_state()
    first, second = torch.poisson(rates).cpu(), torch.poisson(rates).cpu()
    assert torch.equal(torch.get_rng_state(), host) and not torch.equal(first, second)
    torch.spyre.default_generators[0].set_offset(4)
    assert torch.equal(torch.poisson(rates).cpu(), second)
