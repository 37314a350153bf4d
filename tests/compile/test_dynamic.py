"""Sizes that change: one Dynamo graph serves them all, a size that is only known at run time included."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from torch_spyre.inductor.reporting.report import compile_report
from torch_spyre.ops import composed

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations


def assert_close(result, right, **limits):
    torch.testing.assert_close(result.float().cpu(), right.float(), **(limits or {"rtol": 1e-4, "atol": 1e-5}))


def block(x, w):
    return F.softmax(F.gelu(x @ w), -1).transpose(0, 1).reshape(x.shape[1], -1).sum(-1)


def views(x):
    pairs = x.view(x.shape[0], -1, 3).transpose(1, 2)
    return torch.cat([pairs, pairs.flip(1)], -1)[:, 1:].flatten(1) * x.shape[0]


def norm(x, w):
    return F.layer_norm(x, (33,), w) + x.mean(0) + torch.arange(x.shape[0], device=x.device)[:, None]


def masked(x):
    size = x.shape[-1]
    mask = torch.ones(size, size, device=x.device, dtype=torch.bool).tril()
    return x.masked_fill(~mask, float("-inf")).softmax(-1)


GRAPHS = {
    "block": (block, lambda n: (torch.randn(n, 5, 33), torch.randn(33, 7))),
    "views": (views, lambda n: (torch.randn(n, 12),)),
    "norm": (norm, lambda n: (torch.randn(n, 33), torch.randn(33))),
    "masked": (masked, lambda n: (torch.randn(2, n, n),)),
    "padded": (lambda x: F.pad(x, (1, 2)).cumsum(0), lambda n: (torch.randn(n, 5),)),
    "embedded": (
        lambda i, w: F.embedding(i, w) * i.shape[0] ** 0.5,
        lambda n: (torch.arange(n) % 9, torch.randn(9, 16)),
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("how", ["dynamic", "marked"])
def test_one_graph_serves_many_sizes(name, how):
    function, make = GRAPHS[name]
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(function, backend=counter, dynamic=True if how == "dynamic" else None, fullgraph=True)
    for size in (6, 9, 34, 64, 71):  # none is another dim's extent
        torch.manual_seed(size)
        inputs = make(size)
        moved = [value.to("spyre") for value in inputs]
        if how == "marked":
            for dim, extent in enumerate(moved[0].shape):
                if extent == size:
                    torch._dynamo.mark_dynamic(moved[0], dim)
        assert_close(compiled(*moved), function(*inputs))
    assert counter.frame_count == 1, "Dynamo compiled again for another size"


def test_a_growing_cache_is_compiled_once():
    def step(q, keys, values, k, v):
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        return F.scaled_dot_product_attention(q, keys, values), keys, values

    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(step, backend=counter, dynamic=True)
    torch.manual_seed(0)
    keys, values = torch.randn(1, 2, 3, 16), torch.randn(1, 2, 3, 16)
    on_card = [keys.to("spyre"), values.to("spyre")]
    for _ in range(6):
        q, k, v = torch.randn(3, 1, 2, 1, 16)
        right, keys, values = step(q, keys, values, k, v)
        result, *on_card = compiled(q.to("spyre"), *on_card, k.to("spyre"), v.to("spyre"))
        assert_close(result, right)
    assert_close(on_card[0], keys)
    assert counter.frame_count == 1


def test_torch_makes_a_second_graph_dynamic_by_itself():
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(lambda x: x.exp() * 2 + x.sum(), backend=counter)
    for size in (5, 9, 17, 33, 65):
        x = torch.randn(size, 3)
        assert_close(compiled(x.to("spyre")), x.exp() * 2 + x.sum())
    assert counter.frame_count == 2


def test_sizes_that_only_the_data_knows():
    def positive(x):
        found = x[x > 0]
        return found * 2 + 1

    torch.spyre.set_fallback_mode("silent")  # nonzero and masks as indices are the CPU's
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        compiled = torch.compile(positive, fullgraph=True)
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(40)
            assert_close(compiled(x.to("spyre")), positive(x))


def test_numbers_that_only_the_data_knows():
    def scaled(x):
        return x * x.amax().item() + x.sum().int().item()

    def sliced(x, n):
        n = n.item()
        torch._check(n <= x.shape[0])
        return x[:n].sum(0) + 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        x = torch.randn(8, 33)
        assert_close(torch.compile(scaled, fullgraph=True)(x.to("spyre")), scaled(x))
        compiled = torch.compile(sliced, fullgraph=True)
        for n in (3, 5):
            assert_close(compiled(x.to("spyre"), torch.tensor(n, device="spyre")), sliced(x, torch.tensor(n)))


def test_a_size_that_is_read_off_what_the_launch_makes_is_reckoned_from_the_inputs(monkeypatch):
    """Library operators that are composed in graphs read sizes of what they are given; another launch would have to make it."""

    @torch.library.custom_op("openspyre_tests::capped", mutates_args=())
    def capped(rows: torch.Tensor) -> torch.Tensor:
        return rows.clamp(max=rows.shape[0] * 2 - 20)

    capped.register_fake(lambda rows: torch.empty(rows.size(0), rows.size(1), dtype=rows.dtype, device=rows.device))
    overload = torch.ops.openspyre_tests.capped.default
    monkeypatch.setitem(composed.ADOPTED, overload, lambda rows: rows.clamp(max=rows.shape[0] * 2 - 20))
    compiled = torch.compile(lambda x: capped(x.softmax(-1).reshape(-1, 4) * 64), dynamic=True, fullgraph=True)
    for shape in ((3, 5, 8), (2, 7, 8)):
        x = torch.randn(shape)
        assert_close(compiled(x.to("spyre")), (x.softmax(-1).reshape(-1, 4) * 64).clamp(max=x.numel() // 2 - 20))
    assert len(compile_report()[-1].bundles) == 1 and not compile_report()[-1].fallbacks


def test_numbers_of_the_caller_may_change():
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(lambda x, n, f: x * n + f, backend=counter, dynamic=True)
    x = torch.randn(4, 33)
    for n, f in ((3, 0.5), (7, 1.25), (9, -2.0)):
        assert_close(compiled(x.to("spyre"), n, f), x * n + f)
    assert counter.frame_count <= 2


def test_an_exported_module_is_compiled():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5)).eval()
    x = torch.randn(6, 16)
    with torch.no_grad():
        right = model(x)
    moved = model.to("spyre")
    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(moved, (x.to("spyre"),), dynamic_shapes=({0: rows},))
    compiled = torch.compile(exported.module(), fullgraph=True)
    assert_close(compiled(x.to("spyre")), right)
    assert_close(compiled(x[:3].to("spyre")), right[:3])


EDGES = {
    "softmax": (lambda x: x.softmax(-1) * x.shape[-1], lambda n: (torch.randn(3, n),)),
    "sum": (lambda x: x.sum(0) + x.shape[0], lambda n: (torch.randn(n, 33),)),
    "sum along": (lambda x: x.sum(-1), lambda n: (torch.randn(3, n),)),
    "rows of a product": (lambda x, y: torch.relu(x @ y), lambda n: (torch.randn(n, 33), torch.randn(33, 7))),
    "inside of a product": (lambda x, y: x @ y, lambda n: (torch.randn(4, n), torch.randn(n, 6))),
    "half of it": (lambda x: x[:, : x.shape[1] // 2] + 1, lambda n: (torch.randn(3, n),)),
    "all but three": (lambda x: x[3:] * 2, lambda n: (torch.randn(n, 33),)),
    "turned": (lambda x: x.t().contiguous() - x.flip(0).t(), lambda n: (torch.randn(n, 33),)),
    "joined": (lambda x, y: torch.cat([x, y, x], -1).cumsum(-1), lambda n: (torch.randn(3, n), torch.randn(3, 5))),
    "split": (lambda x: x.view(-1, 11) * 2, lambda n: (torch.randn(n, 33),)),
    "written": (lambda x: x.mul_(2)[:, ::2].neg_(), lambda n: (torch.randn(3, n),)),
    "attended": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k),
        lambda n: (torch.randn(1, 2, 3, 16), torch.randn(1, 2, n, 16)),
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_sizes_around_a_stick_one_and_none(name):
    function, make = EDGES[name]
    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    for size in (5, 1, 0, 63, 64, 65, 1, 0, 128):
        torch.manual_seed(size)
        inputs = make(size)
        moved = [value.to("spyre") for value in inputs]
        assert_close(compiled(*moved), function(*inputs), rtol=1e-4, atol=1e-4, equal_nan=True)
        for mine, theirs in zip(moved, inputs, strict=True):
            assert torch.equal(mine.cpu(), theirs)


def test_batches_of_any_size_step_through_their_caches():
    """One graph writes the next place of a cache and attends to all of it, whatever the batch."""

    def step(q, k, keys, place, mask):
        keys.index_copy_(2, place, k)
        return F.scaled_dot_product_attention(q, keys, keys, attn_mask=mask)

    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(step, backend=counter, dynamic=True, fullgraph=True)
    for batch in (5, 3, 9, 5):
        torch.manual_seed(batch)
        keys = torch.zeros(batch, 2, 70, 16)
        cache = keys.to("spyre")
        for place in (0, 1, 63, 64):
            q, k = torch.randn(2, batch, 2, 1, 16)
            mask = (torch.arange(70) <= place)[None, None, None]
            given = (q, k, keys, torch.tensor([place]), mask)
            right = step(*given)
            result = compiled(*(value.to("spyre") if value is not keys else cache for value in given))
            assert_close(result, right)
            assert torch.equal(cache.cpu(), keys)
    assert counter.frame_count == 1
