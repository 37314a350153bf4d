"""Random operators against a numpy Philox: number i of a draw is a function of seed, offset and i, and of nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from statistics import NormalDist

import numpy as np
import philox
import pytest
import torch

from torch_spyre.ops import eager

CARD = "spyre"
SEED = 0x1234_5678_9ABC
BITS = {torch.float32: 24, torch.float16: 10, torch.bfloat16: 8}
SHAPES = [(), (1,), (3,), (64,), (65,), (1000,), (7, 99), (5, 3, 130), (2, 3, 4, 5), (40, 1, 33)]


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    torch.spyre.manual_seed(SEED)
    torch.spyre.reset_fallback_stats()
    yield
    assert torch.spyre.fallback_stats() == {}


def test_the_reference_gives_the_published_answers() -> None:
    """kat_vectors of Random123."""
    ones = 0xFFFFFFFF
    for counter, key, answer in [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
         (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ]:  # fmt: skip
        made = philox.block(np.array([[word] for word in counter], np.uint64), key)
        assert tuple(int(word) for word in made[:, 0]) == answer


@pytest.mark.parametrize("dtype", BITS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_uniform_numbers_have_their_words_first_bits(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.spyre.default_generators[0].set_offset(8)
    x = torch.rand(shape, dtype=dtype, device=CARD).cpu()
    assert torch.equal(x.float().flatten(), philox.unit(x.numel(), SEED, 8, BITS[dtype]))


@pytest.mark.parametrize("offset", [0, 2**32 - 4, 2**34 - 64, 2**63])
def test_offsets_of_64_bits(offset: int) -> None:
    generator = torch.Generator(device=CARD).manual_seed(2**64 - 5)
    generator.set_offset(offset)
    x = torch.rand(300, device=CARD, generator=generator)
    assert torch.equal(x.cpu(), philox.unit(300, 2**64 - 5, offset))


def test_views_and_layouts_change_no_number() -> None:
    """Places are counted as torch counts elements, wherever they lie."""
    expected = philox.unit(70 * 130, SEED).reshape(70, 130)
    wide = torch.zeros(90, 200, device=CARD)
    turned = torch.empty(130, 70, device=CARD).t()
    shifted = wide[7:77, 33:163]
    channels = torch.empty(2, 5, 7, 130, device=CARD, dtype=torch.float32).permute(0, 2, 1, 3)
    for target in (torch.empty(70, 130, device=CARD), turned, shifted, channels):
        torch.spyre.manual_seed(SEED)
        assert torch.equal(target.uniform_().cpu().reshape(70, 130), expected)
    assert wide.cpu()[:7].eq(0).all() and wide.cpu()[:, :33].eq(0).all() and wide.cpu()[77:].eq(0).all()


@pytest.mark.parametrize("dtype", BITS, ids=str)
def test_the_upper_end_is_never_reached(dtype: torch.dtype) -> None:
    for low, high in ((0.0, 1.0), (-1.0, 1.0), (0.5, 0.75), (1.0, 1.01), (-3.0, -2.0), (100.0, 101.0), (2.0, 2.0)):
        x = torch.empty(20_000, dtype=dtype, device=CARD).uniform_(low, high).cpu()
        least, most = torch.tensor([low, high], dtype=dtype)
        assert x.min() >= least and (x.max() < most or least == most)


@pytest.mark.parametrize("dtype", BITS, ids=str)
def test_normal_numbers_are_quantiles(dtype: torch.dtype) -> None:
    count, mean, deviation = 5000, 0.25, 1.5
    x = torch.empty(count, dtype=dtype, device=CARD).normal_(mean, deviation).cpu()
    words = philox.words(count, SEED)
    normal = NormalDist()
    tails = ((words & 0x7FFFFFFF).astype(np.float64) + 0.5) * 2.0**-31
    exact = np.array([-normal.inv_cdf(tail / 2) for tail in tails]) * np.where(words >> 31, -1, 1) * deviation + mean
    step = {torch.float32: 2.0**-21, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-7}[dtype]
    np.testing.assert_allclose(x.double().numpy(), exact, rtol=step, atol=step / 4)


def test_normal_numbers_around_tensors() -> None:
    mean, deviation = torch.arange(12.0).reshape(3, 4), torch.tensor([[0.0], [1.0], [2.0]])
    around = torch.normal(mean.to(CARD), deviation.expand(3, 4).to(CARD)).cpu()
    torch.spyre.manual_seed(SEED)
    plain = torch.randn(3, 4, device=CARD).cpu()
    assert torch.allclose(around, mean + deviation * plain, rtol=1e-6, atol=1e-6)
    torch.spyre.manual_seed(SEED)
    assert torch.equal(torch.normal(mean.to(CARD), 0.0).cpu(), mean)
    assert torch.normal(2.0, deviation.to(CARD)).cpu()[0].item() == 2.0
    out = torch.empty(3, 4, device=CARD)
    torch.spyre.manual_seed(SEED)
    assert torch.equal(torch.normal(mean.to(CARD), deviation.expand(3, 4).to(CARD), out=out).cpu(), around)


INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32, torch.float16]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("low, high", [(0, 10), (-5, 7), (3, 4), (0, 127)])
def test_whole_numbers(dtype: torch.dtype, low: int, high: int) -> None:
    low = max(low, 0) if dtype is torch.uint8 else low
    x = torch.randint(low, high, (300,), dtype=dtype, device=CARD).cpu()
    assert torch.equal(x.to(torch.int64), philox.integers(300, SEED, low, high))


def test_whole_numbers_of_all_32_bits() -> None:
    least, most = -(2**31), 2**31
    for low, high in ((least, most), (least, most - 1), (0, most), (-1, most)):
        torch.spyre.manual_seed(SEED)
        x = torch.randint(low, high, (300,), dtype=torch.int64, device=CARD).cpu()
        assert torch.equal(x, philox.integers(300, SEED, low, high))


@pytest.mark.parametrize("dtype, last", [
    (torch.bool, 1), (torch.uint8, 255), (torch.int8, 127), (torch.int16, 2**15 - 1), (torch.int32, 2**31 - 1),
    (torch.int64, 2**31 - 1), (torch.float32, 2**24), (torch.float16, 2**10), (torch.bfloat16, 2**8),
], ids=str)  # fmt: skip
def test_whole_numbers_up_to_what_the_type_holds(dtype: torch.dtype, last: int) -> None:
    x = torch.empty(300, dtype=dtype, device=CARD).random_().cpu()
    assert torch.equal(x.to(torch.int64), philox.integers(300, SEED, 0, last + 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64], ids=str)
def test_yes_with_a_probability(dtype: torch.dtype) -> None:
    unit = philox.unit(777, SEED)
    assert torch.equal(torch.empty(777, dtype=dtype, device=CARD).bernoulli_(0.3).cpu(), (unit < 0.3).to(dtype))
    torch.spyre.manual_seed(SEED)
    p = torch.linspace(0, 1, 777)
    assert torch.equal(torch.empty(777, dtype=dtype, device=CARD).bernoulli_(p.to(CARD)).cpu(), (unit < p).to(dtype))
    assert torch.empty(777, dtype=dtype, device=CARD).bernoulli_(1.0).cpu().all()
    assert not torch.empty(777, dtype=dtype, device=CARD).bernoulli_(0.0).cpu().any()


def test_yes_with_probabilities_of_its_own() -> None:
    p = torch.linspace(0, 1, 777)
    expected = (philox.unit(777, SEED) < p).float()
    assert torch.equal(torch.bernoulli(p.to(CARD)).cpu(), expected)
    torch.spyre.manual_seed(SEED)
    out = torch.empty(777, device=CARD)
    assert torch.equal(torch.bernoulli(p.to(CARD), out=out).cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_or_scales(dtype: torch.dtype, p: float) -> None:
    x = torch.linspace(-3, 3, 700).reshape(7, 100).to(dtype).to(CARD).requires_grad_()
    y = torch.nn.functional.dropout(x, p, training=True)
    kept = (philox.unit(700, SEED) < 1 - np.float32(p)).reshape(7, 100)
    p = float(np.float32(p))
    exact = torch.where(kept, x.detach().cpu().double() / (1 - p), 0.0)
    step = {torch.float32: 2.0**-22, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-7}[dtype]
    torch.testing.assert_close(y.detach().cpu().double(), exact, rtol=step, atol=1e-9)
    y.sum().backward()
    torch.testing.assert_close(
        x.grad.cpu().double(), torch.where(kept, 1 / (1 - p), 0.0).double(), rtol=2 * step, atol=0
    )


def test_dropouts_of_whole_features_and_of_selu() -> None:
    x = torch.ones(16, 32, 9, device=CARD)
    features = torch.nn.functional.dropout1d(x, 0.5, training=True).cpu()
    assert set(features.sum(-1).unique().tolist()) == {0.0, 18.0}
    for dropout in (torch.nn.AlphaDropout(0.2), torch.nn.FeatureAlphaDropout(0.2)):
        y = dropout(torch.randn(64, 64, 8, device=CARD)).cpu()
        assert abs(y.mean()) < 0.05 and abs(y.std() - 1) < 0.05


def test_a_leaky_relu_with_random_slopes() -> None:
    x = torch.linspace(-2, 2, 400, device=CARD)
    slopes = torch.nn.functional.rrelu(x, 0.1, 0.3, training=True).cpu() / x.cpu()
    assert slopes[200:].eq(1).all() and slopes[:200].min() >= 0.0999 and slopes[:200].max() < 0.3001
    assert slopes[:200].unique().numel() > 100
    resting = torch.nn.functional.rrelu(x, 0.1, 0.3, training=False).cpu()
    torch.testing.assert_close(resting, torch.nn.functional.leaky_relu(x.cpu(), 0.2))


# --- distributions --------------------------------------------------------------------------------------------------------

NORMAL = NormalDist()
DISTRIBUTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[float], float]]] = {
    "uniform": (lambda x: x.uniform_(-1, 3), lambda t: (t + 1) / 4),
    "normal": (lambda x: x.normal_(1, 2), lambda t: NORMAL.cdf((t - 1) / 2)),
    "exponential": (lambda x: x.exponential_(2.0), lambda t: 1 - np.exp(-2 * t)),
    "log_normal": (lambda x: x.log_normal_(0, 0.5), lambda t: NORMAL.cdf(np.log(t) / 0.5)),
    "cauchy": (lambda x: x.cauchy_(1, 2), lambda t: 0.5 + np.arctan((t - 1) / 2) / np.pi),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_numbers_are_distributed_as_they_should(name: str) -> None:
    """Kolmogorov and Smirnov: the largest distance to the cumulative distribution, at a level of 1e-6."""
    draw, below = DISTRIBUTIONS[name]
    count = 40_000
    x = np.sort(draw(torch.empty(count, device=CARD)).cpu().numpy().astype(np.float64))
    exact = np.array([below(t) for t in x])
    places = np.arange(count)
    distance = max((exact - places / count).max(), ((places + 1) / count - exact).max())
    assert distance < np.sqrt(np.log(2 / 1e-6) / (2 * count))


def test_trials_up_to_the_first_success() -> None:
    p, count = 0.3, 40_000
    x = torch.empty(count, device=CARD).geometric_(p).cpu()
    assert x.min() == 1 and torch.equal(x, x.round())
    assert abs(x.mean() - 1 / p) < 5 * np.sqrt((1 - p) / p**2 / count)
    assert abs((x == 1).float().mean() - p) < 5 * np.sqrt(p * (1 - p) / count)


def chi_square(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((found - expected) ** 2 / expected).sum())


def test_digits_are_equally_frequent_and_in_pairs() -> None:
    """Chi-square with 9 and 99 degrees of freedom, at a level of 1e-6."""
    digits = torch.randint(0, 10, (100_000,), device=CARD).cpu()
    assert chi_square(torch.bincount(digits, minlength=10), torch.full((10,), 10_000.0)) < 47
    pairs = digits[::2] * 10 + digits[1::2]
    assert chi_square(torch.bincount(pairs, minlength=100), torch.full((100,), 500.0)) < 177


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("replacement", [True, False])
def test_samples_by_weight(dtype: torch.dtype, replacement: bool) -> None:
    weights = torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0, 4.0, 0.0])
    rows = weights.expand(10_000, 7).to(dtype).to(CARD)
    drawn = torch.multinomial(rows, 2, replacement).cpu()
    assert drawn.dtype is torch.int64 and drawn.shape == (10_000, 2)
    assert not torch.isin(drawn, torch.tensor([0, 3, 6])).any()
    expected = weights[weights > 0] / 10 * 10_000
    for column in drawn.t() if replacement else (drawn[:, 0],):
        assert chi_square(torch.bincount(column, minlength=7)[weights > 0], expected) < 31  # 3 degrees of freedom, 1e-6
    assert replacement or not (drawn[:, 0] == drawn[:, 1]).any()


def test_one_row_of_weights_and_many_samples() -> None:
    weights = torch.rand(999) ** 4
    drawn = torch.multinomial(weights.to(CARD), 50_000, replacement=True).cpu()
    expected = weights / weights.sum() * 50_000
    often = expected > 20
    score = chi_square(torch.bincount(drawn, minlength=999)[often], expected[often])
    freedom = int(often.sum())
    assert abs(score - freedom) < 6 * np.sqrt(2 * freedom)
    everything = torch.multinomial(torch.ones(500, device=CARD), 500).cpu()
    assert torch.equal(everything.sort()[0], torch.arange(500))


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [float("inf"), 1.0], [float("nan"), 1.0], [0.0, 0.0]], ids=str)
def test_weights_that_are_none(weights: list[float]) -> None:
    drawn = torch.multinomial(torch.tensor(weights, device=CARD), 1)  # looked at when the stream comes to them
    with pytest.raises(RuntimeError, match="probability tensor contains"):
        drawn.cpu()
    assert torch.multinomial(torch.tensor([0.0, 1.0], device=CARD), 1).item() == 1


_BERNOULLI = {
    "bernoulli": lambda p: torch.bernoulli(p),
    "out": lambda p: torch.bernoulli(p, out=torch.empty_like(p)),
    "in place": lambda p: torch.empty_like(p).bernoulli_(p),
}


@pytest.mark.parametrize("name", _BERNOULLI)
@pytest.mark.parametrize("p", [-0.25, 1.5, float("nan"), float("inf")])
def test_probabilities_that_are_none(name: str, p: float) -> None:
    host = torch.full((3, 50), 0.5)
    host[1, 7] = p
    with pytest.raises(RuntimeError, match="p"):
        _BERNOULLI[name](host)
    drawn = _BERNOULLI[name](host.to(CARD))
    with pytest.raises(RuntimeError, match="probabilities to be in"):
        drawn.cpu()
    ends = _BERNOULLI[name](torch.tensor([0.0, 1.0, 0.0], device=CARD))
    assert ends.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("ends", [(0.0, 70000.0), (-70000.0, 0.0), (-40000.0, 40000.0), (1.0, 0.0)], ids=str)
def test_ends_that_no_float16_has(ends: tuple[float, float]) -> None:
    told = []
    for device in ("cpu", CARD):
        x = torch.empty(5, dtype=torch.float16, device=device)
        x.uniform_()  # the key of the next call has its plan
        with pytest.raises(RuntimeError) as raised:
            x.uniform_(*ends)
        told.append(str(raised.value).split("\n")[0])
    assert told[0].replace("c10::Half", "Half") == told[1].replace("c10::Half", "Half")
    assert torch.empty(5, device=CARD).uniform_(0.0, 70000.0).max().item() < 70000.0


@pytest.mark.parametrize("size", [(), (3, 70), (0, 4)], ids=str)
def test_dropout_outside_of_training_runs_on_the_card(size: tuple[int, ...]) -> None:
    torch.spyre.set_fallback_mode("error")
    x = torch.randn(size).to(CARD)
    before = torch.spyre.get_rng_state()
    for call in (x, x.t() if x.dim() == 2 else x):
        kept, mask = torch.native_dropout(call, 0.5, False)
        want, all_of_it = torch.native_dropout(call.cpu(), 0.5, False)
        assert torch.equal(kept.cpu(), want) and kept.stride() == want.stride()
        assert mask.dtype is torch.bool and (torch.equal(mask.cpu(), all_of_it) or not x.numel())
    assert torch.equal(torch.spyre.get_rng_state(), before)


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 5000])
def test_a_permutation_has_every_number_once(n: int) -> None:
    x = torch.randperm(n, device=CARD).cpu()
    assert torch.equal(x.sort()[0], torch.arange(n))
    assert n < 1000 or not torch.equal(x, torch.arange(n))


def test_permutations_are_equally_frequent() -> None:
    found = torch.stack([torch.randperm(3, device=CARD) for _ in range(1200)]).cpu()
    codes = found[:, 0] * 3 + found[:, 1]
    assert chi_square(torch.bincount(codes, minlength=9)[[1, 2, 3, 5, 6, 7]], torch.full((6,), 200.0)) < 36  # 1e-6


# --- what must not matter -------------------------------------------------------------------------------------------------


def test_a_second_draw_compiles_nothing() -> None:
    x = torch.ones(50, 60, device=CARD, dtype=torch.float16)

    def draw(i: int) -> None:
        torch.empty_like(x).uniform_(i, i + 2)
        torch.empty_like(x).normal_(i, 1 + i)
        torch.empty_like(x).bernoulli_(0.1 + 0.1 * i)
        torch.empty_like(x).exponential_(1 + i)
        torch.randint(i, 10 + i, (50, 60), device=CARD)
        torch.nn.functional.dropout(x, 0.1 + 0.1 * i, training=True)

    draw(0)
    before = eager.counts()["compilations"]
    draw(1)
    draw(2)
    assert eager.counts()["compilations"] == before


_PROGRAM = """
import hashlib, torch
torch.spyre.manual_seed(5)
x = torch.randn(300, 700, device="spyre", dtype=torch.float16)
parts = [x, torch.rand(1000, 33, device="spyre"), torch.nn.functional.dropout(x, 0.2), torch.randint(0, 9, (3, 70), device="spyre"),
         torch.empty(99, 77, device="spyre").exponential_(), torch.multinomial(torch.rand(20, 50, device="spyre"), 7)]
print(hashlib.sha256(b"".join(p.cpu().contiguous().numpy().tobytes() for p in parts)).hexdigest())
"""


def test_threads_and_instructions_change_no_number() -> None:
    def run(**switches: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, env={**os.environ, **switches}
        ).stdout.strip()

    results = {
        run(OPENSPYRE_THREADS="1", OPENSPYRE_ISA="baseline"),
        run(OPENSPYRE_THREADS="2"),
        run(OPENSPYRE_THREADS="7"),
    }
    assert len(results) == 1 and len(results.pop()) == len(hashlib.sha256().hexdigest())


@pytest.mark.parametrize("call, words", [
    (lambda x: x.uniform_(2, 1), "uniform_ expects"), (lambda x: x.normal_(0, -1), "normal expects std >= 0.0"),
    (lambda x: x.exponential_(-1.0), "exponential_ expects lambda > 0.0"), (lambda x: x.bernoulli_(1.5), "bernoulli_ expects p"),
    (lambda x: x.random_(5, 3), "'from' to be less than 'to'"), (lambda x: x.geometric_(1.5), "geometric_ expects p"),
    (lambda x: x.cauchy_(0, -1), "cauchy_ expects sigma"), (lambda x: x.log_normal_(0, -1), "log_normal_ expects std"),
    (lambda x: x.to(torch.int8).random_(0, 1000), "out of bounds"),
])  # fmt: skip
def test_numbers_that_make_no_distribution(call: Callable[[torch.Tensor], torch.Tensor], words: str) -> None:
    """At the first call as at a later one, which launches without asking torch."""
    x = torch.empty(33, device=CARD)
    with pytest.raises(RuntimeError, match=words):
        call(x)
    x.uniform_(1, 2).normal_(0, 1).exponential_(1.0).bernoulli_(0.5).random_(1, 3).geometric_(0.5).cauchy_(
        0, 1
    ).log_normal_(0, 1)
    x.to(torch.int8).random_(0, 10)
    with pytest.raises(RuntimeError, match=words):
        call(x)
