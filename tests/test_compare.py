"""`torch_spyre.compare` finds error where it was put, and tells rounding from what is inherited."""

import json
import math

import pytest
import torch
from torch import Tensor, nn

import torch_spyre
from openspyre.spec.errors import InvalidArgument
from torch_spyre.comparing.measures import difference

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, while Inductor loads


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.last(self.act(self.first(x)))
        x[:, :8] += 1.0  # written through a view
        return x.transpose(0, 1)


def off(here: Tensor, truth: Tensor) -> float:
    return float((here - truth).norm() / truth.norm())


def test_the_result_is_as_far_off_as_two_runs_are() -> None:
    torch.manual_seed(0)
    model, x = Block(), torch.randn(96, 64)
    found = torch_spyre.compare(model, x, dtype=torch.float16)
    with torch.no_grad():
        truth = model(x.clone())
        here = model.half().to("spyre")(x.half().to("spyre")).float().cpu()
    assert found.result is not None
    assert found.result.relative == pytest.approx(off(here, truth), rel=1e-3)
    assert 1e-4 < found.result.relative < 4e-3
    assert [module.path for module in found.modules] == ["first", "act", "last", ""]


def test_what_an_operator_rounds_is_a_share_of_a_unit() -> None:
    """A correctly rounded sum of SEN169 numbers is half a unit off at most, whatever its inputs bring along."""
    torch.manual_seed(0)
    x, y = torch.randn(64, 64), torch.randn(64, 64)
    found = torch_spyre.compare(lambda a, b: (a * b) + a, x, y, dtype=torch.float16)
    product, total = found.operators
    assert (product.name, total.name) == ("mul.Tensor", "add.Tensor")
    for one in found.operators:
        assert 0.25 < one.own.units <= 0.5
        assert one.inherited.relative > 1e-4
    exact = x.half().double()
    stored = torch.tensor(exact.tolist(), dtype=torch.float16).to("spyre").float().cpu()
    assert product.inherited.relative < 3 * off(stored, x)


def test_error_is_found_where_it_enters() -> None:
    wide = torch_spyre.compare(nn.Sequential(nn.Linear(64, 64), Saturating()), torch.randn(32, 64), dtype=torch.float16)
    assert wide.first_beyond is not None and wide.first_beyond.path == "1"
    worst = wide.worst(1)[0]
    assert (worst.name, worst.module) == ("exp", "1") and worst.own.saturated > 0


class Saturating(nn.Module):
    """e^30 is beyond the card's 16 bits, and not beyond float32; what is infinite then makes NaN."""

    def forward(self, x: Tensor) -> Tensor:
        large = torch.exp(x.abs() + 30)
        return large / large


def test_decisions_that_differ_are_counted() -> None:
    x = torch.linspace(1, 1.01, 64)  # closer together than the card's numbers
    found = torch_spyre.compare(torch.gt, x, torch.full((64,), 1.003), dtype=torch.float16)
    assert found.operators[0].total.decided > 0 == found.operators[0].own.decided


def test_random_numbers_and_missing_operators_follow_the_card() -> None:
    found = torch_spyre.compare(lambda a: torch.rand_like(a) + a, torch.randn(64, 64))
    assert any(why == "random numbers" for _, why in found.followed)
    assert found.operators[-1].total.relative < 1e-6  # float32 on both sides


def test_what_the_cpu_does_not_compute_is_told() -> None:
    @torch.library.custom_op("test_compare::doubled", mutates_args=(), device_types="spyre")
    def doubled(x: Tensor) -> Tensor:
        return x + x

    found = torch_spyre.compare(lambda a: doubled(a) + 1, torch.randn(64, 64), dtype=torch.float16)
    (told,) = [why for name, why in found.followed if "doubled" in name]
    assert told.startswith("the CPU does not compute it: ")
    assert "doubled" in str(found)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_norms_of_batches_and_recurrent_cells_are_measured(kind: type[nn.Module], train: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(16), kind(16, 16, batch_first=True)).train(train)
    found = torch_spyre.compare(
        model, torch.randn(1, 16, 16), dtype=torch.float16
    )  # a batch of one: transposed in place
    assert not found.followed
    (norm, recurrent, _) = found.modules
    assert 1e-5 < norm.total.relative < 4e-3 and 1e-5 < recurrent.total.relative < 4e-3
    assert found.worst(1)[0].own.units < 8


def test_counts_of_whole_numbers_are_measured() -> None:
    found = torch_spyre.compare(lambda x: torch.histc(x, 4, 0, 3), torch.tensor([0, 1, 1, 3], dtype=torch.int32))
    assert not found.followed and not found.operators[-1].total.decided


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: torch.sort(x, descending=True)[1],
        lambda x: torch.topk(x, 40)[1],
        lambda x: torch.max(x, 1)[1],
        lambda x: torch.argmin(x, -1, keepdim=True),
        torch.argmax,
    ],
    ids=["sort", "topk", "max", "argmin", "argmax"],
)
def test_which_of_equal_numbers_comes_first_is_no_error(choose) -> None:
    torch.manual_seed(0)
    x, rows = torch.randint(0, 3, (50, 50)).float(), torch.randn(2500, 8)
    found = torch_spyre.compare(lambda x, rows: rows[choose(x)] * 2, x, rows)
    assert found.first_beyond is None and found.operators[-1].total.relative < 1e-6


def test_a_tensor_that_gets_other_sizes_is_followed() -> None:
    def turned(x: Tensor, y: Tensor) -> Tensor:
        x.t_()
        torch.mul(x, 2, out=y)
        return y.unsqueeze_(0) + 1

    found = torch_spyre.compare(turned, torch.randn(8, 8), torch.empty(0))
    assert found.operators[-1].total.relative < 1e-6
    assert [one.shape for one in found.operators] == [(8, 8), (1, 8, 8)]


class Cache:
    """Of a model that remembers what it was given."""

    def __init__(self) -> None:
        self.kept, self.layers, self.device = torch.ones(4, 8), [torch.zeros(1, 8)], torch.device("cpu")

    def update(self, x: Tensor) -> Tensor:
        self.kept[:1] += x.to(self.device)
        self.layers.append(x)
        return torch.cat([self.kept, *self.layers])


def test_a_cache_comes_along_and_stays_as_it_was() -> None:
    cache, x = Cache(), torch.randn(1, 8)
    found = torch_spyre.compare(lambda x, cache: cache.update(x) * 3, x, kwargs={"cache": cache}, dtype=torch.float16)
    assert found.operators[-1].shape == (6, 8) and found.operators[-1].total.relative < 4e-3
    assert len(cache.layers) == 1 and torch.equal(cache.kept, torch.ones(4, 8)) and cache.kept.device.type == "cpu"


def test_attention_and_what_stays_in_float32() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 4, 32, 64) for _ in range(3))
    found = torch_spyre.compare(nn.functional.scaled_dot_product_attention, q, k, v, dtype=torch.float16)
    assert not found.followed
    assert 1e-4 < found.operators[-1].own.relative < 1e-2


def test_a_model_on_the_card_or_compiled_is_compared_as_it_is() -> None:
    model, x = nn.Linear(64, 64).half().to("spyre"), torch.randn(8, 64).half().to("spyre")
    plain = torch_spyre.compare(model, x)
    assert plain == torch_spyre.compare(torch.compile(model), x)
    assert model.weight.device.type == "spyre" and all(not w.stored.relative for w in plain.weights)


def test_the_model_stays_as_it_was() -> None:
    model, x = Block(), torch.randn(8, 64)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    kept = x.clone()
    torch_spyre.compare(model, x, dtype=torch.float16)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(x, kept) and not model._forward_hooks and not model.first._forward_pre_hooks


def test_json_has_everything_and_the_table_names_what_is_far_off() -> None:
    found = torch_spyre.compare(nn.Sequential(nn.Linear(64, 64), Saturating()), torch.randn(4, 64), dtype=torch.float16)
    record = json.loads(found.json())
    assert len(record["operators"]) == len(found.operators) > 3
    assert "the first module beyond 1%: 1 (Saturating)" in str(found)
    assert "saturated" in str(found)


@pytest.mark.parametrize(("model", "bound", "words"), [(3, 0.01, "not a int"), (nn.ReLU(), 0.0, "above 0")])
def test_mistakes_are_told(model: object, bound: float, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        torch_spyre.compare(model, torch.ones(4), bound=bound)  # type: ignore[arg-type]


def test_measures() -> None:
    truth = torch.tensor([1.0, -2.0, 2.0**-40, 5.0, math.inf])
    here = torch.tensor([1.0, math.nan, 0.0, math.inf, math.inf])
    found = difference(here, truth, torch.float16)
    assert (found.saturated, found.flushed, found.not_numbers, found.relative) == (1, 1, 1, pytest.approx(2.0**-40))
    off_by_one = difference(torch.tensor([1.0 + 2.0**-9]), torch.tensor([1.0]), torch.float16)
    assert off_by_one.units == pytest.approx(1.0) and off_by_one.relative == pytest.approx(2.0**-9)
    assert difference(torch.ones(3), torch.ones(2), torch.float16).decided == 3
