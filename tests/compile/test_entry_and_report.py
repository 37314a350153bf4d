"""The other way in, backend="spyre", and what a user sees of a compilation: the report and the debug directory."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import torch_spyre
from torch_spyre.inductor.reporting.report import Specialisation

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch.compiler.reset()


def test_the_backend_by_name_compiles_for_the_card():
    x = torch.randn(5, 33)
    compiled = torch.compile(lambda x: torch.relu(x) + 1, backend="spyre")
    assert torch.equal(compiled(x.to("spyre")).cpu(), torch.relu(x) + 1)
    assert len(torch_spyre.compile_report()[-1].bundles) == 1


def test_the_backend_by_name_says_when_nothing_is_on_the_card():
    with pytest.warns(UserWarning, match=r"tensors are on cpu.*\.to\(\"spyre\"\)"):
        torch.compile(lambda x: x - 3, backend="spyre")(torch.ones(3))


def test_a_report_tells_relayouts_and_fallbacks_with_their_reasons():
    def model(x, y):
        return torch.digamma(x @ y.t()) + 1

    torch.spyre.set_fallback_mode("silent")
    compiled = torch.compile(model, dynamic=False)
    compiled(torch.rand(67, 70).to("spyre"), torch.rand(9, 70).to("spyre"))
    text = str(torch_spyre.compile_report()[-1])
    assert "2 bundle(s), 1 fallback(s)" in text
    assert "outside: aten.digamma.default: aten.digamma.default has no row in the op table" in text
    assert __file__ in text


def test_a_report_tells_what_the_hardware_does_not_have():
    torch.compile(lambda x: torch.sin(torch.exp(x)) + torch.sin(x), dynamic=False)(torch.rand(4, 64).half().to("spyre"))
    specialised = torch_spyre.compile_report()[-1].bundles[0].specialisations[-1]
    assert [(e.row, e.reason) for e in specialised.extensions] == [("sin", "the hardware has no op 'sin'")] * 2
    assert "2 extensions" in str(specialised)
    assert f"sin is an extension of this card: the hardware has no op 'sin' (File \"{__file__}\"" in str(specialised)


def test_a_report_of_what_is_found_on_disk_tells_the_same():
    """Nothing comes from a cache in these tests: what a cache keeps of a report is taken through its text here."""
    compiled = torch.compile(lambda x: torch.sin(x.t()) + x.t() @ x, dynamic=False)
    compiled(torch.rand(70, 70).half().to("spyre"))
    (made,) = torch_spyre.compile_report()[-1].bundles[0].specialisations
    found = Specialisation(made.symbols)
    found.take_facts(json.loads(json.dumps(made.facts())))
    assert made.relayouts and made.extensions and found == replace(made, seconds=found.seconds)
    assert str(found).splitlines()[2:] == str(made).splitlines()[2:]  # but for the title and the times


def test_a_decode_step_moves_nothing_of_its_cache():
    """Keys are written along the head's dim and read so; the whole cache is not moved for one token."""

    def step(query, key, value, keys, values, at):
        keys.index_copy_(2, at, key)
        values.index_copy_(2, at, value)
        return F.scaled_dot_product_attention(query, keys, values)

    tensors = [torch.randn(2, 3, count, 70).to("spyre") for count in (1, 1, 1, 100, 100)]
    torch.compile(step, dynamic=False)(*tensors, torch.tensor([7]).to("spyre"))
    assert torch_spyre.compile_report()[-1].bundles[0].specialisations[-1].relayouts == []


def test_a_report_names_the_weights_that_were_turned():
    weight = torch.nn.Parameter(torch.randn(190, 71).to("spyre"))
    with torch.no_grad():
        torch.compile(lambda x: F.linear(x, weight), dynamic=False)(torch.randn(3, 71).to("spyre"))
    last = torch_spyre.compile_report()[-1].bundles[0].specialisations[-1]
    assert len(last.retiled_weights) == 1
    assert f"weight {last.retiled_weights[0]} was tiled anew" in str(last)


def test_the_debug_directory_has_every_pass_and_the_bundle(tmp_path):
    program = "import torch; torch.compile(lambda x: torch.relu(x) + 1)(torch.ones(3, 5, device='spyre'))"
    switched = {**os.environ, "TORCH_COMPILE_DEBUG": "1"}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, env=switched, check=True, capture_output=True
    )
    (directory,) = tmp_path.glob("torch_compile_debug/run_*/spyre_*")
    names = {path.name for path in directory.iterdir()}
    assert {"00_Imported.ir", "bundle", "card.program", "graph.json"} <= names
    assert {"FoldConstants.ir", "InsertRelayouts.ir"} <= {name.partition("_")[2] for name in names}
    assert (directory / "bundle" / "launch_spec.json").exists()
