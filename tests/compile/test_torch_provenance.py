"""torch's own provenance files know our launches: from the kernel to the nodes of both graphs, and to the lines."""

import json

import pytest
import torch
from torch._inductor import config
from torch._inductor.debug import create_kernel_information_json, reset_provenance_globals

from torch_spyre.inductor.reporting.report import compile_report

HERE = __file__
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, while Inductor loads


def attended(x, weight):
    scores = x @ weight
    return torch.softmax(scores, -1) + 1


def test_a_launch_is_a_kernel_with_its_nodes_and_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(torch._dynamo.config, "debug_dir_root", str(tmp_path / "debug"))  # not where it runs
    torch.compiler.reset()
    x, weight = (torch.randn(64, 64).half().to("spyre") for _ in range(2))
    with (
        config.patch(
            {"trace.enabled": True, "trace.debug_dir": str(tmp_path / "trace"), "trace.provenance_tracking_level": 1}
        ),
        config.patch(force_disable_caches=True),
    ):
        torch.compile(attended)(x, weight)
    (path,) = tmp_path.rglob("inductor_provenance_tracking_node_mappings.json")
    mapping = json.loads(path.read_text())
    (kernel,) = mapping["cppCodeToPost"]
    (bundle,) = compile_report()[-1].bundles
    assert (
        kernel == f"spyre_bundle_{bundle.key[:12]}:1"
    )  # a trace's launch has it, too: tests/profiler/test_provenance.py
    (launch,) = mapping["cppCodeToPost"][kernel]
    assert mapping["postToCppCode"][launch] == [kernel]
    assert {"scores", "softmax", "add"} == set(mapping["postToPre"][launch])
    assert all(launch in mapping["preToPost"][node] for node in ("scores", "softmax", "add"))
    (code,) = path.parent.rglob("output_code.py")
    assert f"[Provenance debug handles] {kernel}" in code.read_text()


def test_a_kernel_tells_all_its_lines(monkeypatch):
    torch.compiler.reset()
    told = []
    dump = torch._inductor.debug.dump_inductor_provenance_info
    monkeypatch.setattr(
        torch._inductor.debug,
        "dump_inductor_provenance_info",
        lambda: told.append(create_kernel_information_json()) or dump(),
    )
    x, weight = (torch.randn(64, 64).half().to("spyre") for _ in range(2))
    with (
        config.patch({"trace.provenance_tracking_level": 1, "force_disable_caches": True}),
        reset_provenance_globals(),
    ):
        torch.compile(attended)(x, weight)
    (kernels,) = told
    (kernel,) = kernels.values()
    assert sorted(kernel["pre_grad_nodes"]) == ["add", "scores", "softmax"]
    first = attended.__code__.co_firstlineno
    lines = "\n".join(kernel["stack_traces"])
    assert f'File "{HERE}", line {first + 1}, in attended' in lines
    assert f'File "{HERE}", line {first + 2}, in attended' in lines
