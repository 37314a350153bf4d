"""The documents are true: blocks run, tables are fresh, the reference is complete, promises name tests that exist."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_spyre._C
from torch_spyre.torch_seams import SEAMS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = sorted(DOCS.glob("*.md"))
EXECUTED = [document for document in DOCUMENTS if "```python" in document.read_text()]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, *map(str, arguments)]
    return subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("document", EXECUTED, ids=lambda document: document.name)
def test_the_python_blocks_run_and_print_what_the_document_says(document):
    done = run(DOCS / "run_blocks.py", document)
    assert done.returncode == 0, done.stderr


def test_a_wrong_output_and_a_failing_block_are_noticed(tmp_path):
    wrong, failing = tmp_path / "wrong.md", tmp_path / "failing.md"
    wrong.write_text("words\n\n```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    failing.write_text("```python\nx = 1\n```\n\n```python\nx.nonsense\n```\n")
    assert "wrong.md:8: the document says\n3\nbut this is printed\n2\n" in run(DOCS / "run_blocks.py", wrong).stderr
    done = run(DOCS / "run_blocks.py", failing)
    assert done.returncode == 1 and re.search(r'failing.md", line 6.*AttributeError', done.stderr, re.DOTALL)


def test_generated_tables_are_fresh():
    done = run(DOCS / "generate.py", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_stale_table_is_noticed(tmp_path):
    (tmp_path / "generate.py").write_text((DOCS / "generate.py").read_text())
    (tmp_path / "environment.md").write_text("Mine.\n<!-- generated: switches -->\nold\n<!-- end -->\nAlso mine.\n")
    assert run(tmp_path / "generate.py", "--check").returncode == 1
    assert run(tmp_path / "generate.py").returncode == 0
    written = (tmp_path / "environment.md").read_text()
    assert written.startswith("Mine.\n") and written.endswith("Also mine.\n") and "`OPENSPYRE_CARDS`" in written
    assert run(tmp_path / "generate.py", "--check").returncode == 0


def headings(document: Path) -> str:
    """What a reference page defines: the first column of its tables and its headings."""
    lines = document.read_text().splitlines()
    return "\n".join(line.split(" | ")[0] for line in lines if line.startswith(("| `", "#")))


@pytest.mark.parametrize("name", sorted(torch.spyre.__all__))
def test_the_reference_has_every_name_of_torch_spyre(name):
    assert re.search(rf"`(class )?torch\.spyre\.{name}\b", headings(DOCS / "api.md"))


@pytest.mark.parametrize("name", sorted(torch_spyre._C.__all__))
def test_the_reference_has_every_low_level_name(name):
    assert re.search(rf"`(class )?torch_spyre\._C\.{name}\b", headings(DOCS / "api.md"))


def test_the_reference_invents_nothing():
    for name in re.findall(r"`(?:class )?torch\.spyre\.(\w+)", (DOCS / "api.md").read_text()):
        assert hasattr(torch.spyre, name), name
    for name in re.findall(r"`(?:class )?torch_spyre\._C\.(\w+)", (DOCS / "api.md").read_text()):
        assert hasattr(torch_spyre._C, name), name


def test_every_subcommand_that_is_named_exists():
    text = "".join(document.read_text() for document in [ROOT / "README.md", *DOCUMENTS])
    named = set(re.findall(r"`openspyre (\w+)", text))
    assert "doctor" in named
    for subcommand in named:
        assert run("-m", "openspyre.tools.command", subcommand, "--help").returncode == 0, subcommand


def test_every_seam_has_its_row():
    shown = headings(DOCS / "torch_seams.md")
    assert [seam.symbol for seam in SEAMS if f"`{seam.symbol}`" not in shown] == []


def names_of_tests(path: Path) -> set[str]:
    text = path.read_text()
    if path.suffix == ".py":
        return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    return set(re.findall(r"^TEST\((\w+)\)", text, re.MULTILINE))


def test_every_promise_of_the_contract_names_tests_that_exist():
    named = re.findall(r"`([\w/]+\.(?:py|cpp))::(\w+)`", (DOCS / "contract.md").read_text())
    assert len(named) >= 30
    assert [f"{file}::{name}" for file, name in named if name not in names_of_tests(ROOT / file)] == []


def test_retiling_keeps_the_contents_and_is_seen_by_every_view():
    values = torch.arange(6400.0).reshape(32, 200) % 512
    x = values.half().to("spyre")
    column = x.t()[70]
    turned = torch.spyre.SpyreTensorLayout([32, 200], torch.float16, dim_order=[1, 0])
    torch.spyre.set_spyre_tensor_layout(x, turned)
    assert column.device_tensor_layout() == turned and torch.equal(column.cpu().float(), values[:, 70])
    column.copy_(torch.full((32,), 7.0))
    assert x.cpu()[:, 70].eq(7).all() and torch.equal(x.cpu()[:, 71:].float(), values[:, 71:])


def test_a_target_keeps_its_layout_and_a_result_gets_the_default():
    turned = torch.spyre.SpyreTensorLayout([96, 200], torch.float16, dim_order=[1, 0])
    x = torch.ones(96, 200, dtype=torch.float16).to("spyre", device_layout=turned)
    out = torch.empty(96, 200, dtype=torch.float16, device="spyre", device_layout=turned)
    x += 1
    torch.add(x, 1, out=out)
    assert x.device_tensor_layout() == out.device_tensor_layout() == turned and out[95, 199].item() == 3
    assert (x + 1).device_tensor_layout() == torch.spyre.SpyreTensorLayout([96, 200], torch.float16)


@pytest.mark.parametrize("document", [ROOT / "README.md", *DOCUMENTS], ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []
