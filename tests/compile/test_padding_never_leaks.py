"""Random graphs on a size that varies, the padding full of NaN or of indices that are nowhere: results are those of the CPU."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F

from torch_spyre.inductor.launching import growing, launch

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
BATCH, WIDTH = 2, 8
SIZES = (21, 22, 9, 60, 40)
Step = Callable[
    [torch.Tensor, torch.Tensor], torch.Tensor
]  # [batch, n, width] and indices [n] to a tensor of the same size

torch.manual_seed(0)
W, TABLE = torch.randn(WIDTH, WIDTH), torch.randn(64, WIDTH)


def _places(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[1], device=x.device)


def _heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.shape[0], x.shape[1], 2, -1).transpose(1, 2)


def _attended(x: torch.Tensor, **options: object) -> torch.Tensor:
    return (
        F.scaled_dot_product_attention(_heads(x), _heads(x * 2), _heads(x), **options).transpose(1, 2).reshape(x.shape)
    )


def _copied_in(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    cache = torch.zeros(x.shape[0], 70, WIDTH, device=x.device, dtype=x.dtype)
    cache.index_copy_(1, _places(x) + 3, x)
    return x + cache.sum(1, keepdim=True).tanh()


STEPS: dict[str, Step] = {
    "silu": lambda x, i: F.silu(x) + 0.5,
    "scaled": lambda x, i: x * (x.shape[1] / 32),
    "counted": lambda x, i: x + _places(x)[None, :, None] / 64,
    "product": lambda x, i: (x @ W.to(x)).tanh(),
    "flattened_product": lambda x, i: (x.reshape(-1, WIDTH) @ W.to(x)).tanh().view(x.shape),
    "flattened_sum": lambda x, i: x + (x.reshape(-1, WIDTH) + 1).exp().sum(0).tanh(),
    "flattened_softmax": lambda x, i: x + x.reshape(-1, WIDTH).softmax(0).view(x.shape),
    "flattened_running_sum": lambda x, i: x + x.reshape(-1, WIDTH).cumsum(0).tanh().view(x.shape),
    "gram": lambda x, i: (x.transpose(1, 2) @ x.cos()).tanh().mean(1, keepdim=True) + x,
    "scores": lambda x, i: (x @ x.transpose(1, 2)).softmax(-1) @ x,
    "lower_scores": lambda x, i: ((x @ x.transpose(1, 2)).tril() @ x).tanh(),
    "sum": lambda x, i: x - (x.abs() + 1).sum(1, keepdim=True).log(),
    "largest": lambda x, i: x - x.amax(1, keepdim=True),
    "smallest": lambda x, i: x - (x.abs() + 1).amin(1, keepdim=True),
    "mean": lambda x, i: x - x.mean(1, keepdim=True),
    "deviation": lambda x, i: x / (x.std(1, keepdim=True) + 1),
    "norm": lambda x, i: x / (x.norm(dim=1, keepdim=True) + 1),
    "layer_norm": lambda x, i: F.layer_norm(x, (WIDTH,)),
    "softmax": lambda x, i: x + x.softmax(1),
    "log_softmax": lambda x, i: x.log_softmax(1) / 8,
    "logsumexp": lambda x, i: x - x.logsumexp(1, keepdim=True),
    "running_sum": lambda x, i: x.cumsum(1).tanh(),
    "first": lambda x, i: x + x[:, :1],
    "last": lambda x, i: x + x[:, -1:],
    "last_rows": lambda x, i: x + x[:, -3:].sum(1, keepdim=True),
    "shifted": lambda x, i: torch.cat([x[:, :1], x[:, 1:] - x[:, :-1]], 1),
    "from_before": lambda x, i: torch.cat([x[:, :2], x], 1)[:, 1:-1].tanh(),
    "row_more": lambda x, i: torch.cat([x, x[:, :1]], 1).softmax(1)[:, :-1] + x,
    "row_more_at_the_end": lambda x, i: torch.cat([x, x[:, :1]], 1)[:, 1:],
    "picked": lambda x, i: x[:, i] + x,
    "picked_from_the_end": lambda x, i: x[:, i - 5],
    "picked_last": lambda x, i: x + x[:, torch.tensor([-1], device=x.device)],
    "gathered": lambda x, i: x.gather(1, i[None, :, None].expand(x.shape)),
    "embedded": lambda x, i: x + F.embedding(i, TABLE.to(x)),
    "flattened_indices": lambda x, i: x + F.embedding(i.expand(x.shape[0], -1).reshape(-1), TABLE.to(x)).view(x.shape),
    "causal": lambda x, i: _attended(x, is_causal=True),
    "attended": lambda x, i: _attended(x),
    "masked_attention": lambda x, i: _attended(x, attn_mask=(_places(x)[:, None] >= _places(x) // 2)[None, None]),
    "copied_in": _copied_in,
    "scattered": lambda x, i: x.scatter(1, _places(x)[None, :, None].expand(x.shape) // 1, x * 2),
    "turned": lambda x, i: x.flip(1),
    "sorted": lambda x, i: x.sort(1)[0],
    "place_of_largest": lambda x, i: x + x.argmax(1, keepdim=True) / 64,
    "chosen": lambda x, i: torch.where(x > 0, x, x.amin(1, keepdim=True)),
    "halves": lambda x, i: x + x[:, : x.shape[1] // 2 * 2 - 1].sum(1, keepdim=True).tanh(),
    "every_second": lambda x, i: x + x[:, ::2].sum(1, keepdim=True).tanh(),
    "diagonal": lambda x, i: x + (x @ x.transpose(1, 2)).diagonal(dim1=1, dim2=2)[..., None].tanh(),
}  # fmt: skip


NOT_PADDED = {
    "flattened_running_sum", "mean", "deviation", "norm", "turned", "sorted", "place_of_largest", "halves", "every_second", "diagonal",
}  # fmt: skip


def _poison(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.fill_(float("nan") if tensor.is_floating_point() else 1 << 20)


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.spyre.set_downcast_warning(False)
    monkeypatch.setattr(growing, "_WORTHWHILE_CALLS", 0)
    monkeypatch.setattr(growing, "_clear", _poison)


def _run(names: Sequence[str]) -> int:
    """How many programs it took."""

    def function(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = []
        for name in names:
            x = STEPS[name](x, i)
            results.append(x)
        return (*results, x.sum(1))

    torch._dynamo.reset()
    before = launch.counts()["specialisations"]
    compiled = torch.compile(function, fullgraph=True)
    generator = torch.Generator().manual_seed(1)
    for size in SIZES:
        x = torch.randn(BATCH, size, WIDTH, generator=generator)
        indices = torch.randint(5, size, (size,), generator=generator)
        y, on_card = x.to("spyre"), indices.to("spyre")
        torch._dynamo.mark_dynamic(y, 1)
        torch._dynamo.mark_dynamic(on_card, 0)
        for name, got, expected in zip(
            (*names, "total"), compiled(y, on_card), function(x.double(), indices), strict=True
        ):
            close = {"rtol": 2e-3, "atol": 2e-3, "msg": lambda text, at=(name, size): f"{at}: {text}"}
            torch.testing.assert_close(got.cpu().double(), expected, **close)
    return launch.counts()["specialisations"] - before


@pytest.mark.parametrize("name", STEPS)
def test_alone(name: str) -> None:
    programs = _run([name])
    assert (
        programs == len(SIZES) if name in NOT_PADDED else programs <= 2
    )  # two where indices have a symbol of their own


@pytest.mark.parametrize("seed", range(12))
def test_several(seed: int) -> None:
    _run(random.Random(seed).sample(sorted(STEPS.keys() - NOT_PADDED), 4))
