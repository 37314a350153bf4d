"""Hints that nobody can follow: an error, or a warning where the program can do without, both with the names that there are."""

import pytest
import torch

from openspyre.spec.errors import HintWarning, InvalidArgument
from tests.named import name_dims
from torch_spyre._inductor import config, spyre_hint
from torch_spyre.inductor.launching import launch

# Dynamo and Inductor warn of their own deprecations while they load.
pytestmark = pytest.mark.filterwarnings("ignore", "error::openspyre.spec.errors.HintWarning")


def run(function, shape=(64, 128), names=("M", "N"), **hints):
    """A function of one named tensor, compiled inside a scope."""

    def scoped(x):
        with spyre_hint(**hints):
            return function(x)

    launch.clear()
    x = torch.rand(shape).half().to("spyre")
    name_dims([x], [names])
    found = torch.compile(scoped, fullgraph=True)(x).cpu().float()
    expected = function(x.cpu().float())
    assert torch.allclose(found, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("division", "message"),
    [
        ({"Q": 2}, "names dim 'Q', which no op in its scope has; they have M, N"),
        ({"M": 3}, "M=3 does not divide the 64 elements"),
        ({"N": 4}, "N=4 does not divide the 2 sticks"),
    ],
)
def test_divisions_that_cannot_be(division, message):
    with pytest.raises(InvalidArgument, match=message):
        run(torch.exp, work_div=division)


def test_of_the_dims_that_are_summed_one_can_be_split():
    with pytest.raises(InvalidArgument, match="splits A and B, of the dims that are summed one can be split"):
        run(lambda x: x.sum((0, 1)), (8, 16, 128), ("A", "B", "N"), work_div={"A": 2, "B": 2})


def test_no_more_cores_than_there_are():
    """What comes first in the hint is served first."""
    with config.patch(sencores=8), pytest.warns(HintWarning, match="N=2 is left out: of 8 cores 1 are left"):
        run(torch.exp, work_div={"M": 8, "N": 2})


def test_a_scope_may_divide_dims_that_only_some_of_its_ops_have():
    run(lambda x: torch.exp(x).sum(-1) * 0.01, work_div={"N": 2})


def test_tiles_of_a_dim_that_no_op_has():
    with pytest.warns(
        HintWarning, match="num_tiles_per_dim names dim 'Q', which no op in its scope has; they have M, N"
    ):
        run(torch.exp, num_tiles_per_dim={"Q": 2})


def test_a_part_of_a_dim_has_not_its_name():
    with (
        pytest.raises(InvalidArgument, match="'M', which no op"),
        pytest.warns(HintWarning, match="64 elements of dim 'M'"),
    ):
        run(lambda x: torch.exp(x[:32]), work_div={"M": 2})


def test_names_that_are_expected():
    """Of all ops of a scope together: only one of softmax's reduces what another does not."""
    run(lambda x: torch.softmax(x, -1), expected_named_dims=["N", "M"], expected_reduction_dims=["N"])
    run(torch.exp, expected_reduction_dims=[])
    with pytest.raises(InvalidArgument, match=r"expected_named_dims is \['M'\], but the ops there have \['M', 'N'\]"):
        run(torch.exp, expected_named_dims=["M"])
    with pytest.raises(InvalidArgument, match=r"expected_reduction_dims is \['M'\], .* have \['N'\] .*M, N reduced"):
        run(lambda x: x.amax(-1), expected_reduction_dims=["M"])


@pytest.mark.parametrize("option", ["ignore_hints", "ignore_work_division_hints"])
def test_hints_can_be_ignored(option):
    with config.patch(**{option: True}):
        run(torch.exp, work_div={"Q": 3}, expected_named_dims=["Q"])


def test_old_spellings_of_tiles():
    with pytest.warns(FutureWarning, match="tiles is the old name of num_tiles_per_dim"):
        run(torch.exp, tiles={"M": 1})
