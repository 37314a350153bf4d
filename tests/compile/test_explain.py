"""`torch_spyre.explain`: a model's launches counted and timed, from the model itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_spyre

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, while Inductor loads

ROWS, IN, HIDDEN = 256, 512, 1024


def mlp() -> nn.Module:
    return (
        nn.Sequential(nn.Linear(IN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, IN)).half().to("spyre").requires_grad_(False)
    )


def test_a_two_layer_mlp(tmp_path: Path) -> None:
    model, x = mlp(), torch.randn(ROWS, IN).half().to("spyre")
    explanation = torch_spyre.explain(model, x)
    (launch,) = explanation.launches
    products = [execution for execution in launch.executions if execution.macs]
    assert [execution.macs for execution in products] == [ROWS * IN * HIDDEN] * 2
    totals = explanation.totals
    # The input, two weights, two biases (rows of sticks) and the result, once each.
    assert totals.data_bytes == 2 * (ROWS * IN + 2 * IN * HIDDEN + HIDDEN + IN + ROWS * IN)
    assert totals.data_once_us < totals.card_us and totals.peak_macs_us < totals.card_us
    assert sum(execution.share for execution in launch.executions) == pytest.approx(1)
    assert json.loads(explanation.json())["totals"]["card_us"] == totals.card_us
    assert "batchmatmul" in str(explanation) and "the card takes" in str(explanation)
    explanation.html(tmp_path / "page.html")
    assert json.dumps(explanation.record()) in (tmp_path / "page.html").read_text()


def test_what_is_compiled_already_is_explained_alike() -> None:
    model, x = mlp(), torch.randn(ROWS, IN).half().to("spyre")
    expected = torch_spyre.explain(model, x)
    compiled = torch.compile(model)
    compiled(x)
    assert torch_spyre.explain(compiled, x).totals == expected.totals
    assert torch_spyre.explain(torch.compile(lambda y: model(y)), x).totals == expected.totals


def test_an_op_that_the_card_does_not_have_is_a_round_trip() -> None:
    x = torch.randn(64, 128).half().to("spyre")
    explanation = torch_spyre.explain(lambda x: torch.cumsum(x * 2, -1), x)
    trips = [execution for execution in explanation.executions if execution.host_link_bytes]
    assert trips and explanation.totals.round_trips_us == pytest.approx(sum(trip.time_us for trip in trips))
    assert trips[0].host_link_bytes >= 2 * 2 * 64 * 128


def test_of_a_table_only_the_rows_that_are_picked_count_as_data() -> None:
    table, rows = torch.randn(4096, 128).half().to("spyre"), torch.arange(16).to("spyre")
    explanation = torch_spyre.explain(lambda i, w: torch.nn.functional.embedding(i, w), rows, table)
    assert all("test_explain.py:" in execution.source for execution in explanation.executions)
    assert explanation.totals.data_bytes < 2 * 2 * 4096 * 128 / 10
