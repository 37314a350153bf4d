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
W, TABLE, WIDE = torch.randn(WIDTH, WIDTH), torch.randn(64, WIDTH), torch.randn(WIDTH, 70)


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


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Of another size than x, and longer than all of them."""
    return WIDE.to(x)


def _flat(x: torch.Tensor) -> torch.Tensor:
    return x.exp().reshape(-1, WIDTH)


def _changed(x: torch.Tensor, change: Callable[[torch.Tensor], object]) -> torch.Tensor:
    made = x.exp()
    change(made)
    return made.tanh()


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
    "row_of_all": lambda x, i: x + _flat(x)[13].tanh(),  # of the first or of the second block
    "first_rows_of_all": lambda x, i: x + _flat(x)[:15].sum(0).tanh(),
    "some_rows_of_all": lambda x, i: x + _flat(x)[7:12].sum(0).tanh(),
    "last_row_of_all": lambda x, i: x + _flat(x)[-1].tanh(),
    "last_rows_of_all": lambda x, i: x + _flat(x)[-5:].sum(0).tanh(),
    "many_last_rows_of_all": lambda x, i: x + _flat(x)[-12:].sum(0).tanh(),
    "all_rows_but_two": lambda x, i: x + _flat(x)[2:].sum(0).tanh(),
    "row_of_the_second": lambda x, i: x + _flat(x)[x.shape[1] + 3].tanh(),
    "first_block_of_all": lambda x, i: x + _flat(x)[: x.shape[1]].sum(0).tanh(),
    "element_of_all": lambda x, i: x + x.exp().reshape(-1)[75].tanh(),
    "row": lambda x, i: x + x.exp().select(1, 8).tanh()[:, None],
    "rows_from_the_end": lambda x, i: x + x.exp()[:, x.shape[1] - 2 :].sum(1, keepdim=True).tanh(),
    "middle_row": lambda x, i: x + x.exp()[:, x.shape[1] // 2].tanh()[:, None],
    "narrowed": lambda x, i: x + x.exp().narrow(1, 3, 6).sum(1, keepdim=True).tanh(),
    "split": lambda x, i: torch.cat([part.exp() for part in x.split([4, x.shape[1] - 4], 1)], 1).tanh(),
    "windows": lambda x, i: x + x.exp().unfold(1, 3, 1).sum((1, 3))[:, None].tanh(),
    "strided": lambda x, i: x + x.exp().as_strided((3, WIDTH), (24, 1), 40).sum(0).tanh(),
    "transposed_row": lambda x, i: x + x.exp().transpose(0, 1)[5, 1].tanh(),
    "gathered_of_each_row": lambda x, i: x + x.gather(2, (i % WIDTH)[None, :, None].expand(BATCH, -1, 1)),
    "gathered_elsewhere": lambda x, i: x + _wide(x).gather(0, (i % WIDTH)[None])[0][None, :, None],
    "gathered_of_some_rows": lambda x, i: x + x.gather(1, (i % 9)[None, :5, None].expand(BATCH, 5, WIDTH)).sum(1, True).tanh(),
    "scattered_to_each_row": lambda x, i: x.scatter(2, (i % WIDTH)[None, :, None].expand(BATCH, -1, 1), 1.5),
    "scattered_elsewhere": lambda x, i: x + _wide(x).scatter(0, (i % WIDTH)[None], x[:1, :, 0]).sum(1).tanh(),
    "number_scattered_elsewhere": lambda x, i: x + _wide(x).scatter(0, (i % WIDTH)[None], 1.5).sum(1).tanh(),
    "added_elsewhere": lambda x, i: x + _wide(x).scatter_add(0, (i % WIDTH)[None], x[:1, :, 0]).sum(1).tanh(),
    "scattered_to_fewer": lambda x, i: x + TABLE.to(x).scatter(0, i.argsort()[:, None].expand(-1, WIDTH), x[0]).sum(0).tanh(),
    "rows_added": lambda x, i: x + TABLE.to(x).index_add(0, i, x[0]).sum(0).tanh(),
    "rows_put": lambda x, i: x + TABLE.to(x).index_put((_places(x) + 2,), x[0]).sum(0).tanh(),
    "rows_put_more": lambda x, i: x + TABLE.to(x).index_put((i,), x[0], accumulate=True).sum(0).tanh(),
    "rows_filled": lambda x, i: x.index_fill(1, i[:3], 0.5),
    "row_copied": lambda x, i: _changed(x, lambda y: y.index_copy_(1, i[:2] * 0 + _places(x)[:2] + 4, x[:, :2])),
    "row_written": lambda x, i: _changed(x, lambda y: y[:, 6].copy_(x[:, 0])),
    "last_row_written": lambda x, i: _changed(x, lambda y: y[:, -1].copy_(x[:, 0])),
    "row_of_all_written": lambda x, i: _changed(x, lambda y: y.view(-1, WIDTH)[13].copy_(x[0, 0])),
    "rows_of_all_written": lambda x, i: _changed(x, lambda y: y.view(-1, WIDTH)[5:16].mul_(2)),
    "first_rows_written": lambda x, i: _changed(x, lambda y: y[:, : x.shape[1] - 2].mul_(2)),
    "transpose_written": lambda x, i: _changed(x, lambda y: y.transpose(1, 2)[:, 3].mul_(2)),
    "mask_written": lambda x, i: _changed(x, lambda y: y.masked_fill_(x > 0.5, 3.0)),
    "mask_put": lambda x, i: _changed(x, lambda y: y.__setitem__(x > 0.5, 3.0)),
    "attended_along_it": lambda x, i: x + F.scaled_dot_product_attention(*[x.transpose(1, 2)[:, None]] * 3)[:, 0].transpose(1, 2),
    "diagonal": lambda x, i: x + (x @ x.transpose(1, 2)).diagonal(dim1=1, dim2=2)[..., None].tanh(),
}  # fmt: skip


NOT_PADDED = {
    "flattened_running_sum", "mean", "deviation", "norm", "turned", "sorted", "place_of_largest", "halves", "every_second", "diagonal",
    "all_rows_but_two", "middle_row", "gathered_elsewhere", "scattered_elsewhere", "number_scattered_elsewhere", "added_elsewhere",
    "scattered_to_fewer", "rows_added", "rows_put", "rows_put_more", "row_written", "last_row_written", "row_of_all_written",
    "rows_of_all_written", "first_rows_written", "transpose_written", "mask_put", "attended_along_it",
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
        programs >= len(SIZES) if name in NOT_PADDED else programs <= 2
    )  # two where indices have a symbol of their own


@pytest.mark.parametrize("seed", range(12))
def test_several(seed: int) -> None:
    _run(random.Random(seed).sample(sorted(STEPS.keys() - NOT_PADDED), 4))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1).reshape(-1, 16)[-5:] * 2,
        lambda x: (x + 1).reshape(-1, 16)[-1] * 2,
        lambda x: (x + 1).reshape(-1, 16)[40] * 2,
        lambda x: (x + 1)[-1, -1] * 2,
        lambda x: (x + 1)[:, -1] * 2,
    ],
)
def test_rows_are_found_where_the_batch_is_a_symbol_too(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Where they are depends on the batch, which has another size with each call."""
    torch._dynamo.reset()
    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    for batch, size in ((3, 33), (3, 40), (3, 37), (2, 37), (2, 63), (3, 63), (2, 64), (3, 65)):
        x = torch.randn(batch, size, 16)
        assert torch.equal(compiled(x.to("spyre")).cpu(), function(x)), (batch, size)


# --- indices that are nowhere ------------------------------------------------------------------------------------------------

INDEXING: dict[str, Step] = {
    "index": lambda x, i: (x + 1)[i],
    "index_select": lambda x, i: (x + 1).index_select(0, i),
    "embedding": lambda x, i: F.embedding(i, x + 1),
    "two_indices": lambda x, i: (x + 1)[i, i * 0],
    "second_index": lambda x, i: (x + 1).t()[i * 0, i],
    "index_of_more": lambda x, i: torch.cat([x, x[:1]])[1:][i],
    "gather": lambda x, i: (x + 1).gather(0, i[:, None].expand(-1, WIDTH)),
    "gather_of_a_column": lambda x, i: (x + 1).t().gather(1, i[None]),
    "index_copy": lambda x, i: (x + 1).index_copy(0, i, TABLE[:2].to(x)),
    "index_copy_in_place": lambda x, i: x.index_copy_(0, i, TABLE[:2].to(x)),
    "index_put": lambda x, i: (x + 1).index_put((i,), TABLE[:2].to(x)),
    "index_add": lambda x, i: (x + 1).index_add(0, i, TABLE[:2].to(x)),
    "index_fill": lambda x, i: (x + 1).index_fill(0, i, 2.0),
    "scatter": lambda x, i: (x + 1).scatter(0, i[:, None].expand(-1, WIDTH), TABLE[:2].to(x)),
    "scatter_number": lambda x, i: (x + 1).scatter(0, i[:, None].expand(-1, WIDTH), 2.0),
    "scatter_in_place": lambda x, i: x.scatter_(0, i[:, None].expand(-1, WIDTH), 2.0),
    "scatter_add": lambda x, i: (x + 1).scatter_add(0, i[:, None].expand(-1, WIDTH), TABLE[:2].to(x)),
}


@pytest.mark.parametrize("name", INDEXING)
def test_an_index_beyond_the_true_size_is_an_index_error(name: str) -> None:
    """As the CPU says; the bucket may have such a row. Those below 0 count from the true end."""
    torch._dynamo.reset()
    function = INDEXING[name]
    compiled = torch.compile(function, fullgraph=True)
    for size in (21, 37, 40):
        for good in ([0, size - 1], [3, -1], [-size, 5]):
            x = torch.randn(size, WIDTH)
            expected = function(x.clone(), torch.tensor(good) % size)
            torch.testing.assert_close(
                compiled(*_on_card(x, good)).cpu(), expected, rtol=1e-4, atol=1e-4, msg=f"{name} {size} {good}"
            )
        for wrong in (size, 63, 64, 2**30, -size - 1, -64):
            x = torch.randn(size, WIDTH)
            with pytest.raises((IndexError, RuntimeError)):
                function(x.clone(), torch.tensor([1, wrong]))
            with pytest.raises(IndexError, match="out of bounds"):
                compiled(*_on_card(x, [1, wrong])).cpu()
                pytest.fail(f"{name} finds row {wrong} of {size}")


def _on_card(x: torch.Tensor, indices: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.to("spyre")
    torch._dynamo.mark_dynamic(y, 0)
    return y, torch.tensor(indices).to("spyre")


def test_of_rows_that_are_written_twice_the_last_stays() -> None:
    """Padding repeats the last, not the first."""
    compiled = torch.compile(lambda c, i, r: (c + 0).index_copy(0, i, r), fullgraph=True)
    for size in (21, 22, 37):
        indices, rows = torch.arange(size) % 4, torch.randn(size, WIDTH)
        card = torch.zeros(9, WIDTH).to("spyre"), indices.to("spyre"), rows.to("spyre")
        torch._dynamo.mark_dynamic(card[1], 0)
        torch._dynamo.mark_dynamic(card[2], 0)
        assert torch.equal(compiled(*card).cpu(), torch.zeros(9, WIDTH).index_copy(0, indices, rows)), size


# --- inputs that are parts of larger tensors ---------------------------------------------------------------------------------

PARTS: dict[
    str, tuple[tuple[int, ...], int, Callable[[torch.Tensor, int], torch.Tensor]]
] = {  # of what; the dim that varies
    "rows_of_each": ((2, 70, WIDTH), 1, lambda big, n: big[:, :n]),
    "later_rows_of_each": ((2, 80, WIDTH), 1, lambda big, n: big[:, 7 : 7 + n]),
    "first_rows": ((80, WIDTH), 0, lambda big, n: big[:n]),
    "later_rows": ((80, WIDTH), 0, lambda big, n: big[7 : 7 + n]),
    "columns": ((7, 70), 1, lambda big, n: big[:, :n]),
    "later_columns": ((3, 80), 1, lambda big, n: big[:, 7 : 7 + n]),
    "every_second_row": ((160, WIDTH), 0, lambda big, n: big[::2][:n]),
    "every_second_column": ((3, 160), 1, lambda big, n: big[:, ::2][:, :n]),
    "transposed": ((WIDTH, 70), 0, lambda big, n: big[:, :n].t()),
    "of_a_head": ((2, 3, 70, WIDTH), 1, lambda big, n: big[:, 1, :n]),
    "of_rows_of_heads": ((2, 70, 3, WIDTH), 1, lambda big, n: big[:, :n, 1]),
}
CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "added": lambda x: x.add_(1),
    "multiplied_and_read": lambda x: x.mul_(2).sum(-1) + 1,
    "first_row_written": lambda x: x[0].fill_(3),
    "only_read": lambda x: (x + 1).sum(0),
    "summed_along_it": lambda x: x.exp().sum(-1),
}


@pytest.mark.parametrize("marked", [True, False], ids=("marked", "not marked"))
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_larger_tensors_leave_the_rest_alone(part: str, marked: bool) -> None:
    shape, dim, cut = PARTS[part]
    for name, change in CHANGES.items():
        torch._dynamo.reset()
        compiled = torch.compile(change, fullgraph=True, dynamic=None if marked else True)
        for size in (33, 40, 65, 69):
            big = torch.randn(shape)
            card = big.to("spyre")
            y = cut(card, size)
            if marked:
                torch._dynamo.mark_dynamic(y, dim)
            got, expected = compiled(y), change(cut(big, size))
            told = f"{part} {name} {size}"
            torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4, msg=told)
            torch.testing.assert_close(card.cpu(), big, rtol=1e-6, atol=1e-6, msg=told)


@pytest.mark.parametrize("shape", [(5, -1), (5, -1, WIDTH), (-1, 5)], ids=str)
def test_a_row_that_is_seen_many_times_is_read(shape: tuple[int, ...]) -> None:
    compiled = torch.compile(lambda x: (x + 1).sum(1), dynamic=True, fullgraph=True)
    for size in (33, 40, 41, 42, 65):
        extents = [size if n == -1 else n for n in shape]
        x = torch.randn(1, *extents[1:])
        got = compiled(x.to("spyre").expand(extents))
        torch.testing.assert_close(got.cpu(), (x + 1).expand(extents).sum(1), rtol=1e-3, atol=1e-3)
