"""Infinity, -infinity and NaN in 16 bits (contract N2): apart on every way, and seen by operators as torch sees them."""

import copy
import io

import pytest
import torch

INF = float("inf")
HALVES = [torch.float16, torch.bfloat16]


def specials(dtype):
    """All three beside ordinary numbers, at every place of a stick."""
    row = torch.tensor([INF, -INF, float("nan"), 1.5, -0.0, -2.25, 0.0], dtype=dtype)
    return row.repeat(30)[: 3 * 65].reshape(3, 65)


def kinds(x):
    """+1 and -1 for the infinities, 2 for NaN, 0 for numbers, and the numbers themselves."""
    x = x.float()
    return torch.where(x.isnan(), 2.0, x.isinf() * x.sign()), x.nan_to_num(0, 0, 0)


def assert_same_kinds(got, wanted):
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    for mine, theirs in zip(kinds(got), kinds(wanted), strict=True):
        assert torch.equal(mine, theirs)


def saved(x):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file)


WAYS = {
    "there and back": lambda x: x,
    "transpose": lambda x: x.t(),
    "transposed copy": lambda x: x.t().contiguous(),
    "permute": lambda x: x.reshape(3, 5, 13).permute(2, 0, 1).contiguous(),
    "view": lambda x: x[1:, 3:61],
    "every other": lambda x: x[:, ::2].clone(),
    "cat": lambda x: torch.cat([x, x.flip(1)], 1),
    "index": lambda x: x[torch.tensor([2, 0], device=x.device)],
    "pad": lambda x: torch.nn.functional.pad(x, (3, 2), value=INF),
    "to float32": lambda x: x.float(),
    "to float32 and back": lambda x: x.float().to(x.dtype),
    "expand": lambda x: x[None].expand(4, 3, 65) * 1,
    "in place": lambda x: torch.zeros_like(x).copy_(x),
    "deepcopy": copy.deepcopy,
    "saved": saved,
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_they_stay_apart_on_every_way(way, dtype):
    x = specials(dtype)
    assert_same_kinds(WAYS[way](x.to("spyre")).cpu(), WAYS[way](x))


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_graph_keeps_them_apart(dtype):
    ways = [way for name, way in WAYS.items() if name not in ("deepcopy", "saved")]
    x = specials(dtype)

    def function(x):
        return [way(x) for way in ways]

    for got, wanted in zip(torch.compile(function)(x.to("spyre")), function(x), strict=True):
        assert_same_kinds(got.cpu(), wanted)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_every_pattern_of_the_host_keeps_its_kind(dtype):
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)
    back = x.to("spyre").cpu()
    assert torch.equal(back.isnan(), x.isnan())
    assert back[x.isinf()].equal(x[x.isinf()])
    limit = 65504 if dtype is torch.float16 else 8568963072.0  # from there on a number is infinite
    assert torch.equal(back.isinf(), (x.float().abs() >= limit) & ~x.isnan())


OPERATORS = {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isposinf": torch.isposinf,
    "isneginf": torch.isneginf,
    "isfinite": torch.isfinite,
    "nan_to_num": lambda x: torch.nan_to_num(x, 1, 2, 3),
    "equal": lambda x: x == x,
    "less": lambda x: x < 1,
    "greater": lambda x: x > torch.finfo(torch.float16).max,
    "minus itself": lambda x: x - x,
    "reciprocal": lambda x: 1 / x,
    "times zero": lambda x: x * 0,
    "negative": torch.neg,
    "abs": torch.abs,
    "where": lambda x: torch.where(x.isnan(), INF, x),
    "clamp": lambda x: x.clamp(-2, 2),
    "clamp to infinities": lambda x: x.clamp(-INF, INF),
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
    "maximum": lambda x: torch.maximum(x, x.flip(1)),
    "fmax": lambda x: torch.fmax(x, x.flip(1)),
    "max": lambda x: x.amax(1),
    "min of numbers": lambda x: torch.where(x.isnan(), INF, x).amin(1),
    "max of numbers": lambda x: torch.where(x.isnan(), -INF, x).amax(0),
    "argmax": lambda x: x.argmax(1),
    "argmin of numbers": lambda x: torch.where(x.isnan(), INF, x).argmin(1),
    "sum": lambda x: x.sum(1),
    "sum of infinities": lambda x: x[:, :1].sum(0),
    "nansum": lambda x: x.nansum(1),
    "sort": lambda x: x.sort(1).values,
    "cumulated": lambda x: x.cummax(1).values,
    "softmax": lambda x: x.softmax(1),
    "masked": lambda x: x.new_ones(3, 65).masked_fill(x.isnan(), -INF).softmax(1).isnan(),
    "fully masked": lambda x: x.new_full((3, 65), -INF).softmax(1),
    "lowest number": lambda x: x.new_full((3, 65), torch.finfo(torch.float16).min).softmax(1).isnan(),
    "overflow": lambda x: torch.where(x.isfinite(), x, 0.0).float().mul(3e38).to(x.dtype),
    "fallback": lambda x: x.logcumsumexp(1),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_see_what_torch_sees(name, dtype):
    x = specials(dtype)
    got, wanted = OPERATORS[name](x.to("spyre")).cpu(), OPERATORS[name](x)
    if not wanted.is_floating_point():
        assert torch.equal(got, wanted)
        return
    assert torch.equal(kinds(got)[0], kinds(wanted)[0])
    torch.testing.assert_close(kinds(got)[1], kinds(wanted)[1], rtol=2**-7, atol=0)


def test_attention_that_may_look_at_nothing_is_zero_and_nan_is_seen():
    q, k, v = (torch.randn(1, 2, 4, 64).half() for _ in range(3))
    mask = torch.zeros(4, 4).half()
    mask[1] = -INF
    v[0, 1, 2, 5] = float("nan")
    got = torch.nn.functional.scaled_dot_product_attention(*(t.to("spyre") for t in (q, k, v, mask))).cpu()
    assert not got[0, 0, 1].any() and not got[0, 0].isnan().any()
    assert got[0, 1, [0, 2, 3], 5].isnan().all()
