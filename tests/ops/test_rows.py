"""Normalisations against torch in float64 on the values the card holds: fp32 in between, rounded once (contract N4)."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from oracle import assert_rounded, fetch, held
from samples import FLOATS

from openspyre import backend
from openspyre.card import arrays, programs
from openspyre.compiler import emit, ir, pipeline
from torch_spyre.ops import eager

STEP = 2.0**-24  # half a unit of fp32's last place


def title(value):
    return str(value).removeprefix("torch.")


def draw(*size, dtype=torch.float16, seed=0, spread=2.0):
    return (spread * torch.randn(size, generator=torch.Generator().manual_seed(seed))).to(dtype)


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
    return (2 * count + 24) * STEP * (size * weight.abs() + bias.abs())


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
        assert_rounded(result, function(held(x), dim), slack=slack(held(x), dim))


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
    assert_rounded(F.softmax(VIEWS[name](x.to("spyre")), dim), F.softmax(exact, dim), slack=softmax_slack(exact, dim))


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
    assert_rounded(result, F.layer_norm(held(x), inner, *wide), slack=slack)


def test_layer_norm_tells_its_statistics():
    x = draw(5, 3, 70)
    result, mean, scale = torch.native_layer_norm(x.to("spyre"), (70,), None, None, 1e-5)
    _, wanted_mean, wanted_scale = torch.native_layer_norm(held(x), (70,), None, None, 1e-5)
    assert result.dtype == torch.float16 and mean.dtype == scale.dtype == torch.float32
    assert_rounded(mean, wanted_mean, slack=72 * STEP * held(x).abs().mean(-1, keepdim=True))
    assert_rounded(scale, wanted_scale, slack=144 * STEP * wanted_scale)


def test_layer_norm_of_a_large_mean_keeps_its_variance():
    x = (draw(4, 256, dtype=torch.float32) + 1000).float()
    exact = F.layer_norm(held(x), (256,))
    assert (fetch(F.layer_norm(x.to("spyre"), (256,))).double() - exact).abs().max() < 1e-3


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
    assert_rounded(result, F.rms_norm(held(x), inner, wide, eps=1e-5), slack=slack)


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


def test_the_three_documented_ops_make_a_layer_norm():
    """exx2 -> layernormscale -> layernormnorm, as a program of the compiler, without torch."""
    rows, width = 9, 130
    data = np.random.default_rng(0).normal(1, 2, (rows, width)).astype(np.float16)
    dims = (ir.Dim("rows", rows), ir.Dim("width", width))
    along = (dims[0], ir.Dim("width", width, reduced=True))
    temps = [ir.Buffer(name, "float32", (rows, 1), (1, 1), ir.Role.TEMP) for name in ("mean", "square", "scale")]
    flat = [ir.Buffer(name, "float16", (width,), (1,), ir.Role.INPUT) for name in ("weight", "bias")]
    ends = [
        ir.Buffer(n, "float16", (rows, width), (width, 1), r)
        for n, r in (("x", ir.Role.INPUT), ("out", ir.Role.OUTPUT))
    ]
    x, out = (ir.Access(buffer.name, 0, (width, 1), "float16") for buffer in ends)
    mean, square, scale = (ir.Access(buffer.name, 0, (1, 0), "float32") for buffer in temps)
    weight, bias = (ir.Access(buffer.name, 0, (0, 1), "float16") for buffer in flat)
    eps = ir.Scalar("eps", "float32")
    with_layouts = tuple(
        ir.Buffer(b.name, b.dtype, b.size, b.stride, b.role, arrays.SpyreTensorLayout(list(b.size), b.dtype))
        for b in (*ends, *flat)
    )
    program = ir.Program(
        "layer_norm",
        (*with_layouts, *temps),
        (
            ir.Op("moments", "exx2", along, (x,), (mean, square), (("zero_mean", False),)),
            ir.Op("scale", "layernormscale", dims[:1], (_one_dim(mean), _one_dim(square), eps), (_one_dim(scale),)),
            ir.Op("norm", "layernormnorm", dims, (x, mean, scale, weight, bias), (out,)),
        ),
        (eps,),
    )
    loaded = programs.load(backend.FuseSteps().run(backend.compile_bundle(emit.emit(pipeline.run(program)))))
    affine = np.random.default_rng(1).normal(0, 1, (2, width)).astype(np.float16)
    held_on_card = {
        n: arrays.to_card(v) for n, v in (("x", data), ("weight", affine[0]), ("bias", affine[1]), ("out", data * 0))
    }
    loaded.run({name: array.buffer for name, array in held_on_card.items()}, {"eps": 1e-5})
    wide = [held(torch.from_numpy(a)) for a in (data, affine[0], affine[1])]
    wanted = F.layer_norm(wide[0], (width,), wide[1], wide[2])
    got = torch.from_numpy(held_on_card["out"].numpy()).double()
    torch.testing.assert_close(got, wanted, rtol=2.0**-9, atol=2.0**-10)


def _one_dim(access):
    return ir.Access(access.buffer, access.offset, access.strides[:1], access.dtype)
