"""A second process compiles nothing: Inductor finds its code, the card's half its programs; what is damaged is made anew."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

MODELS = {
    "inference": """
model = torch.nn.Sequential(torch.nn.Linear(70, 130), torch.nn.GELU(), torch.nn.Linear(130, 9)).eval()
inputs = [torch.randn(5, 70)]
def run(model, x):
    with torch.no_grad():
        return [torch.compile(model, dynamic=False)(x)]
""",
    "training": """
model = torch.nn.Sequential(torch.nn.Linear(70, 130), torch.nn.LayerNorm(130), torch.nn.Linear(130, 9))
inputs = [torch.randn(5, 70)]
def run(model, x):
    out = torch.compile(model, dynamic=False)(x)
    (out * out).mean().backward()
    return [out.detach(), *(p.grad for p in model.parameters())]
""",
    "dynamic": """
model = torch.nn.Sequential(torch.nn.Linear(70, 9), torch.nn.Softmax(-1)).eval()
inputs = [torch.randn(n, 70) for n in (5, 8, 11)]
def run(model, *xs):
    compiled = torch.compile(model, dynamic=True)
    with torch.no_grad():
        return [compiled(x) for x in xs]
""",
}

MODELS["constants"] = """
model, inputs = torch.nn.Linear(70, 70), [torch.randn(300, 70)]
def run(model, x):
    def placed(x):
        x = model(x) + torch.arange(70, device=x.device)
        return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)
    with torch.no_grad():
        return [torch.compile(placed, dynamic=False)(x)]
"""

MODELS["fallback"] = """
model, inputs = torch.nn.Linear(70, 9), [torch.rand(5, 70)]
def run(model, x):
    def shown(x):
        return torch.digamma(model(x.t().contiguous().t()) + 30) + 1
    with torch.no_grad():
        return [torch.compile(shown, dynamic=False)(x)]
"""

PROCESS = """
import copy, json, pathlib, sys, warnings
warnings.simplefilter("ignore")
import torch
torch.manual_seed(0)
{model}
if {artifacts!r} and pathlib.Path({artifacts!r}).exists():
    torch.compiler.load_cache_artifacts(pathlib.Path({artifacts!r}).read_bytes())
if {other_sources}:
    from torch_spyre.inductor import backend, source_hash, specialise
    backend.source_hash = specialise.source_hash = lambda: "other sources"
reference = copy.deepcopy(model)
on_card = run(model.to("spyre"), *(x.to("spyre") for x in inputs))
torch._dynamo.reset()
run_eager = reference
torch.compile = lambda model, **options: model
expected = run(reference, *inputs)
error = max(float((a.cpu() - b).abs().max()) for a, b in zip(on_card, expected))
from torch_spyre.inductor import report, specialise
reports = report.compile_report()
facts = [[left.operator, left.reason] for r in reports for left in r.fallbacks]
facts += [s.facts() for r in reports for b in r.bundles for s in b.specialisations]
imported = sum(r.imported for r in reports)
if {artifacts!r} and not pathlib.Path({artifacts!r}).exists():
    pathlib.Path({artifacts!r}).write_bytes(torch.compiler.save_cache_artifacts()[0])
print(json.dumps(dict(specialise.counts(), imported=imported, error=error, facts=facts)))
"""


class Processes:
    """Processes that share caches nobody else uses."""

    def __init__(self, directory: Path):
        self.ours, self.inductor = directory / "ours", directory / "inductor"

    def run(
        self, model: str, *, other_sources: bool = False, artifacts: str = "", **environment: str
    ) -> dict[str, Any]:
        caches = {"OPENSPYRE_CACHE_DIR": str(self.ours), "TORCHINDUCTOR_CACHE_DIR": str(self.inductor)}
        script = PROCESS.format(model=MODELS[model], other_sources=other_sources, artifacts=artifacts)
        done = subprocess.run(
            [sys.executable, "-c", script], env=os.environ | caches | environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[-1])
        assert told["error"] < 1e-4
        return told | {"stderr": done.stderr}

    def entries(self) -> list[Path]:
        return sorted((self.ours / "graphs").glob("*.graph"))


@pytest.fixture
def processes(tmp_path):
    return Processes(tmp_path)


@pytest.mark.parametrize("model", MODELS)
def test_the_second_process_compiles_nothing(model, processes):
    first = processes.run(model)
    assert first["imported"] >= 1 and first["compiled"] >= 1 and first["found"] == 0
    second = processes.run(model)
    assert (second["imported"], second["compiled"], second["found"]) == (0, 0, first["compiled"])
    assert second["facts"] == first["facts"] and first["facts"]


def test_artifacts_warm_a_process_that_shares_no_directory(tmp_path):
    artifacts = str(tmp_path / "artifacts")
    first = Processes(tmp_path / "here").run("training", artifacts=artifacts)
    there = Processes(tmp_path / "there").run("training", artifacts=artifacts)
    assert (there["imported"], there["compiled"], there["found"]) == (0, 0, first["compiled"])


def test_a_process_without_a_cache_compiles(processes, tmp_path):
    (tmp_path / "file").touch()
    told = processes.run("inference", OPENSPYRE_CACHE_DIR=str(tmp_path / "file"), OPENSPYRE_LOGS="spyre.compiler")
    assert told["compiled"] == 1 and "graph0: compiled as" in told["stderr"]


def test_torchs_switch_for_all_caches_is_ours_too(processes):
    processes.run("inference")
    (entry,) = processes.entries()
    warm = processes.run("inference", TORCH_LOGS="spyre.compiler")
    assert warm["found"] == 1 and "graph0: found on disk as" in warm["stderr"]
    entry.unlink()
    for _ in range(2):
        told = processes.run("inference", TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
        assert (told["compiled"], told["found"]) == (1, 0)
    assert processes.entries() == []


def test_other_sources_compile_again(processes):
    first = processes.run("inference")
    changed = processes.run("inference", other_sources=True)
    assert (changed["imported"], changed["compiled"]) == (first["imported"], first["compiled"])
    again = processes.run("inference", other_sources=True)
    assert (again["imported"], again["compiled"]) == (0, 0)


def test_another_number_of_cores_is_another_program(processes):
    processes.run("inference")
    fewer = processes.run("inference", SENCORES="4")
    assert fewer["compiled"] == 1 and len(processes.entries()) == 2
    slow = processes.run("inference", SPYRE_CORE_ID_K_FAST_EMISSION="0")
    assert slow["compiled"] == 1 and len(processes.entries()) == 3


def test_a_damaged_entry_is_compiled_again_and_entries_are_private(processes):
    processes.run("inference")
    (entry,) = processes.entries()
    assert processes.ours.stat().st_mode & 0o077 == 0
    assert entry.stat().st_mode & 0o077 == 0
    whole = entry.read_bytes()
    middle = len(whole) // 2
    entry.write_bytes(whole[:middle] + (b"8" if whole[middle : middle + 1] == b"7" else b"7") + whole[middle + 1 :])
    assert processes.run("inference")["compiled"] == 1
    assert entry.read_bytes() == whole


@pytest.mark.parametrize(
    ("old", "new"),
    [('"symbol": 0', '"symbol": 99'), ('"symbols": [', '"symbols": ["'), ('"lanes": 32', '"lanes": 33')],
    ids=["a symbol too many", "no program", "no lanes of this card"],
)
@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
def test_a_program_that_the_card_refuses_is_compiled_again(old, new, tmp_path, monkeypatch):
    from torch_spyre.inductor import launch, specialise  # loads Inductor, which warns

    cache = specialise.TextCache(tmp_path, "graph")
    monkeypatch.setattr(specialise, "_kept", lambda: cache)
    monkeypatch.setattr(specialise, "_caching", lambda: True)
    launch.clear()
    x = torch.randn(5, 70)
    compiled = torch.compile(lambda x: torch.relu(x) + 1, dynamic=False)
    compiled(x.to("spyre"))
    (entry,) = tmp_path.glob("*.graph")
    assert old in entry.read_text()
    damaged = entry.read_text().partition("\n")[2].replace(old, new)
    monkeypatch.setattr(specialise.TextCache, "find", lambda self, key: damaged)
    launch.clear()
    before = specialise.counts()["compiled"]
    assert torch.equal(compiled(x.to("spyre")).cpu(), torch.relu(x) + 1)
    assert specialise.counts()["compiled"] == before + 1


SAVED = """
import pathlib, sys, warnings
warnings.simplefilter("ignore")
import torch
torch.manual_seed(0)
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(70, 130), torch.nn.Linear(130, 9)
    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))
block, x = Block().requires_grad_(False), torch.randn(5, 70)
expected = block(x)
block, x, file = block.to("spyre"), x.to("spyre"), pathlib.Path(sys.argv[1])
if file.exists():
    with file.open("rb") as opened:
        run = torch.compiler.load_compiled_function(opened)
else:
    run = torch.compile(block, fullgraph=True, dynamic=False).forward.aot_compile(((x,), {}))
    run.save_compiled_function(str(file))
torch.testing.assert_close(run(block, x).cpu(), expected, rtol=1e-5, atol=1e-5)
from torch_spyre.inductor import specialise
print(specialise.counts()["compiled"], *torch._dynamo.utils.compilation_time_metrics)
"""


def test_a_saved_function_starts_without_dynamo(tmp_path):
    caches = {"OPENSPYRE_CACHE_DIR": str(tmp_path / "ours"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    command = [sys.executable, "-c", SAVED, str(tmp_path / "function")]
    told = []
    for _ in range(2):
        done = subprocess.run(command, env=os.environ | caches, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.split())
    assert (told[0][0], "bytecode_tracing" in told[0]) == ("1", True)
    assert (told[1][0], "bytecode_tracing" in told[1]) == ("0", False)
