"""`torch_spyre.explain`: a model's launches counted and timed, from the model itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_spyre
from openspyre.spec.errors import InvalidArgument
from openspyre.tools.command import main
from torch_spyre.model_utils import load_model_to_spyre

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
    table, rows = torch.nn.Embedding(4096, 128).half(), torch.arange(16).to("spyre")
    load_model_to_spyre(table)  # with the vocabulary outermost: else the whole table is copied first
    explanation = torch_spyre.explain(lambda i: table(i), rows)
    assert all("test_explain.py:" in execution.source for execution in explanation.executions)
    assert explanation.totals.data_bytes < 2 * 2 * 4096 * 128 / 10


def chain(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ weight, -1)


def pair() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(512, 512).half().to("spyre"), torch.randn(512, 512).half().to("spyre")


def test_the_compilers_own_reason_is_told_of_every_tensor_that_goes_through_memory() -> None:
    x, weight = pair()
    with torch_spyre._inductor.config.patch(lx_planning=False):
        off = torch_spyre.explain(chain, x, weight)
    assert {kept.why for kept in off.launches[0].kept_out} == {"scratchpads are not planned (LX_PLANNING=0)"}
    with torch_spyre._inductor.config.patch(clock_tiling=False):  # tiles would find room
        full = torch_spyre.explain(chain, x, weight, machine="lx_mb=0.08")  # little is left beside what is reserved
    assert any(kept.why.startswith(("full at step", "too large")) for kept in full.launches[0].kept_out)
    usual = torch_spyre.explain(chain, x, weight)
    assert usual.totals.memory_bytes < full.totals.memory_bytes <= off.totals.memory_bytes
    assert all(kept.why for kept in usual.launches[0].kept_out)
    assert "softmax" in " ".join(
        kept.name for kept in off.launches[0].kept_out
    )  # names of the graph, not bytes of a pool


def test_a_supposed_card_gets_a_plan_of_its_own() -> None:
    x, weight = pair()
    real, fewer = torch_spyre.explain(chain, x, weight), torch_spyre.explain(chain, x, weight, machine="cores=8")
    assert max(execution.cores for execution in real.executions) == 32
    assert max(execution.cores for execution in fewer.executions) == 8
    assert fewer.totals.card_us > real.totals.card_us
    assert fewer.note.endswith("planned anew for it.")
    assert "the other plan" in str(real.against(fewer))
    with torch_spyre._inductor.config.patch(sencores=8):
        assert torch_spyre.explain(chain, x, weight).totals.memory_bytes == fewer.totals.memory_bytes
    with pytest.raises(InvalidArgument, match="nothing of a machine"):
        torch_spyre.explain(chain, x, weight, machine="cores=0")


def test_a_directory_is_planned_anew_without_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (launch,) = torch_spyre.export_bundle(chain, *pair(), directory=tmp_path / "here", with_inputs=False)
    expected = torch_spyre.explain(chain, *pair(), machine="cores=8,ddr=100").totals
    assert main(["explain", str(launch), "--machine", "cores=8,ddr=100", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["totals"]["other"]["card_us"] == expected.card_us and told["note"].endswith("planned anew for it.")
    # Somebody changed the bundle: it is no longer the compiler's plan, and is only timed.
    text = (launch / "planning.json").read_text()
    (launch / "planning.json").write_text(text.replace('"cores": 32', '"cores": 4'))
    assert main(["explain", str(launch), "--machine", "cores=8"]) == 1
    assert "without its graph.ir it cannot be planned" in capsys.readouterr().err
    (launch / "graph.ir").unlink()
    assert main(["explain", str(launch)]) == 0


def test_a_model_in_two_graphs_is_two_launches() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        torch._dynamo.graph_break()
        return y + x

    explanation = torch_spyre.explain(broken, torch.randn(64, 64).half().to("spyre"))
    assert [[e.op for e in launch.executions] for launch in explanation.launches] == [["exp"], ["add"]]
    assert "2 launches: as one graph" in str(explanation)


def test_what_launches_nothing_is_an_error_that_says_so() -> None:
    with pytest.raises(InvalidArgument, match="launched nothing on the card"):
        torch_spyre.explain(lambda x: x + 1, torch.randn(4))


def test_what_the_cpu_does_between_the_launches_is_told() -> None:
    x = torch.randn(64, 64).half().to("spyre")
    torch.spyre.set_fallback_mode("silent")  # tests of compiled graphs forbid it
    explanation = torch_spyre.explain(lambda x: (x + 1).digamma() * 2, x)
    (fallback,) = explanation.fallbacks
    assert (fallback.name, fallback.calls, len(explanation.launches)) == ("aten::digamma.out", 1, 2)
    assert explanation.totals.round_trips_us == fallback.time_us > 0
    assert "digamma.out falls back to the CPU" in str(explanation)


def test_what_layers_have_in_common_is_told_once() -> None:
    layer = nn.Sequential(nn.RMSNorm(512), nn.Linear(512, 512, bias=False)).half().to("spyre").requires_grad_(False)
    texts = []
    for layers in (1, 3):
        explanation = torch_spyre.explain(nn.Sequential(*[layer] * layers), torch.randn(256, 512).half().to("spyre"))
        texts.append([saving.text for saving in explanation.savings if "divided alike" in saving.text])
    one, three = texts
    assert len(one) == 1 and one[0].startswith("_fused_rms_norm.0 (262 kB) goes through memory")
    assert len(three) == 2  # the norms' results, and the two products between layers
    assert {text.split(" (")[0] for text in three} == {"3 tensors like _fused_rms_norm.0", "2 tensors like mm"}
