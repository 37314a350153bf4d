"""The documents are true: blocks run, tables are fresh, the reference is complete, promises name tests that exist."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_spyre._C
from openspyre.spec.ops import TABLE
from torch_spyre.ops import eager
from torch_spyre.torch_seams import SEAMS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = sorted(DOCS.glob("*.md"))
NEEDS = {"libraries.md": ("transformers", "accelerate", "peft", "sentence_transformers", "fms")}
EXECUTED = [document for document in DOCUMENTS if "```python" in document.read_text()]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, *map(str, arguments)]
    return subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("document", EXECUTED, ids=lambda document: document.name)
def test_the_python_blocks_run_and_print_what_the_document_says(document):
    for package in NEEDS.get(document.name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"its blocks need {package}: pip install 'openspyre[models]'")
    done = run(DOCS / "run_blocks.py", document)
    assert done.returncode == 0, done.stderr


def test_a_wrong_output_and_a_failing_block_are_noticed(tmp_path):
    wrong, failing = tmp_path / "wrong.md", tmp_path / "failing.md"
    wrong.write_text("words\n\n```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    failing.write_text("```python\nx = 1\n```\n\n```python\nx.nonsense\n```\n")
    assert "wrong.md:8: the document says\n3\nbut this is printed\n2\n" in run(DOCS / "run_blocks.py", wrong).stderr
    done = run(DOCS / "run_blocks.py", failing)
    assert done.returncode == 1 and re.search(r'failing.md", line 6.*AttributeError', done.stderr, re.DOTALL)


def test_what_a_block_prints_of_its_lines_does_not_depend_on_the_page_around_it(tmp_path):
    page = tmp_path / "page.md"
    code = "import sys\nframe = sys._getframe()\nprint(f'page.md:{frame.f_lineno}')"
    page.write_text(f"words\n\nmore\n\n```python\n{code}\n```\n\n```text\nexample.py:3\n```\n")
    done = run(DOCS / "run_blocks.py", page)
    assert done.returncode == 0, done.stderr


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


def test_the_reference_has_every_subcommand():
    from openspyre.tools.command import SUBCOMMANDS

    shown = set(re.findall(r"^\| `openspyre (\w+)", (DOCS / "api.md").read_text(), re.MULTILINE))
    assert shown == {subcommand.__name__.rpartition(".")[2] for subcommand in SUBCOMMANDS}


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


def test_a_target_keeps_its_layout_and_a_result_lies_as_its_first_operand():
    turned = torch.spyre.SpyreTensorLayout([96, 200], torch.float16, dim_order=[1, 0])
    default = torch.spyre.SpyreTensorLayout([96, 200], torch.float16)
    x = torch.ones(96, 200, dtype=torch.float16).to("spyre", device_layout=turned)
    y = torch.ones(96, 200, dtype=torch.float16).to("spyre")
    out = torch.empty(96, 200, dtype=torch.float16, device="spyre", device_layout=turned)
    x += y
    torch.add(y, x, out=out)
    assert x.device_tensor_layout() == out.device_tensor_layout() == turned and out[95, 199].item() == 3
    for result in (x + 1, x + y, x.relu(), x > 0, x.clone(), x.contiguous()):
        assert result.device_tensor_layout() == turned
    for result in (y + x, torch.empty_like(x), torch.zeros_like(x)):
        assert result.device_tensor_layout() == default
    assert x.float().device_tensor_layout() == torch.spyre.SpyreTensorLayout([96, 200], torch.float32), "other sticks"


def compilations(*calls) -> int:
    """How many programs are compiled by all calls but the first."""
    calls[0]()
    before = eager.counts()["compilations"]
    for call in calls[1:]:
        call()
    return eager.counts()["compilations"] - before


def test_what_is_not_in_the_key_compiles_nothing():
    x, other = torch.randn(41, 130).to("spyre"), torch.randn(41, 130).to("spyre")
    assert compilations(lambda: x * 0.5, lambda: x * 0.7, lambda: other * 0.5) == 0
    assert compilations(*(lambda i=i: x[i] + 1 for i in range(41))) == 0
    assert compilations(*(lambda i=i: x[:, 32 * i : 32 * i + 32] - 1 for i in range(4))) == 0
    assert compilations(*(lambda i=i: x[:, i] / 2 for i in range(130))) <= 31


def test_what_is_in_the_key_compiles():
    x, other = torch.randn(43, 130).to("spyre"), torch.randn(43, 130).to("spyre")
    turned = other.clone()
    torch.spyre.set_spyre_tensor_layout(
        turned, torch.spyre.SpyreTensorLayout([43, 130], torch.float32, dim_order=[1, 0])
    )
    plain = lambda: x + other  # noqa: E731
    for changed in (
        lambda: x[:9] + other[:9],
        lambda: x.t() + other.t(),
        lambda: x.half() + other.half(),
        lambda: x + turned,
        lambda: x + x,
    ):
        changed_alone = compilations(plain, changed)
        assert changed_alone >= 1 and compilations(plain, changed) == 0


def test_an_example_shows_every_stage_and_both_doors_agree():
    done = run(
        "-c", "import runpy, torch_spyre; runpy.run_path('examples/one_op_through_all_stages.py', run_name='__main__')"
    )
    assert done.returncode == 0, done.stderr
    assert "the same bits through torch: True" in done.stdout and len(done.stdout.splitlines()) <= 65
    for telling in ("split 32", "sdsc_1.json", '"mb": 32', "ComputeOnDevice", "r2 = add(r0, r1)"):
        assert telling in done.stdout, telling


def test_an_example_compiles_a_transformer_block():
    done = run("-c", "import runpy, torch_spyre; runpy.run_path('examples/transformer_block.py', run_name='__main__')")
    assert done.returncode == 0, done.stderr
    assert "the bits of eager: True" in done.stdout
    assert "1 bundle(s), 0 fallback(s)" in done.stdout
    error = float(re.search(r"CPU: ([\d.]+) of", done.stdout)[1])
    assert error < 8 * 2**-10, "a few roundings to the card's 9 fraction bits"


def test_an_example_allocates_tensors_in_layouts():
    done = run("-c", "import runpy, torch_spyre; runpy.run_path('examples/tensor_allocate.py', run_name='__main__')")
    assert done.returncode == 0, done.stderr
    for telling in (
        "moved there            torch.float16 [48, 100]: [2, 48, 64], 12288 bytes",
        "[1, 100, 64]",
        "[48, 2, 64]",
    ):
        assert telling in done.stdout, done.stdout
    assert "the same values in every layout: True" in done.stdout


def test_an_example_computes_a_softmax():
    done = run("-c", "import runpy, torch_spyre; runpy.run_path('examples/softmax.py', run_name='__main__')")
    assert done.returncode == 0, done.stderr
    assert "compiled gives the bits of eager: True" in done.stdout and "rows sum to one: True" in done.stdout
    assert float(re.search(r"error: ([\d.]+) units", done.stdout)[1]) <= 4, "what the contract promises (N4)"


def test_an_example_explains_a_transformer_block(tmp_path):
    page = tmp_path / "block.html"
    code = "import runpy, sys, torch_spyre; sys.argv[1:] = [sys.argv[-1]]; runpy.run_path('examples/explain_transformer_block.py', run_name='__main__')"
    done = run("-c", code, str(page))
    assert done.returncode == 0, done.stderr
    assert "what would save most" in done.stdout and f"as a page: {page}" in done.stdout
    assert "transformer_block.py:" in done.stdout and "batchmatmul" in page.read_text()


def test_an_example_leaves_a_trace_and_says_how_to_open_it(tmp_path):
    trace = tmp_path / "block.trace.json"
    code = "import runpy, sys, torch_spyre; sys.argv[1:] = [sys.argv[-1]]; runpy.run_path('examples/profile_transformer_block.py', run_name='__main__')"
    done = run("-W", "ignore", "-c", code, str(trace))
    assert done.returncode == 0, done.stderr
    assert f"the trace: {trace}" in done.stdout and "ui.perfetto.dev" in done.stdout
    assert "transformer_block.py:" in done.stdout
    launches = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]
    assert [e["args"]["steps"] for e in launches if e["name"].startswith(("graph", "spyre_kernel"))] != []


def test_the_page_of_operations_has_every_row():
    page = (DOCS / "supported_operations.md").read_text()
    assert [name for name in TABLE if f"\n| `{name}` |" not in page] == []


def fallbacks_of(call, *sizes: tuple[int, ...]) -> list[str]:
    """Operators that ran on the CPU for a call and its gradient."""
    given = [torch.randn(size).half().to("spyre").requires_grad_() for size in sizes]
    torch.spyre.reset_fallback_stats()
    call(*given).sum().backward()
    return sorted(torch.spyre.fallback_stats())


def test_convolutions_and_pools_run_where_the_page_says():
    functional = torch.nn.functional
    image, kernel = (2, 4, 12, 12), (8, 4, 3, 3)
    assert fallbacks_of(functional.conv1d, (2, 4, 20), (8, 4, 3)) == []
    assert fallbacks_of(lambda x, w: functional.conv2d(x, w, stride=2, padding=1, dilation=2), image, kernel) == []
    assert fallbacks_of(lambda x, w: functional.conv2d(x, w, groups=4), image, (8, 1, 3, 3)) == []
    assert fallbacks_of(lambda x: functional.adaptive_avg_pool2d(x, 1), image) == []
    for pool in (functional.max_pool2d, functional.avg_pool2d):
        (only,) = fallbacks_of(lambda x, pool=pool: pool(x, 2), image)
        assert "backward" in only
    for call, sizes in (
        (functional.conv3d, ((1, 4, 6, 6, 6), (8, 4, 3, 3, 3))),
        (functional.conv_transpose2d, (image, (4, 8, 3, 3))),
        (lambda x: functional.adaptive_max_pool2d(x, 3), (image,)),
        (lambda x: functional.unfold(x, 3), (image,)),
    ):
        assert any("backward" not in operator for operator in fallbacks_of(call, *sizes))


@pytest.mark.parametrize("document", [ROOT / "README.md", *DOCUMENTS], ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []
