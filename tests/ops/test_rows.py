"""Normalisations: the documented sequence of ops, each rounded to its format (contract N4), and near torch in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from oracle import HALVES, assert_rounded, fetch, held, through_card
from samples import FLOATS

from torch_spyre.ops import eager

STEP = 2.0**-24  # half a unit of fp32's last place


def title(value):
    return str(value).removeprefix("torch.")


def draw(*size, dtype=torch.float16, seed=0, spread=2.0):
    return (spread * torch.randn(size, generator=torch.Generator().manual_seed(seed))).to(dtype)


def assert_near(result, exact, dims, slack):
    """16 bits: within four units of the format at the scale of the row. fp32: within what its roundings may do."""
    if result.dtype not in HALVES:
        assert_rounded(result, exact, slack=slack)
        return
    got = fetch(result).double()
    assert got.shape == exact.shape
    unit = 2.0**-9 * exact.abs().amax(dims, keepdim=True)
    wrong = (got - exact).abs() > 4 * unit
    assert not wrong.any(), f"off by {((got - exact).abs() / unit).max()} units"


def softmax_slack(x, dim):
    """The sum is off by n steps at most, the exponent's argument by one step of its size, exp by two units."""
    reach = x.amax(dim, keepdim=True) - x.amin(dim, keepdim=True)
    return F.softmax(x, dim) * (x.shape[dim] + 2 * reach + 12) * STEP


def log_softmax_slack(x, dim):
    exact = F.log_softmax(x, dim)
    return (x.shape[dim] + 4 * (exact.abs() + x.abs().amax(dim, keepdim=True)) + 12) * STEP


def norm_slack(x, dims, weight, bias, centred):
    """Mean and variance are sums of n terms; the first is off in proportion to the mean magnitude."""
    count = int(np.prod([x.shape[d] for d in dims]))
    mean = x.mean(dims, keepdim=True) if centred else torch.zeros_like(x)
    scale = ((x - mean).square().mean(dims, keepdim=True) + 1e-5).rsqrt()
    size = (x.abs() + x.abs().mean(dims, keepdim=True)) * scale
    lost = 1 + x.square().mean(dims, keepdim=True) * scale.square()  # by the difference of mean square and squared mean
    return (2 * count + 24) * STEP * lost * (size * weight.abs() + bias.abs())


SHAPES = [(64, 128), (33, 70), (2, 3, 65), (4, 300), (7,), (5, 1), (1, 5), (1, 1), (2, 2, 3, 4, 70)]
SOFTMAXES = {"softmax": (F.softmax, softmax_slack), "log_softmax": (F.log_softmax, log_softmax_slack)}


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", SOFTMAXES)
def test_softmax_along_every_dim(name, shape, dtype):
    function, slack = SOFTMAXES[name]
    x = draw(*shape, dtype=dtype)
    for dim in range(-1, len(shape) - 1):
        result = function(x.to("spyre"), dim)
        assert result.dtype == dtype
        assert_near(result, function(held(x), dim), dim, slack(held(x), dim))


VIEWS = {
    "transposed": lambda x: x.t(),
    "sliced at an unaligned offset": lambda x: x[3:20, 5:65],
    "strided": lambda x: x[::2, ::3],
    "expanded": lambda x: x[:1].expand(5, 70),
    "a column": lambda x: x[:, 3],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dim", [0, -1])
def test_softmax_of_views(name, dim):
    x = draw(33, 70)
    exact = held(VIEWS[name](x))
    assert_near(F.softmax(VIEWS[name](x.to("spyre")), dim), F.softmax(exact, dim), dim, softmax_slack(exact, dim))


def test_softmax_of_half_as_float():
    x = draw(5, 70)
    result = F.softmax(x.to("spyre"), -1, dtype=torch.float32)
    assert result.dtype == torch.float32
    assert_rounded(result, F.softmax(held(x), -1), slack=softmax_slack(held(x), -1))


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
def test_masked_rows_and_rows_without_a_number(dtype):
    x = draw(6, 70, dtype=dtype)
    x[0, 10:] = float("-inf")
    x[1] = float("-inf")
    x[2, 3] = float("inf")
    x[3, 3] = float("nan")
    result = F.softmax(x.to("spyre"), -1).cpu()
    assert result[1:4].isnan().all()
    assert not result[0].isnan().any() and not result[0, 10:].any() and not result[4:].isnan().any()
    safe = torch._safe_softmax(x.to("spyre"), -1).cpu()
    assert not safe[1].any() and safe[2:4].isnan().all()
    assert torch.equal(safe[[0, 4, 5]], result[[0, 4, 5]])


def test_softmax_into_a_given_tensor():
    x = draw(5, 70)
    out = torch.empty(70, 5, dtype=torch.float16, device="spyre").t()
    assert torch.softmax(x.to("spyre"), -1, out=out) is out
    assert torch.equal(out.cpu(), F.softmax(x.to("spyre"), -1).cpu())


def test_nothing_to_normalise():
    assert F.softmax(torch.empty(0, 5, device="spyre"), -1).shape == (0, 5)
    assert F.softmax(torch.empty(5, 0, device="spyre"), -1).shape == (5, 0)
    assert F.layer_norm(torch.empty(0, 5, device="spyre"), (5,)).shape == (0, 5)


def test_a_scalar_is_a_row_of_one():
    assert F.softmax(torch.tensor(3.0).to("spyre"), 0).item() == 1.0
    assert F.log_softmax(torch.tensor(3.0).to("spyre"), 0).item() == 0.0


NORMALISED = [
    ((33, 70), (70,)),
    ((4, 128), (128,)),
    ((2, 3, 65), (3, 65)),
    ((5, 1), (1,)),
    ((7,), (7,)),
    ((2, 4, 3, 5), (4, 3, 5)),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize("affine", ["", "w", "b", "wb"])
@pytest.mark.parametrize(("shape", "inner"), NORMALISED, ids=str)
def test_layer_norm(shape, inner, affine, dtype):
    x = draw(*shape, dtype=dtype) + 1
    weight = draw(*inner, dtype=dtype, seed=1) if "w" in affine else None
    bias = draw(*inner, dtype=dtype, seed=2) if "b" in affine else None
    result = F.layer_norm(x.to("spyre"), inner, *(None if t is None else t.to("spyre") for t in (weight, bias)))
    wide = [None if t is None else held(t) for t in (weight, bias)]
    dims = list(range(len(shape) - len(inner), len(shape)))
    full = [torch.ones(inner) if wide[0] is None else wide[0], torch.zeros(inner) if wide[1] is None else wide[1]]
    slack = norm_slack(held(x), dims, *full, centred=True)
    assert_near(result, F.layer_norm(held(x), inner, *wide), dims, slack)


def test_layer_norm_tells_its_statistics():
    x = draw(5, 3, 70)
    result, mean, scale = torch.native_layer_norm(x.to("spyre"), (70,), None, None, 1e-5)
    _, wanted_mean, wanted_scale = torch.native_layer_norm(held(x), (70,), None, None, 1e-5)
    assert result.dtype == torch.float16 and mean.dtype == scale.dtype == torch.float32
    assert_rounded(mean, wanted_mean, slack=72 * STEP * held(x).abs().mean(-1, keepdim=True))
    assert_rounded(scale, wanted_scale, slack=144 * STEP * wanted_scale)


def test_layer_norm_of_a_large_mean_loses_what_a_card_loses():
    """The variance is a difference of two means: of numbers around 1000 it keeps 24 bits less 20."""
    x = (draw(4, 256, dtype=torch.float32) + 1000).float()
    exact = F.layer_norm(held(x), (256,))
    off = (fetch(F.layer_norm(x.to("spyre"), (256,))).double() - exact).abs().max()
    lost = 2.0**-24 * 256 * held(x).square().mean() / held(x).var()
    assert off < lost * exact.abs().max()


@pytest.mark.parametrize("number", [0.0, 1.0, 3.3, 100.0, 65504.0])
@pytest.mark.parametrize("dtype", FLOATS, ids=title)
def test_a_row_of_equal_numbers_has_no_variance(number, dtype):
    """Rounding may make it less than nothing, which counts as nothing: no NaN."""
    assert F.layer_norm(torch.full((3, 300), number, dtype=dtype).to("spyre"), (300,)).cpu().isfinite().all()


def sequence(x, name):
    """The documented ops one by one, each in float64 and rounded to SEN169; statistics of a layer norm are fp32."""

    def r(value):
        return through_card(value.float(), torch.float16).double()

    if name == "rms_norm":
        scale = r(r(r(r(x * x).mean(-1, keepdim=True)) + held(torch.tensor(1e-5, dtype=torch.bfloat16))).rsqrt())
        return r(x * scale)
    if name == "layer_norm":
        mean, square = x.mean(-1, keepdim=True), x.square().mean(-1, keepdim=True)
        return r((x - mean) * (square - mean * mean + 1e-5).rsqrt())
    shifted = r(x - x.amax(-1, keepdim=True))
    e = r(shifted.exp())
    total = r(e.sum(-1, keepdim=True))
    return r(e / total) if name == "softmax" else r(shifted - r(total.log()))


SEQUENCES = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:], eps=float(held(torch.tensor(1e-5, dtype=torch.bfloat16)))),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_every_op_of_the_sequence_rounds(name):
    """A sum that ends near a tie may go the other way: one code, in some rows."""
    x = draw(200, 300)
    got, wanted = (fetch(SEQUENCES[name](x.to("spyre"))).double(), sequence(held(x), name))
    off = (got - wanted).abs() > 2.0**-10 * wanted.abs()
    assert off.double().mean() < 0.02
    assert ((got - wanted).abs() <= 2.0**-8 * wanted.abs() + 2.0**-24).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "inner"), NORMALISED, ids=str)
def test_rms_norm(shape, inner, weighted, dtype):
    x = draw(*shape, dtype=dtype)
    weight = draw(*inner, dtype=dtype, seed=1) if weighted else None
    result = F.rms_norm(x.to("spyre"), inner, None if weight is None else weight.to("spyre"), eps=1e-5)
    wide = None if weight is None else held(weight)
    dims = list(range(len(shape) - len(inner), len(shape)))
    ones = torch.ones(inner) if wide is None else wide
    slack = norm_slack(held(x), dims, ones, torch.zeros(inner), centred=False)
    assert_near(result, F.rms_norm(held(x), inner, wide, eps=1e-5), dims, slack)


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
def test_the_default_eps_of_rms_norm_is_that_of_torch(dtype):
    x = torch.full((1, 4), 1e-4).to(dtype)
    mine, theirs = F.rms_norm(x.to("spyre"), (4,)).cpu().float(), F.rms_norm(x, (4,)).float()
    torch.testing.assert_close(mine, theirs, rtol=2.0**-7, atol=0)


GRADIENTS = {
    "softmax": lambda x, w, b: F.softmax(x, -1),
    "log_softmax along a loop": lambda x, w, b: F.log_softmax(x, 0),
    "layer_norm": lambda x, w, b: F.layer_norm(x, (70,), w, b),
    "layer_norm without a weight": lambda x, w, b: F.layer_norm(x, (70,)) * w + b,
    "layer_norm of everything": lambda x, w, b: F.layer_norm(x, (5, 70)),
    "rms_norm": lambda x, w, b: F.rms_norm(x, (70,), w) + b,
    "rms_norm without a weight": lambda x, w, b: F.rms_norm(x, (70,)) * w + b,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    function = GRADIENTS[name]
    host = [draw(5, 70, dtype=torch.float32), *(draw(70, dtype=torch.float32, seed=s) for s in (1, 2))]
    card = [t.to("spyre").requires_grad_() for t in host]
    wide = [t.double().requires_grad_() for t in host]
    gradient = draw(5, 70, dtype=torch.float32, seed=3)
    function(*wide).backward(gradient.double())
    function(*card).backward(gradient.to("spyre"))
    for mine, theirs in zip(card, wide, strict=True):
        if theirs.grad is not None:
            torch.testing.assert_close(mine.grad.cpu().double(), theirs.grad, rtol=1e-4, atol=2e-5)


def test_a_second_call_compiles_nothing():
    x, y = draw(9, 70).to("spyre"), draw(9, 70, seed=1).to("spyre")
    F.softmax(x, -1), F.layer_norm(x, (70,))
    before = eager.counts()["compilations"]
    F.softmax(y, -1), F.layer_norm(y, (70,))
    assert eager.counts()["compilations"] == before


def test_errors_are_those_of_torch():
    host = torch.ones(3, 4)
    for wrong in (lambda x: F.softmax(x, 2), lambda x: F.layer_norm(x, (3,)), lambda x: F.rms_norm(x, (3,))):
        with pytest.raises((RuntimeError, IndexError)) as theirs:
            wrong(host)
        with pytest.raises(type(theirs.value)) as mine:
            wrong(host.to("spyre"))
        assert str(mine.value).splitlines()[0] == str(theirs.value).splitlines()[0]
