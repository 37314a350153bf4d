"""Graphs in the steps of the reference's front end (planner "documented"): its ops in its order, and the CPU's numbers.

The ops are what its documented decompositions and passes say (docs/work_division.md); no function here is one of the test vectors'.
"""

import pytest
import torch
import torch.nn.functional as F

from openspyre.compiler.emit import emit_bundle
from torch_spyre._inductor import config
from torch_spyre.inductor.launching import launch

pytestmark = pytest.mark.filterwarnings("ignore")
attention = F.scaled_dot_product_attention


def halves(*shapes):
    torch.manual_seed(1)
    return [(torch.randn(shape) / 8).half() for shape in shapes]


def mlp(x, w1, b1, w2, b2):
    return x + F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)


def rotated(x, c, s):
    return x * c + torch.cat([-x[..., 64:], x[..., :64]], -1) * s


def two_norms(x, w, v):
    one, other = F.rms_norm(x, (128,)), F.rms_norm(x, (128,))
    return F.linear(F.silu(F.linear(one, w)) * other, v)


FLASH = "identity identity max mul mul ReStickifyOpHBM batchmatmul max maximum sub exp mul sub exp batchmatmul add identity max mul sum add realdiv"
NORM = "mul mean add rsqrt mul"
# function, sizes of its inputs, its ops
FORMS = {
    "linear of batches": (F.linear, [(2, 64, 128), (256, 128), (256,)], "ReStickifyOpHBM batchmatmul add"),
    "product of batches": (torch.matmul, [(2, 64, 128), (128, 256)], "batchmatmul"),
    "four dims": (torch.matmul, [(2, 4, 64, 64), (2, 4, 64, 64)], "batchmatmul"),
    "one batch": (torch.matmul, [(1, 64, 128), (128, 256)], "batchmatmul"),
    "a mlp of batches": (
        mlp,
        [(2, 64, 128), (256, 128), (256,), (128, 256), (128,)],
        "ReStickifyOpHBM batchmatmul add gelufwd ReStickifyOpHBM batchmatmul add add",
    ),
    "a sum of a product": (lambda c, a, b: c + a @ b, [(64, 128), (64, 64), (64, 128)], "batchmatmul add"),
    "addmm": (
        lambda c, a, b: torch.addmm(c, a, b, beta=2.0, alpha=0.5),
        [(128,), (64, 64), (64, 128)],
        "batchmatmul mul mul add",
    ),
    "baddbmm": (torch.baddbmm, [(4, 64, 128), (4, 64, 64), (4, 64, 128)], "batchmatmul add"),
    "unaligned and turned": (F.linear, [(33, 70), (130, 70)], "ReStickifyOpHBM identity identity batchmatmul"),
    "parts, joined": (rotated, [(4, 64, 128), (64, 128), (64, 128)], "mul neg identity identity mul add"),
    "computed parts": (lambda x, y: torch.cat([x + 1, y * 2]), [(32, 128), (16, 128)], "add mul identity identity"),
    "two norms": (
        two_norms,
        [(32, 128), (128, 128), (256, 128)],
        f"identity {NORM} ReStickifyOpHBM batchmatmul silu {NORM} mul ReStickifyOpHBM batchmatmul",
    ),
    "a total": (lambda x: x.mean(-1), [(64, 256)], "mean"),
    "a norm without weights": (
        lambda x: F.layer_norm(x, (256,)),
        [(64, 256)],
        "identity exx2 layernormscale identity identity layernormnorm",
    ),
    "bounds": (lambda x: torch.clamp(x, -0.1, 0.1), [(64, 128)], "clip"),
    "other bounds": (lambda x: torch.clamp(x, 0.0, 0.2), [(64, 128)], "clip"),
    "a lower bound": (lambda x: torch.clamp(x, min=0.1), [(64, 128)], "clip"),
    "a leak": (lambda x: F.leaky_relu(x, 0.25), [(64, 128)], "identity greaterthan mul where3"),
    "a quotient by a power of two": (lambda x: x / 8, [(64, 128)], "mul"),
    "a quotient by another number": (lambda x: x / 3, [(64, 128)], "realdiv"),
    "the same weight twice": (
        lambda x, y, w: (F.linear(x, w), F.linear(y, w)),
        [(64, 128), (32, 128), (256, 128)],
        "ReStickifyOpHBM batchmatmul ReStickifyOpHBM batchmatmul",
    ),
    "a square turned": (lambda x, y: x + y.t(), [(128, 128), (128, 128)], "ReStickifyOpHBM add"),
    "attention": (attention, [(2, 4, 64, 64)] * 3, FLASH),
    "attention to more keys": (attention, [(1, 2, 64, 128), (1, 2, 192, 128), (1, 2, 192, 128)], FLASH),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_ops_and_the_numbers(name, lowered):
    function, shapes, ops = FORMS[name]
    inputs = halves(*shapes)
    launch.clear()
    torch.compiler.reset()
    with config.patch(planner="documented"):
        results = torch.compile(function)(*(value.to("spyre") for value in inputs))
    bundle = emit_bundle(lowered[-1]).bundle
    names = [bundle.ops[execute.file].op for execute in bundle.function.listed()]
    assert [
        name for name in names if name != "shuffle"
    ] == ops.split()  # whether a product is divided along k decides about those
    wanted = function(*(value.double() for value in inputs))
    for got, want in zip(*(r if isinstance(r, tuple) else (r,) for r in (results, wanted)), strict=True):
        torch.testing.assert_close(got.cpu().double(), want, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("batches", "axes"),
    [((2, 3), [("y", 2), ("x", 3)]), ((1,), [("x", 1)])],
    ids=["several", "one, whose weight is shared"],
)
def test_dims_that_torch_folds_are_dims_of_the_product(batches, axes, lowered):
    x, w = halves((*batches, 64, 128), (256, 128))
    launch.clear()
    with config.patch(planner="documented"):
        torch.compile(F.linear)(x.to("spyre"), w.to("spyre"))
    product = list(emit_bundle(lowered[-1]).bundle.ops.values())[-1]
    assert [(axis.label, axis.size) for axis in product.axes] == [*axes, ("mb", 64), ("out", 256), ("in", 128)]


def test_totals_of_one_value_a_stick_are_tensors_like_others():
    """Handed to the caller as the reference leaves them: eager ops, other graphs, views and the host read them."""
    (x,) = halves((48, 200))
    with config.patch(planner="documented"):
        total = torch.compile(lambda x: x.sum(-1))(x.to("spyre"))
        assert list(total.device_tensor_layout().device_size) == [1, 48, 64]
        again = torch.compile(lambda t, x: x * t[:, None])(total, x.to("spyre"))
    wanted = x.double().sum(-1)
    torch.testing.assert_close(total.cpu().double(), wanted, rtol=0.01, atol=0.02)
    host = total.cpu()
    assert torch.equal((total * 2).cpu(), host * 2)
    assert torch.equal(total[7:19].clone().cpu(), host[7:19])
    assert torch.equal(total.view(6, 8).t().contiguous().cpu(), host.view(6, 8).t())
    torch.testing.assert_close(again.cpu().double(), x.double() * wanted[:, None], rtol=0.02, atol=0.02)
