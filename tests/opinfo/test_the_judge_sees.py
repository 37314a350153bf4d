"""The harness itself: a wrong number in any result of any kind of call is told, a gradient's as well as a value's."""

from __future__ import annotations

import pytest
import torch
import trial
from bits import otherwise_than_eager
from entries import entries

NAMES = ["add", "softmax", "matmul", "sum", "index_select", "nn.functional.gelu", "nn.functional.layer_norm", "nn.functional.conv2d",
         "nn.functional.cross_entropy", "cumsum", "module.nn.Linear"]  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load


def falsified(which: int):
    """The card's results, one of them wrong in one element by some sixty-four roundings."""
    fetched, seen = trial._fetched, []

    def wrong(result: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        values, dtype = fetched(result)
        seen.append(values)
        if len(seen) - 1 == which and values.numel():
            values = values.clone()
            flat = values.view(-1) if values.is_contiguous() else values.reshape(-1)
            place = int(flat.abs().argmax()) if flat.is_floating_point() else 0
            flat[place] = flat[place] * (1 + 2.0**-3) if flat.is_floating_point() else flat[place] + 1
            values = flat.reshape(values.shape)
        return values, dtype

    return wrong


def first_sample(name: str, dtype: torch.dtype):
    """One that returns something, and has gradients where the operator has them."""
    samples = [s for s in entries()[name].samples(dtype, 3) if all(t.numel() > 1 for t in s.tensors)]
    return next((s for s in samples if s.grown), samples[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_value_is_told(name, dtype, monkeypatch):
    sample = first_sample(name, dtype)
    assert trial.difference(sample, dtype, compiled=False) is None
    monkeypatch.setattr(trial, "_fetched", falsified(0))
    said = trial.difference(sample, dtype, compiled=False)
    assert said is not None and said.startswith("result 0 at"), said


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cumsum"])
def test_a_wrong_gradient_is_told(name, monkeypatch):
    sample = first_sample(name, torch.float32)
    assert sample.grown
    results = len(trial._with_gradients(sample, "cpu")([t.clone() for t in sample.tensors]))
    assert results > 1
    monkeypatch.setattr(trial, "_fetched", falsified(results - 1))
    said = trial.difference(sample, torch.float32, compiled=False)
    assert said is not None and said.startswith(f"result {results - 1} at"), said


def test_a_wrong_integer_is_told(monkeypatch):
    sample = first_sample("cumsum", torch.int64)
    monkeypatch.setattr(trial, "_fetched", falsified(0))
    assert (trial.difference(sample, torch.int64, compiled=False) or "").startswith("result 0 at")


def test_a_bit_of_a_graph_that_eager_has_not_is_told(monkeypatch):
    """A unit in the last place is within every allowance for rounding, so only the comparison with eager sees it."""
    sample = first_sample("softmax", torch.float32)
    assert trial.difference(sample, torch.float32, compiled=True) is None
    on_card = trial._on_card

    def one_unit_off(sample, tensors, compiled):
        results, fallen = on_card(sample, tensors, compiled)
        if compiled:
            values, dtype = results[0]
            results[0] = torch.nextafter(values, torch.tensor(2.0)), dtype
        return results, fallen

    monkeypatch.setattr(trial, "_on_card", one_unit_off)
    for said in (trial.difference(sample, torch.float32, compiled=True), trial.difference_of_bits(sample)):
        assert said is not None and said.startswith("compiled: result 0 at"), said


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [([0.0], [-0.0], False), ([float("nan")], [-float("nan")], True), ([1.0], [1.0], True), ([], [], True)],
    ids=str,
)
def test_what_counts_as_the_same_bits(mine, theirs, same):
    results = [[(torch.tensor(values), torch.float32)] for values in (mine, theirs)]
    assert (otherwise_than_eager(*results, (), ()) is None) == same


def test_drawn_numbers_are_known_by_other_seeds_and_nothing_else_is():
    assert not any(any(_drawn(sample)) for sample in entries()["matmul"].samples(torch.float32, 3))
    assert any(any(_drawn(sample)) for sample in entries()["nn.functional.dropout"].samples(torch.float32, 3))


def _drawn(sample):
    run = trial._with_gradients(sample, "cpu")
    tensors = [trial.held(tensor) for tensor in sample.tensors]
    return trial.drawn(run, tensors, trial.reference(run, tensors, 0.0, 0))
