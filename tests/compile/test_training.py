"""Training through torch.compile: gradients are torch's, forward and backward are one launch each."""

import copy

import pytest
import torch
import torch.nn.functional as F
from judge import ROUNDING, Noise, Widened, tensors
from oracle import fetch
from torch import nn

from torch_spyre.inductor.reporting.report import compile_report

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    """A transformer's layer as today's models have it."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(16), nn.LayerNorm(16)
        self.attention = Attention()
        self.gate, self.up, self.down = nn.Linear(16, 40), nn.Linear(16, 40), nn.Linear(40, 16)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Language(nn.Module):
    """Embedding, a layer, tied head, cross entropy."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(20, 16), Layer()

    def forward(self, tokens):
        logits = F.linear(self.layer(self.embedding(tokens)), self.embedding.weight)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def mlp():
    return nn.Sequential(nn.Linear(16, 40), nn.GELU(), nn.Linear(40, 16), nn.Tanh())


def norms():
    return nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.RMSNorm(16), nn.Softmax(-1))


def batch_and_group_norms():
    return nn.Sequential(nn.BatchNorm1d(6), nn.ReLU(), nn.GroupNorm(2, 6), nn.Sigmoid())


def convolutions():
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.SiLU(), nn.Conv2d(4, 6, 3, groups=2, dilation=2))


HIDDEN, TOKENS = (2, 6, 16), "tokens"
MODELS = {
    "mlp": (mlp, HIDDEN),
    "norms": (norms, HIDDEN),
    "batch_and_group_norms": (batch_and_group_norms, (4, 6, 5)),
    "convolutions": (convolutions, (2, 3, 13, 15)),
    "attention": (Attention, HIDDEN),
    "layer": (Layer, HIDDEN),
    "embedding": (lambda: nn.Embedding(20, 16), TOKENS),
    "language_model": (Language, TOKENS),
}


def given(shape, device):
    generator = torch.Generator().manual_seed(1)
    if shape == TOKENS:
        return torch.randint(0, 20, (3, 7), generator=generator).to(device)
    return torch.randn(shape, generator=generator).to(device).requires_grad_()


def step(model, x):
    """Loss, gradients of everything, and the module's buffers."""
    result = model(x)
    loss = result if result.dim() == 0 else (result * result.detach().cos()).mean()
    loss.backward()
    gradients = [p.grad for p in model.parameters()] + ([x.grad] if x.requires_grad else [])
    return tensors(loss.detach(), gradients, list(model.buffers()))


@pytest.mark.parametrize("name", MODELS)
def test_gradients(name):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make()
    eager = step(copy.deepcopy(model).to("spyre"), given(shape, "spyre"))
    earlier = compile_report()
    moved = copy.deepcopy(model).to("spyre")
    compiled = torch.compile(moved, dynamic=False, fullgraph=True)
    mine = step(compiled, given(shape, "spyre"))
    reports = [report for report in compile_report() if not any(report is other for other in earlier)]
    assert [len(report.bundles) for report in reports] == [1, 1], "one launch forward, one back"
    assert not [left for report in reports for left in report.fallbacks]

    def wide(noise):
        with Widened(), noise:
            x = given(shape, "cpu")
            return step(copy.deepcopy(model).double(), x.detach().double().requires_grad_() if x.requires_grad else x)

    exact = wide(Noise(0.0, 0))
    runs = [wide(Noise(ROUNDING[False], seed)) for seed in range(3)]
    for number, (got, right) in enumerate(zip(mine, exact, strict=True)):
        moved_by = max(float((run[number] - right).abs().max()) for run in runs)
        allowed = 8 * moved_by + 4 * ROUNDING[False] * float(right.abs().max()) + 1e-9
        off = float((fetch(got).double() - right).abs().max())
        assert off <= allowed, f"gradient {number} is off by {off:.3g}, allowed is {allowed:.3g}"
    for number, (got, other) in enumerate(zip(mine, eager, strict=True)):
        off = float((got.cpu().double() - other.cpu().double()).abs().max())
        assert off <= 1e-6, f"gradient {number} is {off:.3g} away from eager's"


def test_a_few_steps_of_adam_follow_the_cpu():
    torch.manual_seed(0)
    model, tokens = Language(), given(TOKENS, "cpu")
    losses = {}
    for device in ("cpu", "spyre"):
        mine = copy.deepcopy(model).to(device)
        optimizer = torch.optim.AdamW(mine.parameters(), lr=0.01)
        compiled = torch.compile(mine, dynamic=False) if device == "spyre" else mine
        losses[device] = []
        for _ in range(5):
            loss = compiled(tokens.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["cpu"][-1] < losses["cpu"][0] - 0.3
    assert losses["spyre"] == pytest.approx(losses["cpu"], abs=1e-4)


def test_dropout_draws_from_the_device_and_follows_its_seed():
    x = torch.ones(64, 64, device="spyre")
    compiled = torch.compile(lambda x: F.dropout(x, 0.25, training=True) * 2, dynamic=False)

    def draw(seed):
        torch.spyre.set_fallback_mode("silent")  # random numbers are drawn on the host
        torch.spyre.manual_seed(seed)
        return compiled(x).cpu()

    one, other = draw(1), draw(2)
    assert torch.equal(one, draw(1)) and not torch.equal(one, other)
    kept = one != 0
    assert 0.7 < kept.float().mean() < 0.8
    torch.testing.assert_close(one[kept], torch.full_like(one[kept], 2 / 0.75))


def test_gradients_flow_through_what_was_dropped():
    x = torch.ones(64, 64, device="spyre", requires_grad=True)
    torch.spyre.set_fallback_mode("silent")
    result = torch.compile(lambda x: F.dropout(x * 1, 0.25, training=True), dynamic=False)(x)
    result.sum().backward()
    assert torch.equal((x.grad != 0).cpu(), (result != 0).cpu())


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients_of_bags_whose_offsets_end_with_the_end(mode):
    torch.spyre.set_fallback_mode("silent")
    indices, offsets = torch.tensor([1, 4, 2, 4, 7, 0]), torch.tensor([0, 2, 6])
    weight = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))

    def bags(weight, indices, offsets):
        return torch.nn.functional.embedding_bag(indices, weight, offsets, mode=mode, include_last_offset=True)

    results = []
    for device, function in (("cpu", bags), ("spyre", torch.compile(bags, fullgraph=True))):
        leaf = weight.to(device).detach().requires_grad_()
        out = function(leaf, indices.to(device), offsets.to(device))
        (out * out).sum().backward()
        results.append((out.detach().cpu(), leaf.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])
