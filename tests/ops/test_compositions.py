"""Operators that others make up, and writes through a mask: native, and what torch's CPU says."""

import pytest
import torch

from torch_spyre.ops import composed, eager

INFINITY = float("inf")
SPECIAL = torch.tensor([0.0, INFINITY, float("nan"), -INFINITY, 1.0, -2.5])


def _outs(x):
    return x.new_empty(0), torch.empty(0, dtype=torch.int64, device=x.device)


CALLS = {
    "topk out=": lambda x: torch.topk(x, 3, out=_outs(x)),
    "topk out= along a dim": lambda x: torch.topk(x, 2, 0, False, out=_outs(x)),
    "sort out=": lambda x: torch.sort(x, 1, True, out=_outs(x)),
    "max out=": lambda x: torch.max(x, 1, out=_outs(x)),
    "min out= of the right size": lambda x: torch.min(x, 0, out=(x[0].clone(), torch.zeros_like(x[0]).long())),
    "aminmax": lambda x: x.aminmax(),
    "aminmax along a dim": lambda x: x.aminmax(dim=1, keepdim=True),
    "aminmax out=": lambda x: torch.aminmax(x, dim=0, out=(x.new_empty(0), x.new_empty(0))),
    "nan_to_num": lambda x: torch.nan_to_num(SPECIAL.to(x.device), 3.0, 7.0, -7.0),
    "nan_to_num by default": lambda x: torch.nan_to_num(SPECIAL.to(x.device)),
    "nan_to_num in place": lambda x: SPECIAL.to(x.device, copy=True).nan_to_num_(0.5),
    "round to decimals": lambda x: torch.round(x * 100, decimals=2),
    "round to hundreds": lambda x: torch.round(x * 1e4, decimals=-2),
    "round in place": lambda x: (x * 9).round_(decimals=1),
    "round out=": lambda x: torch.round(x * 9, decimals=3, out=x.new_empty(0)),
    "nan_to_num of integers": lambda x: torch.nan_to_num((x * 9).int()),
    "logsigmoid": lambda x: torch.nn.functional.logsigmoid(x * 30),
    "addbmm": lambda x: torch.addbmm(x @ x.t(), x[None], x.t()[None], beta=0.5, alpha=2),
    "addbmm of several": lambda x: torch.addbmm(x[0, :4], x.view(3, 2, 70)[:, :, :35], x.view(3, 70, 2)[:, :35].repeat(1, 1, 2)),
    "addbmm in place": lambda x: (x @ x.t()).addbmm_(x[None], x.t()[None]),
    "addbmm out=": lambda x: torch.addbmm(x @ x.t(), x[None], x.t()[None], out=x.new_empty(0)),
    "hypot of what squares could not hold": lambda x: torch.hypot(x * 1e30, x.flip(0) * 1e30),
    "hypot of special values": lambda x: torch.hypot(SPECIAL.to(x.device)[:, None], SPECIAL.to(x.device)),
    "logaddexp2 of special values": lambda x: torch.logaddexp2(SPECIAL.to(x.device)[:, None], SPECIAL.to(x.device)),
    "index_add with a factor": lambda x: x.index_add(0, torch.tensor([4, 0]).to(x.device), x[:2], alpha=2.5),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_composition_is_what_torch_computes(name):
    host = torch.rand(6, 70, generator=torch.Generator().manual_seed(5)) - 0.5
    found, expected = CALLS[name](host.to("spyre")), CALLS[name](host)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for one, other in pairs:
        assert one.device.type == "spyre" and one.dtype == other.dtype
        torch.testing.assert_close(one.cpu(), other, rtol=2**-20, atol=2**-20, equal_nan=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.arange(5), torch.arange(5)),
        (torch.arange(5), torch.arange(5).flip(0)),
        (torch.ones(2, 1), torch.ones(1, 2)),
        (torch.full((1,), float("nan")), torch.full((1,), float("nan"))),
        (torch.empty(0), torch.empty(0)),
        (torch.ones(70, dtype=torch.bool), torch.ones(70, dtype=torch.bool)),
    ],
)
def test_equal_is_found_on_the_card(first, second):
    torch.spyre.set_fallback_mode("error")
    assert torch.equal(first.to("spyre"), second.to("spyre")) == torch.equal(first, second)


def test_the_gradient_of_an_index_stays_on_the_card():
    host = torch.rand(6, 70, generator=torch.Generator().manual_seed(5))
    order = torch.tensor([5, 0, 0, 3])
    torch.spyre.set_fallback_mode("error")
    gradients = []
    for device in ("cpu", "spyre"):
        x = host.to(device, copy=True).requires_grad_()
        (x[order.to(device)] * host[:4].to(device)).sum().backward()
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(*gradients)


SIXTEEN_BITS = {
    "round": lambda x: torch.round(x, decimals=2),
    "round large numbers": lambda x: torch.round(x * 1e3, decimals=3),
}


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SIXTEEN_BITS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_sixteen_bits_round_once(name, dtype, compiled):
    """torch's decomposition multiplies by 0.01 in the tensor's format: 1.0 became 0.999."""
    held = torch.tensor([1.0, -0.5, 2.0, 0.375, 60.0, 7.0]).to(dtype)
    function = torch.compile(SIXTEEN_BITS[name]) if compiled else SIXTEEN_BITS[name]
    right = SIXTEEN_BITS[name](held.to("spyre").float().cpu()).to("spyre").to(dtype)
    assert torch.equal(function(held.to("spyre")).cpu(), right.cpu())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_nan_to_num_leaves_numbers_alone_for_card_and_host(dtype, compiled):
    """float16's largest number is infinite for the host when it comes back, bfloat16's on the card already."""
    function = torch.compile(torch.nan_to_num) if compiled else torch.nan_to_num
    found = function(SPECIAL.to(dtype).to("spyre"))
    assert found.isfinite().all() and found.cpu().isfinite().all()
    assert torch.equal(found.cpu().sign(), torch.tensor([0, 1, 0, -1, 1, -1]).to(dtype))
    assert torch.equal(found.cpu().to("spyre").cpu(), found.cpu())


def test_the_gradient_of_logsigmoid():
    host = torch.linspace(-30, 30, 70)
    grads = []
    for device in ("cpu", "spyre"):
        x = host.clone().to(device).detach().requires_grad_()
        torch.nn.functional.logsigmoid(x).sum().backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(*reversed(grads), rtol=2**-20, atol=2**-20)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "function", [torch.nn.functional.logsigmoid, torch.nn.functional.glu], ids=["logsigmoid", "glu"]
)
def test_a_gradient_that_is_nearly_nothing_keeps_its_digits(function, compiled):
    """Relative to each element: 1 - sigmoid(x) would have lost them where sigmoid(x) is near 1."""
    host = torch.cat([torch.full((70,), 3.0), torch.linspace(-14, 14, 70)])
    x, exact = host.to("spyre").requires_grad_(), host.double().requires_grad_()
    (torch.compile(function) if compiled else function)(x).sum().backward()
    function(exact).sum().backward()
    torch.testing.assert_close(x.grad.cpu().double(), exact.grad, rtol=2**-19, atol=0)


# --- x[mask] = number ------------------------------------------------------------------------------------------------


def _chosen(x, mask):
    x[mask] = 3.5
    return x


def _by_rows(x, mask):
    x[mask[:, 0]] = -1
    return x


def _by_columns(x, mask):
    x[:, mask[0]] = 2
    return x


def _turned(x, mask):
    x.t()[mask.t()] = 7
    return x


def _from_the_card(x, mask):
    x[mask] = torch.ones(1, dtype=x.dtype, device=x.device)
    return x


def _none(x, mask):
    x[mask & ~mask] = 9
    return x


WRITES = (_chosen, _by_rows, _by_columns, _turned, _from_the_card, _none)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_through_a_mask_stays_on_the_card(write, dtype):
    host = (torch.arange(6 * 70).reshape(6, 70) % 23 - 11).to(dtype)
    mask = torch.arange(6 * 70).reshape(6, 70) % 3 == 1
    assert torch.equal(write(host.to("spyre"), mask.to("spyre")).cpu(), write(host.clone(), mask))


def test_other_numbers_compile_nothing():
    x, mask = torch.zeros(6, 70).to("spyre"), (torch.arange(70) % 2 == 0).to("spyre")
    x[:, mask] = 1
    before = eager.counts()["compilations"]
    for number in (2, 3.5, -INFINITY):
        x[:, mask] = number
    assert eager.counts()["compilations"] - before <= 1  # whole numbers and others differ in type
    assert x[0].cpu().tolist() == [-INFINITY, 0.0] * 35


def test_a_mask_of_another_shape_is_torchs_error():
    torch.spyre.set_fallback_mode("silent")
    x = torch.zeros(6, 70).to("spyre")
    with pytest.raises(IndexError, match="shape of the mask"):
        x[torch.ones(5, dtype=torch.bool).to("spyre")] = 1


def test_an_operator_is_composed_in_one_way():
    """Where we compose an operator ourselves, torch's composition is not taken beside it."""
    assert not composed._OWN.keys() & {*composed._OF_TORCH, *composed._OF_TORCH_IN_FORMAT}
