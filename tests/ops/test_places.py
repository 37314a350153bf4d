"""nonzero on the card: the places of the CPU, no fallback, and nothing compiled for masks that grow."""

import pytest
import torch

from torch_spyre.inductor.reporting.report import compile_report
from torch_spyre.ops import eager

SHAPES = [(5,), (64,), (65,), (1, 1), (3, 0, 2), (7, 9), (2, 3, 70), (1000,), (2, 3, 4, 5)]


@pytest.fixture(autouse=True)
def _no_fallback():
    torch.spyre.set_downcast_warning(False)
    torch.spyre.set_fallback_mode("error")


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float16, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_places_are_those_of_the_cpu(shape, dtype):
    x = (torch.rand(shape, generator=torch.Generator().manual_seed(0)) > 0.6).to(dtype)
    found, expected = x.to("spyre").nonzero(), x.nonzero()
    assert found.dtype is torch.int64 and torch.equal(found.cpu(), expected)
    if len(expected) > 1:
        assert found.stride() == expected.stride()


def test_special_values_count_as_on_the_cpu():
    x = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -1.0])
    assert x.to("spyre").nonzero().flatten().tolist() == [2, 3, 4] == x.nonzero().flatten().tolist()


def test_views_tuples_out_and_numbers():
    x = torch.rand(6, 8, generator=torch.Generator().manual_seed(1)) > 0.5
    card = x.to("spyre")
    assert torch.equal(card.t().nonzero().cpu(), x.t().nonzero())
    assert torch.equal(card[1::2, 3:].nonzero().cpu(), x[1::2, 3:].nonzero())
    assert [t.tolist() for t in card.nonzero(as_tuple=True)] == [t.tolist() for t in x.nonzero(as_tuple=True)]
    out = torch.empty(0, 2, dtype=torch.int64, device="spyre")
    assert torch.equal(torch.nonzero(card, out=out).cpu(), x.nonzero()) and out.shape == x.nonzero().shape
    for value in (0.0, 3.0):
        assert torch.tensor(value).to("spyre").nonzero().shape == torch.tensor(value).nonzero().shape


def test_a_mask_that_grows_compiles_nothing():
    masks = [(torch.rand(1, size, generator=torch.Generator().manual_seed(size)) > 0.8) for size in range(140, 180)]
    masks[0].to("spyre").nonzero()
    before = eager.counts()["compilations"]
    for mask in masks:
        assert torch.equal(mask.to("spyre").nonzero().cpu(), mask.nonzero())
    assert eager.counts()["compilations"] == before


@pytest.mark.parametrize("size", [0, 1, 7, 2000])
@pytest.mark.parametrize("shape", [*SHAPES, ()], ids=str)
def test_as_many_places_as_there_is_room_for_are_those_of_the_cpu(shape, size):
    for dtype in (torch.bool, torch.float16, torch.int64):
        x = (torch.rand(shape, generator=torch.Generator().manual_seed(0)) > 0.6).to(dtype)
        expected = torch.nonzero_static(x, size=size, fill_value=-3)
        found = torch.nonzero_static(x.to("spyre"), size=size, fill_value=-3)
        assert found.dtype is torch.int64 and torch.equal(found.cpu(), expected)
        assert found.stride() == expected.stride()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, of Inductor's modules
def test_places_with_a_bound_do_not_cut_a_graph():
    def rows(x):
        chosen = torch.nonzero_static(x.sum(1) > 0, size=5, fill_value=0)[:, 0]
        return x[chosen] * 2

    x = torch.randn(9, 70, generator=torch.Generator().manual_seed(2))
    compiled = torch.compile(rows, fullgraph=True, dynamic=True)
    for size in (9, 7, 8):
        torch.testing.assert_close(compiled(x[:size].to("spyre")).cpu(), rows(x[:size]))
    assert len(compile_report()[-1].bundles) == 1 and not compile_report()[-1].fallbacks
