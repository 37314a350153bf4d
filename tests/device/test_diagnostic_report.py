"""torch.spyre.diagnostic_report: one archive that tells of this process what a bug report needs, and nothing of the user's own."""

import json
import os
import subprocess
import sys
import zipfile

import pytest
import torch

from openspyre.artifact.bundle import read_bundle
from openspyre.spec.errors import IndexOutOfRange
from openspyre.tools.command import main

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own parts
SECRET = "correct-horse-battery"


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.setenv("THEIR_PASSWORD", SECRET)

    def model(x, w):
        mask = torch.tensor([[1234.0] * 64] * 2, device="spyre", dtype=torch.float16)
        return torch.softmax(x @ w, -1) + mask

    torch.compiler.reset()
    x, w = torch.full((2, 64), 0.123).half().to("spyre"), torch.full((64, 64), 4321.0).half().to("spyre")
    with torch._inductor.config.patch(force_disable_caches=True):
        torch.compile(model)(x, w)
    with pytest.raises(IndexOutOfRange):
        torch.nn.functional.embedding(torch.tensor([70]).to("spyre"), w).cpu()
    path = torch.spyre.diagnostic_report(tmp_path / "report.zip")
    assert path.stat().st_mode & 0o77 == 0
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "all")
    return tmp_path / "all"


def test_it_has_graphs_bundles_reports_errors_and_counters(report, capsys):
    assert "specialised" in (report / "compile_reports.txt").read_text()
    errors = json.loads((report / "errors.json").read_text())
    assert errors[-1]["class"] == "IndexOutOfRange"
    counters = json.loads((report / "counters.json").read_text())
    assert counters["graph_launches_specialisations_programs"][0] >= 1
    assert counters["memory"][0]["allocated_bytes.all.current"] > 0
    last = sorted((report / "graphs").iterdir(), key=lambda path: int(path.name.split("_")[0]))[-1]
    assert json.loads((last / "graph.json").read_text())["calls"]
    assert "batchmatmul" in [op.op for op in read_bundle(last / "bundle").ops.values()]
    assert main(["verify", str(last / "bundle")]) == 0
    assert main(["opt", str(last / "unfused.program")]) == 0


def test_it_has_no_values_no_directories_and_no_secrets(report):
    texts = {path: path.read_text() for path in report.rglob("*") if path.is_file()}
    assert not any(path.suffix == ".npy" for path in texts)
    assert all(SECRET not in text and "THEIR_PASSWORD" not in text for text in texts.values())
    here = __file__.rsplit("/", 1)[0]
    assert [str(path) for path, text in texts.items() if here in text] == []
    for graph in report.glob("graphs/*/graph.json"):
        assert all(values == "" for _, values in json.loads(graph.read_text())["constants"])


def test_without_a_path_it_goes_to_the_directory_one_is_in(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.spyre.diagnostic_report())"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    assert path.name == done.stdout.strip()


def packed(directory, program, **environment):
    """What a process packs whose cache may have programs of others."""
    code = f"import torch\n{program}\ntorch.spyre.diagnostic_report('report.zip')\n"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True,
        env=os.environ | {"OPENSPYRE_CACHE_DIR": str(directory / "cache")} | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(directory / "report.zip") as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


COMPILES = """
x = torch.ones(3, 64).half().to("spyre")
torch.compile(lambda x: torch.softmax(x, -1) + 1)(x)
torch.compiler.reset()
torch.compile(lambda x: torch.softmax(x, -1) + 1)(x)
"""


def test_it_has_what_this_process_used_once_and_nothing_of_another_one(tmp_path):
    compiled = packed(tmp_path, COMPILES)
    other = packed(tmp_path, "x = torch.ones(3).to('spyre'); x + x")
    again = packed(tmp_path, COMPILES)
    assert [name for name in compiled if name.endswith("/graph.json")] == [
        name for name in again if name.endswith("/graph.json")
    ]
    assert sum(name.endswith("/graph.json") for name in compiled) == 1
    assert any("/bundle/" in name for name in compiled)
    assert any(name.endswith("/card.program") for name in again)  # found on disk, and used
    assert not any("compiled/" in name or "graphs/" in name for name in other)


def test_variables_stand_in_it_as_the_user_set_them(tmp_path):
    found = json.loads(packed(tmp_path, "", TORCH_LOGS="spyre.compiler:ERROR")["environment.json"])
    assert found["TORCH_LOGS"] == "spyre.compiler:ERROR" and "OPENSPYRE_LOGS" not in found
