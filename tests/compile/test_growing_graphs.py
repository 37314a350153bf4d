"""Graphs whose sizes vary run padded to a bucket: one program for all of its sizes, and what the CPU says."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from openspyre.spec.errors import OptionWarning
from torch_spyre._inductor import config
from torch_spyre.inductor.graph import Growth, Value, evaluate
from torch_spyre.inductor.launching import growing, launch
from torch_spyre.inductor.lowering.alignment import NotAligned, placement
from torch_spyre.inductor.lowering.buckets import Buckets, buckets_of

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
SIZES = (21, 22, 37, 5, 60, 64)  # of one bucket
Function = Callable[..., torch.Tensor]


@pytest.fixture(autouse=True)
def worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    torch.spyre.set_downcast_warning(False)
    monkeypatch.setattr(growing, "_WORTHWHILE_CALLS", 0)


W, TABLE = torch.randn(96, 64), torch.randn(70, 96)


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(1, -1, 3, 32).transpose(1, 2)


def attended(x: torch.Tensor, **options: object) -> torch.Tensor:
    return F.scaled_dot_product_attention(heads(x), heads(x * 2), heads(x.exp()), **options)


PADDED: dict[str, Function] = {
    "pointwise": lambda x: F.silu(x) * x + 1,
    "product": lambda x: x @ W.to(x),
    "norm": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5),
    "layer_norm": lambda x: F.layer_norm(x, (96,)),
    "sum_over_it": lambda x: x.exp().sum(1),
    "sum_of_what_is_infinite_there": lambda x: (1 / x).sum(1),
    "softmax_over_it": lambda x: x.softmax(1),
    "product_over_it": lambda x: x[0].t() @ (1 / x[0]),
    "any_and_all_over_it": lambda x: torch.stack([(x > 3).any(1), (x < 3).all(1), (x == 0).any(1)]),
    "extremes_over_it": lambda x: x.amax(1) - (-x).amin(1),
    "size_as_a_number": lambda x: torch.full_like(x, x.shape[1]) * x,
    "running_sum": lambda x: x.cumsum(1),
    "causal": lambda x: attended(x, is_causal=True),
    "not_causal": attended,
    "masked": lambda x: attended(x, attn_mask=(x.sum(-1) > 0)[:, None, None, :].expand(1, 1, x.shape[1], -1).logical_or(
        torch.ones(x.shape[1], x.shape[1], device=x.device, dtype=torch.bool).tril())),
    "values_that_are_infinite_there": lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(1 / x)),
    "shifted": lambda x: x[:, 1:] - x[:, :-1],
    "sum_of_what_is_shifted": lambda x: (1 / x)[:, 1:].sum(1) - x[:, :-1].sum(1),
    "last_row": lambda x: x[:, -1] * 2,
    "last_rows": lambda x: x[:, -3:].exp() @ W.to(x),
    "first_rows": lambda x: x[:, :2] + 1,
    "row_before_the_last": lambda x: x[:, -2].exp(),
    "two_ends": lambda x: x[:, 0] + x[:, -1],
    "positions": lambda x: x + F.embedding(torch.arange(x.shape[1], device=x.device), TABLE.to(x)),
    "square": lambda x: (x @ x.transpose(1, 2)).tril().sum(-1),
    "several_results_long": lambda x: torch.cat([x, x * 2], -1),
    "chosen_of_each_row": lambda x: x.topk(3, -1)[0],
}  # fmt: skip
NOT_PADDED: dict[str, Function] = {
    "mean_over_it": lambda x: x.mean(1),
    "sorted_over_it": lambda x: x.sort(1)[0],
    "largest_over_it": lambda x: x.argmax(1).to(x.dtype),
    "joined_along_it": lambda x: torch.cat([x, x[:, :2]], 1),
    "flattened": lambda x: x.reshape(-1, 3).sum(-1),
    "turned_around": lambda x: x.flip(1),
    "reshaped_across": lambda x: x.reshape(1, 96, -1).sum(-1),
}


def _values(size: int) -> torch.Tensor:
    return torch.randn(1, size, 96).clamp(-2, 2) + torch.tensor([0.0, 3.0]).repeat(48) + 0.05


def _run(function: Function, sizes: tuple[int, ...] = SIZES) -> list[int]:
    """Against the CPU; how many programs each size took."""
    compiled = torch.compile(function, fullgraph=True)
    counts = [launch.counts()["specialisations"]]
    for size in sizes:
        x = _values(size)
        y = x.to("spyre")
        torch._dynamo.mark_dynamic(y, 1)
        result, expected = compiled(y), function(x.double()).to(torch.float32)
        assert result.shape == expected.shape and result.stride() == function(y).stride()
        torch.testing.assert_close(result.cpu().float(), expected, rtol=2e-4, atol=2e-4)
        counts.append(launch.counts()["specialisations"])
    return [after - before for before, after in itertools.pairwise(counts)]


@pytest.mark.parametrize("name", PADDED)
def test_one_program_serves_a_bucket(name: str) -> None:
    first, *others = _run(PADDED[name])
    assert first and not any(others)


@pytest.mark.parametrize(
    "name", ["pointwise", "norm", "causal", "not_causal", "sum_over_it", "softmax_over_it", "running_sum"]
)
def test_padding_changes_no_bit(name: str) -> None:
    """16-bit numbers, and no product whose division the number of rows decides (N9)."""
    function = PADDED[name]
    compiled = torch.compile(function, fullgraph=True)
    for size in (21, 22, 37, 60, 64, 100):
        x = _values(size).half().to("spyre")
        torch._dynamo.mark_dynamic(x, 1)
        assert torch.equal(compiled(x).cpu(), function(x).cpu()), size


def test_padded_indices_stay_inside_a_table() -> None:
    assert _run(PADDED["positions"], (21, 65, 66, 70))[2:] == [0, 0]


@pytest.mark.parametrize("name", NOT_PADDED)
def test_what_cannot_be_padded_is_compiled_for_every_size(name: str, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("spyre").propagate = True
    with caplog.at_level(logging.INFO, "spyre.compiler"):
        assert all(_run(NOT_PADDED[name], (21, 22, 37)))
    assert any("compiled for every size" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16))
def test_caches_that_grow_by_a_row_share_a_program(dtype: torch.dtype) -> None:
    """Two caches, each with a symbol of its own, and a mask that is longer; the next step takes what this one made."""

    def step(keys: torch.Tensor, values: torch.Tensor, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        keys, values = torch.cat([keys, x], 2), torch.cat([values, 1 / x], 2)
        seen = torch.arange(keys.shape[2], device=x.device) >= keys.shape[2] - 40
        bias = torch.where(seen & mask, 0.0, float("-inf")).to(x.dtype)[None, None, None]
        weights = (x @ keys.transpose(-1, -2)).softmax(-1)
        return keys, values, F.scaled_dot_product_attention(x, keys, values, bias), weights @ values, keys[:, :, -2:]

    compiled = torch.compile(step, dynamic=True, fullgraph=True)
    host = [torch.rand(1, 3, 30, 64).add(0.5) for _ in range(2)]
    card = [cache.to(dtype).to("spyre") for cache in host]
    host, counts = [cache.cpu().double() for cache in card], []
    for _ in range(50):
        x = torch.rand(1, 3, 1, 64).add(0.5).to(dtype)
        mask = torch.rand(host[0].shape[2] + 1) > 0.1
        mask[-1] = True
        *host, attended, weighted, last = step(*host, x.double(), mask)
        before = launch.counts()["specialisations"]
        *card, on_card, also, ends = compiled(*card, x.to("spyre"), mask.to("spyre"))
        counts.append(launch.counts()["specialisations"] - before)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.float16 else {"rtol": 1e-4, "atol": 1e-4}
        pairs = [*zip(host, card, strict=True), (attended, on_card), (weighted, also), (last, ends)]
        for expected, got in pairs:
            assert got.is_contiguous() or got is ends
            torch.testing.assert_close(got.cpu().double(), expected, **tolerance)
    assert sum(map(bool, counts)) <= 3  # the first length, and two buckets


def test_buckets() -> None:
    assert [Buckets().padded(n) for n in (1, 63, 64, 65, 512, 513, 600, 1024, 1025, 5000)] == [
        64, 64, 64, 128, 512, 640, 640, 1024, 1280, 5120,
    ]  # fmt: skip


def test_bounds_of_mark_dynamic_name_the_buckets() -> None:
    """The documented rule: min is the granularity and divides max, at most 32 buckets; else the smallest divisor from 4 up."""
    named = {(least, largest): buckets_of(Growth(True, least, largest), "s").granularity for least, largest in (
        (64, 512), (16, 512), (8, 256), (8, 512), (100, 512), (None, 512), (None, 96), (None, 97), (32, None), (None, None),
    )}  # fmt: skip
    assert named == {
        (64, 512): 64, (16, 512): 16, (8, 256): 8, (8, 512): 16, (100, 512): 16, (None, 512): 16, (None, 96): 4, (None, 97): 97,
        (32, None): None, (None, None): None,
    }  # fmt: skip
    with config.patch(max_buckets=4, min_default_granularity=12):
        assert [buckets_of(Growth(True, least, 96), "s").granularity for least in (8, None, 24)] == [24, 24, 24]
    with config.patch(min_default_granularity=12):
        assert buckets_of(Growth(True, None, 96), "s").granularity == 12


def test_a_minimum_that_is_no_granularity_is_told() -> None:
    with pytest.warns(OptionWarning, match=r"s is padded to multiples of 16: mark_dynamic\(min=100, max=512\)"):
        buckets_of(Growth(True, 100, 512), "s")


def test_marked_bounds_steer_the_programs() -> None:
    """From the first call on, and also for a small graph; another mark is another graph."""

    def programs(sizes: tuple[int, ...], **bounds: int) -> list[int]:
        torch._dynamo.reset()
        more = bounds["min"]  # so that no other graph has such programs
        compiled = torch.compile(lambda x: x.softmax(0) + more, fullgraph=True)
        counts = [launch.counts()["specialisations"]]
        for size in sizes:
            x = torch.randn(size, 7)
            y = x.to("spyre")
            torch._dynamo.mark_dynamic(y, 0, **bounds)
            torch.testing.assert_close(compiled(y).cpu(), x.softmax(0) + more, rtol=1e-4, atol=1e-4)
            counts.append(launch.counts()["specialisations"])
        return [after - before for before, after in itertools.pairwise(counts)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "_WORTHWHILE_CALLS", 40)
        assert programs((17, 20, 32, 33, 48, 30, 96), min=16, max=96) == [1, 0, 0, 1, 0, 0, 1]
        assert programs((49, 60, 96, 50), min=48, max=96) == [1, 0, 0, 0]


def test_inputs_between_others_lie_as_the_padded_graph_says() -> None:
    """Rows of a larger buffer: strides vary, the size does not."""
    compiled = torch.compile(lambda x: x.exp() + 1, dynamic=True, fullgraph=True)
    for size in (21, 22, 37, 60):
        x = torch.randn(4, size)
        result = compiled(x.to("spyre")[:, :3])
        torch.testing.assert_close(result.cpu(), x[:, :3].exp() + 1, rtol=1e-4, atol=1e-4)


def test_inputs_written_in_place() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.sum(0)

    compiled = torch.compile(write, dynamic=True, fullgraph=True)
    for size in (21, 22, 37):
        x = torch.randn(size, 5)
        y, narrow = x.to("spyre"), torch.randn(5, size)
        torch.testing.assert_close(compiled(y).cpu(), x.mul(2).sum(0), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(y.cpu(), x * 2)
        on_card = narrow.to("spyre")
        compiled(on_card[:, :3])
        torch.testing.assert_close(on_card[:, :3].cpu(), narrow[:, :3] * 2)


def test_two_sizes_that_vary_are_not_padded() -> None:
    compiled = torch.compile(lambda x: x.exp() @ x.transpose(0, 1), dynamic=True, fullgraph=True)
    for shape in ((5, 6), (7, 8), (9, 10)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x.to("spyre")).cpu(), x.exp() @ x.t(), rtol=1e-4, atol=1e-4)


def test_a_length_is_padded_beside_a_batch_that_is_a_symbol_too() -> None:
    """For each batch from its second length on, also where both are flattened, and whichever sizes came before."""

    def function(x: torch.Tensor) -> torch.Tensor:
        made = (x.reshape(-1, 8).exp() @ W[:8, :8].to(x)).view(x.shape)
        return (made.transpose(1, 2) @ made).tanh() + made.softmax(1)[:, -3:].sum(1, keepdim=True)

    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    counts = [launch.counts()["specialisations"]]
    for shape in ((3, 33, 8), (2, 9, 8), (2, 13, 8), (2, 40, 8), (3, 35, 8), (3, 64, 8), (4, 20, 8), (4, 21, 8)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x.to("spyre")).cpu(), function(x), rtol=2e-3, atol=2e-3)
        counts.append(launch.counts()["specialisations"])
    taken = [after > before for before, after in itertools.pairwise(counts)]
    assert taken == [True, True, True, False, True, False, True, True]


@pytest.mark.parametrize("name", ["together", "apart"])
def test_sizes_that_are_all_known_to_change_are_taken_to_change_together(name: str) -> None:
    """Until they do not: then the one that does, alone."""
    compiled = torch.compile(lambda x, y: (x.exp() * 2, y.softmax(0) + 1), fullgraph=True)
    counts = [launch.counts()["specialisations"]]
    for size in (21, 22, 37, 60, 40):
        x, y = torch.randn(size if name == "together" else 23, 5), torch.randn(size + 3, 6)
        on_card = x.to("spyre"), y.to("spyre")
        for tensor in on_card:
            torch._dynamo.mark_dynamic(tensor, 0)
        first, second = compiled(*on_card)
        torch.testing.assert_close(first.cpu(), x.exp() * 2, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(second.cpu(), y.softmax(0) + 1, rtol=1e-4, atol=1e-4)
        counts.append(launch.counts()["specialisations"])
    taken = [after - before for before, after in itertools.pairwise(counts)]
    assert taken == ([1, 0, 0, 0, 0] if name == "together" else [1, 1, 0, 0, 0])


def test_a_small_graph_has_programs_of_its_own_for_a_few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_WORTHWHILE_CALLS", 40)
    assert _run(lambda x: x.exp() + 1, (21, 22, 37, 38, 39, 40, 41)) == [1, 1, 1, 1, 1, 0, 0]


def test_threads_launch_one_graph_with_sizes_of_their_own() -> None:
    compiled = torch.compile(lambda x: x.softmax(1), dynamic=True, fullgraph=True)
    compiled(_values(21).to("spyre"))
    problems: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for size in range(first, first + 20):
                x = _values(size)
                torch.testing.assert_close(compiled(x.to("spyre")).cpu(), x.softmax(1), rtol=1e-4, atol=1e-5)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(first,)) for first in (22, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


# --- how views lie ----------------------------------------------------------------------------------------------------------

WHOLE = Value("b", "float32", (2, "s", 6), ("6*s", 6, 1))


def _view(size: tuple[int | str, ...], stride: tuple[int | str, ...], offset: int | str = 0) -> Value:
    return Value("b", "float32", size, stride, offset)


def test_a_view_along_the_padded_dim_is_aligned() -> None:
    found = placement(_view((6, "s", 2), (1, 6, "6*s")), WHOLE, "s", ("s",))
    assert found.steps == ((2, 1), (1, 1), (0, 1)) and found.start == (0, 0, 0) and found.tail is None
    assert placement(_view(("s", 3), (6, 2), "6*s + 1"), WHOLE, "s", ("s",)).start == (1, 0, 1)


def test_rows_at_the_end_begin_where_only_a_launch_knows() -> None:
    found = placement(_view((2, 3, 6), ("6*s", 6, 1), "6*s - 18"), WHOLE, "s", ("s",))
    assert (found.tail, found.back, found.start) == (1, 3, (0, 0, 0))


@pytest.mark.parametrize(
    "view",
    [
        _view((6, "s"), ("s", 1)),  # rows in another order
        _view(("s",), (7,)),  # a diagonal
        _view(("s", 6), (12, 1)),  # every second row
        _view(("s",), (1,)),  # elements of several rows
        _view((2,), ("6*s + 6",)),  # along two dims at once
    ],
)
def test_a_view_that_mixes_rows_is_not_aligned(view: Value) -> None:
    with pytest.raises(NotAligned):
        placement(view, WHOLE, "s", ("s",))


def test_a_constant_place_is_known_from_a_size_on() -> None:
    """Smaller sizes have it in the next block."""
    assert placement(_view((6,), (1,), 6 * 40), WHOLE, "s", ("s",)).least == 41
    assert placement(_view((66, 6), (6, 1)), WHOLE, "s", ("s",)).least == 66
    assert placement(_view((3, 6), (6, 1), "6*s - 30"), WHOLE, "s", ("s",)).least == 5
    assert placement(_view((2, "s", 6), ("6*s", 6, 1)), WHOLE, "s", ("s",)).least == 0


def test_a_place_that_other_symbols_decide_is_told() -> None:
    whole = Value("b", "float32", ("b", "s", 6), ("6*s", 6, 1))
    (inside,) = placement(_view((6,), (1,), "6*s*b - 6"), whole, "s", ("s", "b")).inside
    assert not evaluate(inside[0], {"b": 3}) < evaluate(inside[1], {"b": 3})
    (inside,) = placement(_view(("b", 6), ("6*s", 1), 12), whole, "s", ("s", "b")).inside
    assert evaluate(inside[0], {"b": 3}) < evaluate(inside[1], {"b": 3})


@pytest.mark.parametrize(
    "view",
    [
        _view((8,), (1,)),  # from one row into the next, beside a padded dim
        _view((3,), ("6*s",)),  # more blocks than there are
        _view(("s", 2, 6), (6, 6, 1)),  # windows that leave the block
        _view((4, 6), (6, 1), "6*s - 18"),  # more rows than there are behind
    ],
)
def test_a_view_that_leaves_its_block_is_not_aligned(view: Value) -> None:
    with pytest.raises(NotAligned):
        placement(view, WHOLE, "s", ("s",))
