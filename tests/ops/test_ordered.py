"""cumsum, cumprod, sort, topk: along every dim, of every layout; ties keep their order and NaN counts as the largest."""

import pytest
import torch
from moved import DTYPES, SHAPES, VIEWS, same, values

from openspyre.compiler import pipeline
from openspyre.spec.ops import TABLE, Kind
from torch_spyre import _torch

by_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
by_dtype = pytest.mark.parametrize("dtype", DTYPES)
by_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@by_view
@by_dtype
@by_shape
def test_sorted_rows_and_their_places(shape, dtype, view):
    host = view(values(shape, dtype))
    card = view(values(shape, dtype).to("spyre"))
    for dim in range(host.dim()):
        for descending in (False, True):
            found = card.sort(dim=dim, descending=descending, stable=True)
            wanted = host.sort(dim=dim, descending=descending, stable=True)
            same(found.values, wanted.values)
            same(found.indices, wanted.indices)
    same(card.argsort(dim=-1, stable=True), host.argsort(dim=-1, stable=True))


@by_dtype
@by_shape
def test_the_first_few(shape, dtype):
    host = values(shape, dtype)
    card = host.to("spyre")
    for dim, extent in enumerate(shape):
        for k in {1, extent // 2, extent}:
            for largest in (False, True):
                found = card.topk(k, dim, largest)
                ordered = host.sort(dim=dim, descending=largest, stable=True)
                same(found.values, ordered.values.narrow(dim, 0, k))
                same(found.indices, ordered.indices.narrow(dim, 0, k))


def test_nan_is_larger_than_infinity_and_zeros_are_equal():
    host = torch.tensor([1.0, float("nan"), float("inf"), -0.0, 0.0, float("-inf"), float("nan")])
    for descending in (False, True):
        found = host.to("spyre").sort(descending=descending, stable=True)
        same(found.indices, host.sort(descending=descending, stable=True).indices)


def test_the_largest_of_rows_with_nan():
    host = torch.tensor([[1.0, float("nan"), float("inf"), -0.0, 0.0, float("-inf"), float("nan")]] * 20)
    for dim, x in ((1, host), (0, host.t().contiguous())):
        found, right = x.to("spyre").topk(6, dim), x.sort(dim=dim, descending=True, stable=True)
        same(found.indices, right.indices.narrow(dim, 0, 6))


def test_more_than_there_is():
    with pytest.raises(RuntimeError, match="out of range"):
        torch.ones(3, 5).to("spyre").topk(6)


@by_view
@by_dtype
@by_shape
def test_running_sums(shape, dtype, view):
    """Of whole numbers, so that every partial sum is exact in float32 and the one rounding is the store's."""
    host, card = (view(x) for x in (whole(shape, dtype), whole(shape, dtype).to("spyre")))
    for dim in range(host.dim()):
        same(card.cumsum(dim), host.cumsum(dim))
        same(card.cumprod(dim), host.cumprod(dim))


def whole(shape, dtype):
    """0 and 1 only: sums up to 130 and products are exact in every format."""
    return values(shape, torch.bool).to(dtype)


def test_other_ways_to_ask_for_running_sums():
    host = whole((3, 70), torch.float16)
    card = host.to("spyre")
    same(card.cumsum(1, dtype=torch.float32), host.cumsum(1, dtype=torch.float32))
    same(torch.cumsum(card, 0, out=torch.empty(0, dtype=torch.float16).to("spyre")), host.cumsum(0))
    same(card.clone().cumsum_(1), host.cumsum(1))
    same(torch.tensor(3.0).to("spyre").cumsum(0), torch.tensor(3.0))
    same(card[:0].cumsum(0), host[:0])


def test_sums_run_in_float32_from_the_first_element_on():
    """The contract's order: one accumulator, ascending (N6); float64 would round elsewhere."""
    host = torch.rand(3, 1000, generator=torch.Generator().manual_seed(0))
    wanted = host.clone()
    for i in range(1, 1000):
        wanted[:, i] = wanted[:, i - 1] + host[:, i]
    same(host.to("spyre").cumsum(1), wanted)
    same(host.t().to("spyre").cumsum(0), wanted.t())


RANKS = {1: "topkvalue", 6: "topkvalue", 7: "topkvalue", 8: "topkvalue", 128: "topkvalue", 37: "largest_first"}


@pytest.mark.parametrize("k", RANKS)
def test_the_hardware_finds_as_many_as_cores_can_share(k, lowered_rows):
    """128 at most, four a core, evenly divided: 37 are sorted."""
    host = values((130, 70), torch.float16)
    found, places = host.to("spyre").topk(k, dim=0)
    right = host.sort(dim=0, descending=True, stable=True)
    same(found, right.values[:k])
    same(places, right.indices[:k])
    assert lowered_rows[0] == RANKS[k]


@pytest.fixture
def lowered_rows(monkeypatch):
    """Rows of the ops that eager programs are made of, without moves."""
    rows = []
    run = pipeline.run

    def noted(program, *arguments, **options):
        made = run(program, *arguments, **options)
        rows.extend(op.row for op in made.ops if TABLE[op.row].kind is not Kind.MOVEMENT)
        return made

    monkeypatch.setattr(pipeline, "run", noted)
    _torch.clear_eager_cache()
    return rows
