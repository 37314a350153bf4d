"""A card that is lost at the moment a task is submitted: the call raises, and leaves no memory taken, no buffer locked, nothing half done."""

import gc
import threading

import pytest
import torch

from openspyre.card import cards
from openspyre.spec.errors import CardLost
from torch_spyre import _torch

HOST = torch.arange(-66.0, 66.0).view(4, 33) / 8


@pytest.fixture(autouse=True)
def _found_again():
    yield
    cards.get(0).reset()


def turned(x):
    return torch.spyre.SpyreTensorLayout(list(x.shape), list(x.stride()), x.dtype, [1, 0])


def probabilities(x):
    return x.t().softmax(1) + 1


CALLS = {
    "a call with a result": lambda x: x + 1,
    "a call with a pool": lambda x: x.t().softmax(1),
    "a call in place": lambda x: x.mul_(2),
    "a call that writes an argument": lambda x: torch.add(x, 1, out=torch.empty_like(x)),
    "a copy on the card": lambda x: x.t().contiguous(),
    "a copy to the card": lambda x: HOST.to("spyre"),
    "a copy to the card, behind our back": lambda x: HOST.to("spyre", non_blocking=True),
    "a fallback": lambda x: torch.special.i1(x),
    "another layout": lambda x: torch.spyre.set_spyre_tensor_layout(x, turned(x)),
    "a compiled graph": lambda x: torch.compile(probabilities)(x),
}


def allocated():
    gc.collect()  # tracebacks hold tensors
    torch.spyre.synchronize()
    return torch.spyre.memory_allocated()


def locked_buffers():
    """Whether somebody still holds the buffers: a change of layout waits until it has them alone."""
    y = HOST.to("spyre")
    change = threading.Thread(target=torch.spyre.set_spyre_tensor_layout, args=(y, turned(y)), daemon=True)
    change.start()
    change.join(timeout=20)
    return change.is_alive()


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
@pytest.mark.parametrize("first", [True, False], ids=["first call", "later call"])
@pytest.mark.parametrize("name", CALLS)
def test_a_submission_that_fails(name, first):
    torch.spyre.set_fallback_mode("silent")
    call, x = CALLS[name], HOST.to("spyre")
    call(HOST.to("spyre"))
    if first:  # it is compiled again, and kept
        _torch.clear_eager_cache()
        _torch.clear_graph_plans()
    before = allocated()
    cards.get(0).lose("it fell off the bus", after=0)
    with pytest.raises(CardLost, match="it fell off the bus"):
        call(x)
    assert cards.get(0).lost
    cards.get(0).reset()
    assert allocated() == before
    assert torch.equal(x.cpu(), HOST)
    assert not locked_buffers()
    result = call(x)
    if result is not None:
        expected = probabilities(HOST) if name == "a compiled graph" else call(HOST.clone()).cpu()
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-5, atol=1e-5)
