"""Random graphs, compiled: the CPU's numbers exactly, eager's descriptions and aliases, inputs left as torch leaves them."""

import os

import pytest
import torch
from hypothesis import HealthCheck, example, given, seed, settings
from judge import assert_aliased_alike, assert_described_alike, tensors
from random_graphs import Recipe, draw_inputs, draw_number, function_of, recipes

EXAMPLES = int(os.environ.get("OPENSPYRE_FUZZ_GRAPHS", "100"))


# torch describes the result of a scatter into a view with the view's offset, though it is a tensor of its own.
MADE_WITH_AN_OFFSET = Recipe(
    inputs=(((1, 63, 1, 5), torch.bool),),
    steps=(
        *(("put", 4, 2, 5, 4), ("part", 4, 8, 10, 9), ("slice", 9, 3, 1, 9), ("unfold", 5, 1, 9, 2)),
        *(("cat", 3, 7, 11, 5), ("select", 7, 11, 7, 10), ("product", 8, 0, 7, 6), ("write", 3, 0, 6, 8)),
        *(("put", 0, 9, 8, 3), ("select", 8, 8, 9, 10)),
    ),
    results=(0,),
)


def run(recipe, device, wrap=lambda function: function):
    inputs = [value.to(device) for value in draw_inputs(recipe)]
    return tensors(wrap(function_of(recipe))(draw_number(recipe), *inputs), inputs)


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
@pytest.mark.timeout(0)
@seed(int(os.environ.get("OPENSPYRE_FUZZ_SEED", "0")))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(recipes())
@example(MADE_WITH_AN_OFFSET)
def test_random_graphs_compute_what_torch_computes(recipe):
    torch.compiler.reset()
    torch.spyre.set_fallback_mode("silent")
    right = run(recipe, "cpu")
    compiled = run(recipe, "spyre", lambda function: torch.compile(function, dynamic=False, fullgraph=True))
    assert_described_alike(compiled, right, "on the CPU")
    assert_aliased_alike(compiled, right)
    for number, (result, other) in enumerate(zip(compiled, right, strict=True)):
        assert torch.equal(result.cpu(), other), f"result {number}: {result.cpu()} is not {other}"
