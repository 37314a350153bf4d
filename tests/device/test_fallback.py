"""The CPU fallback: semantics of every kind of operator, warnings, counts, training."""

import warnings

import pytest
import torch

from torch_spyre.ops.fallbacks import FallbackError, FallbackWarning

CASES = {
    "binary": lambda x: x + x.t() * 2,
    "scalar": lambda x: 3 - x,
    "reduction": lambda x: x.sum(0) / x.amax(1),
    "matmul": lambda x: x @ x,
    "two outputs": lambda x: x.topk(2),
    "sort": lambda x: x.sort(1, descending=True),
    "cat": lambda x: torch.cat([x, x[1:]], 0),
    "stack and where": lambda x: torch.where(torch.stack([x, -x]) > 0, 1.0, 0.0),
    "nonzero": lambda x: (x > 0).nonzero(),
    "index": lambda x: x[[0, 2, 1]] + x[x > 0].sum(),
    "index put": lambda x: x.clone().index_put_((torch.tensor([1]).to(x.device),), torch.ones(1, 4).to(x.device)),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (4,)),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(*[x.view(1, 1, 4, 4)] * 3, is_causal=True),
    "conv": lambda x: torch.nn.functional.conv2d(x.view(1, 1, 4, 4), torch.ones(2, 1, 3, 3).to(x.device), padding=1),
    "foreach": lambda x: torch._foreach_add([x, x], 1),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "cumsum": lambda x: x.cumsum(1),
    "embedding": lambda x: torch.nn.functional.embedding(torch.tensor([3, 0]).to(x.device), x),
    "unique": lambda x: torch.unique((x * 2).round()),
    "cpu scalar tensor": lambda x: x * torch.tensor(2.0),
}


def leaves(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("name", CASES)
def test_operators_give_the_cpu_result(name, no_leak):
    host = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
    for mine, theirs in zip(leaves(CASES[name](host.to("spyre"))), leaves(CASES[name](host)), strict=True):
        assert mine.is_spyre
        torch.testing.assert_close(mine.cpu(), theirs)


def test_infinities_and_nan_of_16_bit_tensors_reach_a_fallback():
    mask = torch.tensor([[0.0, float("-inf")], [float("-inf"), float("-inf")]], dtype=torch.float16)
    x = torch.ones(2, 2, dtype=torch.float16).to("spyre") + mask.to("spyre")
    assert x.logcumsumexp(1).cpu()[0].tolist() == [1.0, 1.0]
    nan = torch.tensor([[float("nan"), 1.0]], dtype=torch.float16).to("spyre")
    assert nan.logcumsumexp(1).cpu().isnan().all() and (nan * 0).logcumsumexp(0).cpu().isnan().tolist() == [
        [True, False]
    ]


def test_in_place_and_out_variants():
    host = torch.randn(5, 70)
    card = host.to("spyre")
    out = torch.empty(0, device="spyre")
    assert torch.add(card, 1, out=out) is out
    assert torch.equal(out.cpu(), host + 1)
    pointer = card.data_ptr()
    assert card.add_(2).relu_().data_ptr() == pointer
    assert torch.equal(card.cpu(), (host + 2).relu())
    card[2:4, 60:] += 5
    assert torch.equal(card.cpu()[2:4, 60:], (host + 2).relu()[2:4, 60:] + 5)


def test_one_warning_per_operator_and_counts():
    torch.spyre.set_fallback_mode("warn")
    x = torch.ones(10, 64).to("spyre")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            x.digamma()
        x.lgamma()
    names = [str(w.message).split()[0] for w in seen if w.category is FallbackWarning]
    assert names == ["aten::digamma.out", "aten::lgamma.out"] or names == ["aten::digamma", "aten::lgamma"]
    assert seen[0].filename == __file__
    row = torch.spyre.fallback_stats()[names[0]]
    assert row["calls"] == 3 and row["bytes_to_device"] == 3 * 10 * 64 * 4 and row["bytes_to_host"] >= 3 * 10 * 64 * 4


def test_error_mode_refuses():
    x = torch.ones(3).to("spyre")
    torch.spyre.set_fallback_mode("error")
    with pytest.raises(FallbackError, match=r"digamma.*TORCH_SPYRE_FALLBACK"):
        x.digamma()
    torch.spyre.set_fallback_mode("silent")
    assert x.digamma().shape == (3,)


@pytest.mark.parametrize("foreach", [False, True])
def test_training_follows_the_cpu(foreach):
    def train(device):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(20, 70), torch.nn.GELU(), torch.nn.LayerNorm(70), torch.nn.Linear(70, 3)
        )
        model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, foreach=foreach)
        x, y = torch.randn(16, 20, generator=torch.Generator().manual_seed(1)), torch.arange(16) % 3
        losses = []
        for _ in range(5):
            loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    mine, theirs = train("spyre"), train("cpu")
    assert mine[-1] < mine[0]
    assert mine == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("cell", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_layers_follow_the_cpu(cell):
    torch.manual_seed(0)
    layer = cell(6, 5, num_layers=2)
    x = torch.randn(7, 3, 6)
    expected = layer(x)[0]
    expected.sum().backward()
    gradients = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    layer.to("spyre")
    result = layer(x.to("spyre"))[0]
    result.sum().backward()
    torch.testing.assert_close(result.cpu(), expected)
    for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), gradient, rtol=1e-4, atol=1e-5)


def test_operands_on_the_host_are_refused_as_on_every_accelerator():
    x = torch.ones(3, 4).to("spyre")
    for action in (
        lambda: x + torch.ones(3, 4),
        lambda: x @ torch.ones(4, 2),
        lambda: torch.digamma(x, out=torch.empty(3, 4)),
    ):
        with pytest.raises(RuntimeError, match=r"same device|spyre"):
            action()
    assert (x * torch.tensor(2.0)).cpu().eq(2).all()
    assert x[torch.tensor([0, 2])].shape == (2, 4), "indices may come from the host"


def test_autocast_lowers_matmul_and_keeps_sums_wide():
    x = torch.randn(8, 8).to("spyre")
    with torch.autocast("spyre", dtype=torch.float16):
        assert (x @ x).dtype == torch.float16
        assert (x @ x).softmax(-1).dtype == torch.float32
        assert (x + x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32
    with torch.autocast("spyre", dtype=torch.bfloat16):
        assert torch.nn.Linear(8, 2).to("spyre")(x).dtype == torch.bfloat16
