"""Random graphs, compiled: the CPU's numbers, eager's descriptions and aliases, inputs left as torch leaves them.

Every program has the bits of the one without fusion, and a bundle that the second reader agrees with. A failure names its seed and prints the smallest recipe that still fails.
"""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from bundle_bits import agrees
from fused_bits import steps_with_equal_bits
from judge import ROUNDING, assert_aliased_alike, assert_described_alike, tensors
from random_forms import inputs_of
from random_graphs import Recipe, draw_number, function_of, recipe_of, shrunk, text_of

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
FIRST = int(os.environ.get("OPENSPYRE_FUZZ_SEED", "0"))
COUNT = int(os.environ.get("OPENSPYRE_FUZZ_GRAPHS", "120"))
FORMS = int(os.environ.get("OPENSPYRE_FUZZ_FORMS", "16"))  # of them also with inputs that are views
BLOCK = 10

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

# A result that nobody wrote: the copy of a row that is a result, too. The seed that found it, with the mend taken out.
A_ROW_AND_ITS_COPY, ITS_SEED = (
    Recipe(
        inputs=(((1, 3, 64), torch.float16), ((1, 24, 128), torch.float16)),
        steps=(
            *(("real_row_and_copy", 6, 6, 3, 6), ("real_view", 1, 6, 11, 10), ("real_total", 6, 0, 7, 3)),
            *(("real_row", 8, 1, 5, 0), ("index", 5, 11, 5, 0)),
        ),
        results=(36, 9, 2),
        reals=(11, 17, 4, 9, 25, 23, 36),
        number=(1, torch.int64),
    ),
    101,
)
# Inductor describes these otherwise than eager, on the CPU too; and what is all one number it makes anew, wherever it is.
WRITTEN_WINDOWS = Recipe(
    inputs=(((33,), torch.float16), ((63, 1), torch.float16), ((128, 8), torch.bool)),
    steps=(("unfold", 9, 4, 5, 1), ("write_rows", 4, 11, 3, 7)),
    results=(19,),
    number=(-1, torch.bool),
)
ONE_NUMBER = Recipe(
    inputs=(((3, 17, 64), torch.float16), ((3, 1, 128), torch.float32)),
    steps=(("real_attention", 6, 11, 4, 6), ("real_write", 3, 10, 1, 7), ("real_view", 11, 0, 3, 2)),
    results=(27,),
    reals=(2, 15),
    number=(-2, torch.int32),
)
# A shuffle between scratchpads read the lanes behind the last element of a row, which nobody had written.
SHUFFLED_PADDING = Recipe(
    inputs=(((8, 130), torch.float32),),
    steps=(("real_row_and_copy", 2, 3, 10, 5), ("real_row_and_copy", 6, 3, 1, 10)),
    results=(12, 0, 0),
    reals=(34, 10, 28, 40, 11, 34),
    number=(1, torch.int64),
)
FAILED_ONCE = {
    "made with an offset": MADE_WITH_AN_OFFSET,
    "a row and its copy": A_ROW_AND_ITS_COPY,
    "written windows": WRITTEN_WINDOWS,
    "one number": ONE_NUMBER,
    "shuffled padding": SHUFFLED_PADDING,
}


@pytest.fixture
def made(bundles, lowered):
    """What the compiler made of a graph."""
    return SimpleNamespace(bundles=bundles, lowered=lowered)


def run(recipe, device, wrap=lambda function: function):
    """Whole results and inputs, and real results."""
    bases, inputs = inputs_of(recipe, device)
    whole, reals = wrap(function_of(recipe))(draw_number(recipe), *inputs)
    beneath = [] if recipe.forms is None else bases
    return [*tensors(whole), *inputs, *beneath], tensors(reals)


def allowed(right):
    """A dozen roundings to 16 bits, each of which later steps may make a few times as large."""
    largest = right[right.isfinite()].abs().amax() if right.isfinite().any() else right.new_ones(())
    return 48 * ROUNDING[True] * torch.maximum(largest, largest.new_ones(()))


def compiled(function):
    return torch.compile(function, dynamic=False, fullgraph=True)


def assert_alike(found, right, recipe):
    """Described and aliased as in eager, or as Inductor has it on the CPU. A value that is a constant, it makes anew."""
    varied = [n for n, value in enumerate(right) if value.numel() and (value != value.flatten()[0]).any()]
    try:
        assert_described_alike(found, right, "on the CPU")
        assert_aliased_alike([found[n] for n in varied], [right[n] for n in varied])
    except AssertionError:
        whole, reals = run(recipe, "cpu", compiled)
        assert_described_alike(found, [*whole, *reals], "compiled on the CPU")
        assert_aliased_alike(found, [*whole, *reals])


def judge(recipe, made):
    torch.compiler.reset()
    torch.spyre.set_fallback_mode("silent")
    made.bundles.clear()
    made.lowered.clear()
    right, right_reals = run(recipe, "cpu")
    found, reals = run(recipe, "spyre", compiled)
    assert_alike([*found, *reals], [*right, *right_reals], recipe)
    for number, (result, other) in enumerate(zip(found, right, strict=True)):
        assert torch.equal(result.cpu(), other), f"result {number}: {result.cpu()} is not {other}"
    for number, (result, other) in enumerate(zip(reals, right_reals, strict=True)):
        got, exact = result.cpu().double(), other.double()
        near = (got - exact).abs() <= allowed(exact)
        assert near.all(), f"real result {number}: {got[~near][:8]} is not {exact[~near][:8]}"
    for bundle in made.bundles:
        steps_with_equal_bits(bundle, seeds=(1,))
    for program in made.lowered:
        agrees(program)


def judge_or_shrink(recipe, made, name):
    try:
        judge(recipe, made)
    except Exception as error:
        smallest = shrunk(recipe, lambda smaller: _fails(smaller, made))
        raise AssertionError(f"{name}: {error}\n{text_of(smallest)}") from error


def _fails(recipe, made):
    try:
        judge(recipe, made)
    except Exception:  # whatever it is, it is a failure
        return True
    return False


@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BLOCK))
def test_random_graphs_compute_what_torch_computes(first, made):
    for seed in range(first, min(first + BLOCK, FIRST + COUNT)):
        judge_or_shrink(recipe_of(seed), made, f"seed {seed}")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + FORMS))
def test_random_graphs_of_inputs_in_other_forms(seed, made):
    recipe = replace(recipe_of(seed), forms=seed)
    try:
        run(recipe, "cpu")
    except RuntimeError as error:  # a write to what overlaps itself, sizes that do not meet
        pytest.skip(f"torch refuses it: {error}")
    judge_or_shrink(recipe, made, f"seed {seed} with its forms")


@pytest.mark.parametrize("name", FAILED_ONCE)
def test_recipes_that_failed_once(name, made):
    judge_or_shrink(FAILED_ONCE[name], made, name)


def test_a_seed_is_a_recipe():
    """Whoever changes the generator looks for another seed below COUNT that finds this (contract: no result is unwritten)."""
    assert recipe_of(ITS_SEED) == A_ROW_AND_ITS_COPY
    assert "real_row_and_copy(6, 6, 3, 6) -> r0 float32[1, 24, 128]" in text_of(recipe_of(ITS_SEED))


def test_a_failing_recipe_is_shrunk_to_what_it_fails_by():
    smallest = shrunk(A_ROW_AND_ITS_COPY, lambda recipe: ("real_row", 8, 1, 5, 0) in recipe.steps)
    assert (len(smallest.steps), len(smallest.results), len(smallest.reals)) == (1, 1, 0)
