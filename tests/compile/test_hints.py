"""Names of dims and hints on their way from torch to what the card is given."""

import pytest
import torch

from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.hints import TileLevel, tile_levels
from openspyre.compiler.passes.name_dims import NameDims
from openspyre.compiler.tiling.groups import Untileable
from tests.named import name_dims
from torch_spyre._inductor import spyre_hint
from torch_spyre._inductor.propagate_named_dims import declare_tensor_dim, name_tensor_dims
from torch_spyre.inductor.launching import launch

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def named(monkeypatch):
    """Ops by row, as NameDims leaves them."""
    found = {}
    run = NameDims.run

    def watched(step, program):
        after = run(step, program)
        found.update({op.row: op for op in after.ops})
        return after

    monkeypatch.setattr(NameDims, "run", watched)
    launch.clear()
    return found


def tensors(*shapes):
    return [torch.rand(shape, dtype=torch.float16).to("spyre") for shape in shapes]


def names(op):
    return [" ".join(dim.named) for dim in op.dims]


def levels(op):
    return [(level.hint, level.dim, level.count) for level in tile_levels(op)]


def slices(lowered):
    """`numWkSlicesPerDim_` of the ops of the last program, by op."""
    return {op.op: {axis.label: axis.split for axis in op.axes} for op in emit_bundle(lowered[-1]).bundle.ops.values()}


def test_names_go_through_views_and_operators(named):
    """The 1-D tensor of the documents, named by what it is seen as."""
    x, y = tensors((64 * 128,), (128, 192))
    for name, size in {"M": 64, "K": 128, "N": 192}.items():
        declare_tensor_dim(name, size)
    name_tensor_dims(x, ["M", "K"])
    name_tensor_dims(y, ["K", "N"])
    torch.compile(lambda x, y: torch.relu((torch.exp(x.view(64, 128)) @ y).t()).sum(0))(x, y)
    assert names(named["exp"]) == ["M", "K"]
    assert names(named["batchmatmul"]) == ["M", "N", "K"]
    assert names(named["relu"]) == ["N", "M"]
    assert names(named["sum"]) == ["N", "M"]


def test_scopes_nest_outermost_first_and_scopes_in_a_row_differ(named):
    def function(x, y):
        with spyre_hint(num_tiles_per_dim={"M": 4}):
            with spyre_hint(num_tiles_per_dim={"N": 2}):
                z = torch.exp(x)
            z = torch.relu(z)
        with spyre_hint(num_tiles_per_dim={"M": 4}):
            return torch.sigmoid(z) * torch.amax(y, -1, keepdim=True)

    x, y = tensors((64, 128), (64, 128))
    name_dims([x, y], [("M", "N"), ("M", "N")])
    with pytest.raises(Untileable, match=r"relu.*under 2 hints of tiles where this is under 1"):
        torch.compile(function, fullgraph=True)(x, y)
    assert tile_levels(named["exp"]) == (TileLevel(0, "M", 0, 4), TileLevel(1, "N", 1, 2))
    assert levels(named["relu"]) == [(0, 0, 4)]
    assert levels(named["sigmoid"]) == levels(named["amax"]) == [(2, 0, 4)]


def test_a_dim_that_an_op_does_not_walk_through_is_none_of_its(named):
    def function(x):
        with spyre_hint(num_tiles_per_dim={"N": 2}):
            return x.sum(-1).exp()

    x, *_ = tensors((64, 128))
    name_dims([x], [("M", "N")])
    with pytest.raises(Untileable, match=r"exp.*2 along no dim of it"):  # it would see a part of the sum
        torch.compile(function)(x)
    assert levels(named["sum"]) == [(0, 1, 2)]
    assert levels(named["exp"]) == [(0, None, 2)]


def test_names_reach_the_ops_of_a_backward_pass_not(named):
    """A gradient stands in the scopes of what it is the gradient of; nobody has named its inputs, and nobody is asked to."""

    def function(x):
        with spyre_hint(work_div={"M": 2}):
            return torch.sin(x).sum()

    x = tensors((64, 128))[0].requires_grad_()
    name_dims([x], [("M", "N")])
    torch.compile(function)(x).backward()
    assert not named["cos"].hints
    assert torch.allclose(x.grad.cpu(), torch.cos(x.detach().cpu()), atol=1e-2)


def test_hints_reach_the_slices_of_the_bundle(lowered):
    def function(x, y):
        with spyre_hint(work_div={"M": 2, "N": 2, "K": 4}):
            return x @ y

    x, y = tensors((128, 512), (512, 128))
    name_dims([x, y], [("M", "K"), ("K", "N")])
    launch.clear()
    found = torch.compile(function)(x, y).cpu()
    assert slices(lowered) == {"batchmatmul": {"mb": 2, "out": 2, "in": 4}}
    assert torch.allclose(found.float(), x.cpu().float() @ y.cpu().float(), rtol=1e-2)


def test_inner_scopes_override_outer_ones(lowered):
    def function(x):
        with spyre_hint(work_div={"M": 2}), spyre_hint(work_div={"M": 16}):
            return torch.exp(x)

    x, *_ = tensors((64, 128))
    name_dims([x], [("M", "N")])
    launch.clear()
    torch.compile(function)(x)
    assert slices(lowered) == {"exp": {"mb": 16, "out": 1}}


def test_names_of_a_result_that_comes_from_no_tensor(named):
    def function(x):
        with spyre_hint(named_dims=["M", "N"]):
            y = torch.arange(64 * 128, device="spyre").view(64, 128)
        return torch.exp(y * x)

    x, *_ = tensors((1,))
    declare_tensor_dim("M", 64)
    declare_tensor_dim("N", 128)
    torch.compile(function)(x)
    assert names(named["exp"]) == ["M", "N"]


@pytest.mark.parametrize("dynamic", [False, True])
def test_names_go_from_one_launch_to_the_next(named, dynamic):
    """What the host has made between the two has no names; what goes round it keeps them."""

    def function(x):
        y = torch.exp(x.view(8, 16, 128)).sum(-1)
        z = torch.digamma(y)  # on the host
        with spyre_hint(work_div={"M": 2}):
            return y - z

    torch.spyre.set_fallback_mode("silent")
    x, *_ = tensors((128, 128))
    name_dims([x], [("M", "N")])
    torch.compile(function, dynamic=dynamic)(x)
    assert "sum" in named and names(named["sub"]) == ["M", "M"]


def test_names_of_a_part_of_a_dim_go_on_too(named):
    """A tensor of 8 x 16 whose columns are two dims, of which one has a name."""

    def function(x, w):
        y = (x + w).view(8, 16)
        return y.view(8, 4, 4) - torch.digamma(y).view(8, 4, 4)

    torch.spyre.set_fallback_mode("silent")
    x, w = tensors((8, 4, 4), (1, 4, 1))
    name_dims([w], [("one", "C", "uno")])
    torch.compile(function)(x, w)
    assert names(named["sub"]) == ["", "C", ""]


def test_a_scope_that_holds_ops_of_several_launches(named):
    """Each launch has its own ops' names; those of others are no mistake."""

    def function(x):
        with spyre_hint(work_div={"N": 2}, expected_reduction_dims=["N"]):
            y = torch.exp(x).sum(-1)
            return y - torch.digamma(y)

    torch.spyre.set_fallback_mode("silent")
    x, *_ = tensors((64, 128))
    name_dims([x], [("M", "N")])
    torch.compile(function)(x)
    assert names(named["sum"]) == ["M", "N"]
    assert names(named["sub"]) == ["M"]
    assert not named["sub"].hints[0].whole
