"""Linear layers on the card: where a module's weights lie, and that a call then moves none of them."""

import pytest
import torch
from oracle import held, through_card
from samples import FLOATS
from torch import nn

from openspyre.backend import FuseSteps, compile_emitted, host_form
from openspyre.backend.fusion.maps import moves_bits
from openspyre.compiler.emit import emit_bundle
from openspyre.program.model import Contract, Map
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.device.layouts import set_spyre_tensor_layout
from torch_spyre.ops import calls


def along_out_features(weight):
    return SpyreTensorLayout(list(weight.shape), weight.dtype, [1, 0])


def default(weight):
    return SpyreTensorLayout(list(weight.shape), weight.dtype)


class TiedHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 64)
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_linear_weights_lie_along_out_features(dtype):
    model = nn.Sequential(nn.Linear(70, 130), nn.Sequential(nn.ReLU(), nn.Linear(130, 30))).to(dtype)
    weights = [model[0].weight, model[1][1].weight]
    before = [weight.detach().clone() for weight in weights]
    model.to("spyre")
    assert [model[0].weight, model[1][1].weight] == weights, "the Parameters stay the same objects"
    for weight, was in zip(weights, before, strict=True):
        assert weight.device_tensor_layout() == along_out_features(weight)
        assert torch.equal(weight.detach().cpu(), through_card(was.float(), dtype).to(dtype))
    assert model[0].bias.device_tensor_layout() == default(model[0].bias)


def test_a_weight_shared_with_an_embedding_keeps_the_default():
    torch.manual_seed(0)
    model = TiedHead().half()
    wanted = held(model.embedding.weight.detach())[[3, 99]] @ held(model.head.weight.detach()).t()
    model.to("spyre")
    assert model.head.weight is model.embedding.weight
    assert model.head.weight.device_tensor_layout() == default(model.head.weight)
    torch.spyre.set_fallback_mode("silent")
    with torch.no_grad():
        result = model(torch.tensor([3, 99]).to("spyre"))
    torch.testing.assert_close(result.cpu().double(), wanted, rtol=2.0**-9, atol=2.0**-9)


def test_a_layout_of_the_users_stays():
    model = nn.Linear(64, 128).half().to("spyre")
    set_spyre_tensor_layout(model.weight.detach(), default(model.weight))
    model.to("spyre")
    assert model.weight.device_tensor_layout() == default(model.weight)


def test_a_module_comes_back_unchanged():
    model = nn.Linear(70, 30)
    weight = model.weight.detach().clone()
    assert torch.equal(model.to("spyre").cpu().weight.detach(), weight)


@pytest.fixture
def lowered_programs(monkeypatch):
    """Each program that is compiled, after the passes."""
    from openspyre.compiler import pipeline

    seen = []
    load = calls.load

    def watched(program):
        seen.append(pipeline.run(program))
        return load(program)

    monkeypatch.setattr(calls, "load", watched)
    return seen


def test_a_call_moves_no_weight(lowered_programs):
    """One that lies as the matrix unit reads it stays; one in the default layout is turned by the hardware, on its way here."""
    model = nn.Linear(192, 130).half().to("spyre")
    x = torch.randn(7, 192).half().to("spyre")
    with torch.no_grad():
        model(x)
        nn.functional.linear(x, model.weight.detach().cpu().to("spyre"), model.bias)
    for program, moved in zip(lowered_programs, ([], ["restickify"]), strict=True):
        assert [op.row for op in program.ops] == [*moved, "batchmatmul", "add"]
        steps = FuseSteps().run(compile_emitted(host_form(emit_bundle(program)))).body
        assert [type(step) for step in steps] == [Contract, Map]
        assert not any(moves_bits(step) for step in steps)


def test_training_a_linear_layer():
    torch.manual_seed(0)
    host = nn.Linear(70, 30)
    card = nn.Linear(70, 30)
    card.load_state_dict(host.state_dict())
    card.to("spyre")
    x, y = torch.randn(16, 70), torch.randn(16, 30)
    for model, data, wanted in ((host, x, y), (card, x.to("spyre"), y.to("spyre"))):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.spyre.set_fallback_mode("silent")
        for _ in range(3):
            optimizer.zero_grad()
            (model(data) - wanted).square().mean().backward()
            optimizer.step()
    assert card.weight.device_tensor_layout() == along_out_features(card.weight)
    torch.testing.assert_close(card.weight.detach().cpu(), host.weight.detach(), rtol=1e-4, atol=1e-5)
