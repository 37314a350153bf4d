"""Compiled equals eager, bit for bit, forward and backward, for graphs whose operators all run on the card."""

import pytest
import torch
import torch.nn.functional as F

import torch_spyre

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load


def attention_by_hand(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, dim=-1) @ v


def norm_by_hand(x, weight, bias):
    scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
    return (x * scale.to(x.dtype)) * weight + bias


def gated(x, up, down):
    return (F.silu(x @ up) * (x @ up)) @ down


def heads(x, y, z):
    turned = torch.cat([x, -y], dim=-1).unflatten(-1, (4, -1)).transpose(1, 2).contiguous()
    return F.gelu(turned + 0.1).flatten(2).sum(1) / 7 + z.amax()


def matrices_and_vector(x, y):
    return x @ y


def vector_and_matrices(x, y):
    return x.detach() @ y.detach() + x.sum() + y.sum()


def group_norm(x, y):
    return F.group_norm(x, 3, eps=1e-3) + y


def masked_mean(x, y):
    return torch.masked.mean(x * y, (0, 2), mask=torch.ones_like(x, dtype=torch.bool).tril())


def sum_of_a_copy(x, y):
    return x.transpose(0, 1).contiguous().sum(-1) + y.sum(0).sum() + y.mean(1).sum()


GRAPHS = {
    attention_by_hand: ((2, 3, 33, 64),) * 3,
    norm_by_hand: ((5, 200), (200,), (200,)),
    gated: ((17, 64), (64, 96), (96, 64)),
    heads: ((2, 9, 64), (2, 9, 64), (70,)),
    matrices_and_vector: ((5, 10, 10), (10,)),
    vector_and_matrices: ((10,), (5, 10, 7)),
    group_norm: ((4, 3, 2, 3), (3,)),
    masked_mean: ((5, 70, 90), (90,)),
    sum_of_a_copy: ((300, 70), (130, 3)),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_results_and_gradients_have_the_bits_of_eager(graph, dtype):
    torch.compiler.reset()
    torch.manual_seed(0)
    values = [torch.randn(size).to(dtype) for size in GRAPHS[graph]]
    outcomes = []
    for function in (graph, torch.compile(graph)):
        inputs = [value.to("spyre").requires_grad_() for value in values]
        result = function(*inputs)
        result.float().square().sum().backward()
        outcomes.append([result.detach().cpu(), *(tensor.grad.cpu() for tensor in inputs)])
    for eager, compiled in zip(*outcomes, strict=True):
        assert torch.equal(eager, compiled), (eager.float() - compiled.float()).abs().max()
    assert not any(report.fallbacks for report in torch_spyre.compile_report()[-2:])
