"""From an event of a trace to the line and the module that I wrote, and back from the line to all its steps."""

import inspect
import re
from collections import defaultdict

import pytest
import torch
from torch import nn

import torch_spyre
from openspyre.artifact import read_bundle
from openspyre.artifact.kernel_key import NAME_BYTES, read_event_name
from openspyre.compiler.text import parse_program
from torch_spyre import _C

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, while Inductor loads


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(128), nn.Linear(128, 256), nn.Linear(256, 128)

    def forward(self, x):
        h = self.norm(x)  # LINE norm
        h = self.up(h)  # LINE up
        h = torch.nn.functional.gelu(h)  # LINE gelu
        return x + self.down(h)  # LINE down


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.head = nn.Sequential(nn.Linear(128, 64), nn.ReLU())

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return torch.softmax(self.head(x), -1)  # LINE head


SOURCE = inspect.getsource(inspect.getmodule(Model)).splitlines()
LINES = {m[1]: number for number, text in enumerate(SOURCE, 1) if (m := re.search(r"# LINE (\w+)$", text))}

WRITTEN = ("norm", "up", "gelu", "down", "head")  # lines of the model


@pytest.fixture(scope="module")
def model():
    torch.compiler.reset()
    torch.manual_seed(0)
    return Model().half().to("spyre").requires_grad_(False), torch.randn(64, 128).half().to("spyre")


@pytest.fixture
def run(traced, model):
    """The launch and its steps."""
    compiled = torch.compile(model[0])
    compiled(model[1])
    _, trace = traced(lambda: compiled(model[1]))
    (launch,) = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    steps = [e for e in trace["traceEvents"] if e.get("cat") == "gpu_user_annotation" and "step" in e.get("args", {})]
    return launch, steps


def test_every_step_leads_to_the_line_and_module_i_wrote_and_back(run, model, tmp_path):
    launch, steps = run
    (exported,) = torch_spyre.export_bundle(model[0], model[1], directory=tmp_path / "bundle")
    handles = {op.provenance.id: op for op in read_bundle(exported).ops.values()}
    imported = {op.name: op for op in parse_program((exported / "graph.ir").read_text()).ops}
    executions, names = len(handles), set()
    steps_of_line, modules_of_line = defaultdict(set), defaultdict(set)
    for step in steps:
        args = step["args"]
        assert args["provenance_key"] == launch["args"]["provenance_key"]
        assert args["operator"].startswith("aten.")
        for handle in args["debug_handles"]:
            found = handles.pop(handle).provenance  # each execution is in one step
            *nodes, op_name = found.ir_chain
            names.add(op_name)
            began = next(op for op in imported.values() if op.origin.nodes == tuple(nodes))
            assert (began.origin.operator, began.origin.module) == (found.aten_op, found.module or "")
            assert (began.origin.file, began.origin.line) == (found.source.file, found.source.line)
            assert found.source.file == __file__
            assert f"{__file__}:{found.source.line}" in args["source"]
            assert found.module is None or found.module in args["module"]
            steps_of_line[found.source.line].add(args["step"])
            modules_of_line[found.source.line].add(found.module)
    assert not handles  # nor is an execution without a step
    assert len(names) == executions  # each is an op of the compiler's
    assert set(steps_of_line) == {LINES[name] for name in WRITTEN}
    assert set.union(*steps_of_line.values()) == set(range(len(steps)))  # no step without an origin
    layers = {f"layers.{i}" for i in range(2)}
    assert modules_of_line[LINES["norm"]] == {f"{layer}.norm (LayerNorm)" for layer in layers}
    assert modules_of_line[LINES["up"]] == {f"{layer}.up (Linear)" for layer in layers}
    assert modules_of_line[LINES["gelu"]] == {f"{layer} (Layer)" for layer in layers}
    both = {f"{layer}.down (Linear)" for layer in layers} | {f"{layer} (Layer)" for layer in layers}
    assert modules_of_line[LINES["down"]] == both
    assert modules_of_line[LINES["head"]] == {"head.0 (Linear)", "head.1 (ReLU)", None}


def test_a_launch_is_called_as_documented_and_its_key_finds_it_again(run):
    launch, steps = run
    event = read_event_name(launch["name"])
    assert event is not None
    assert len(launch["name"].encode()) <= NAME_BYTES
    assert (event.key, event.step) == (launch["args"]["provenance_key"], 0)
    (bundle,) = torch_spyre.compile_report()[-1].bundles
    assert launch["args"]["bundle"] == bundle.key[:12]  # so do torch's files: tests/compile/test_torch_provenance.py
    assert event.operators.startswith("fused_native_layer_norm_addmm_gelu")
    assert _C.extract_provenance_key(launch["name"]) == event.key
    known = _C.lookup_provenance(event.key)
    assert known is not None
    assert f"{known.kernel}#0" == launch["name"]
    assert [h for op in known.ops for h in op.debug_handles] == [h for s in steps for h in s["args"]["debug_handles"]]
    assert {f"{__file__}:{line}" for line in (LINES[name] for name in WRITTEN)} == {op.source for op in known.ops}
    assert _C.lookup_provenance("a" * 16) is None
    assert _C.extract_provenance_key("aten::add") is None
    assert _C.provenance_stats()["kernels"] >= 1


def test_an_eager_step_names_its_operator(traced, model):
    _, trace = traced(lambda: torch.sigmoid(model[1]))
    steps = [e["args"] for e in trace["traceEvents"] if "step" in e.get("args", {})]
    assert steps
    assert {step["operator"] for step in steps} == {"aten.sigmoid.default"}


def test_a_sequence_of_torchs_own_modules_tells_its_modules(tmp_path):
    torch.compiler.reset()
    chain = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).half().to("spyre").requires_grad_(False)
    (exported,) = torch_spyre.export_bundle(chain, torch.randn(8, 64).half().to("spyre"), directory=tmp_path / "bundle")
    modules = {op.provenance.module for op in read_bundle(exported).ops.values()}
    assert modules == {"0 (Linear)", "1 (ReLU)"}


def test_two_lines_that_compute_the_same_tell_their_own(traced):
    torch.compiler.reset()

    def first(x):
        return torch.tanh(x) * 3  # LINE first

    def second(x):
        return torch.tanh(x) * 3  # LINE second

    x = torch.randn(8, 64).half().to("spyre")
    for function, line in ((first, LINES["first"]), (second, LINES["second"])):
        compiled = torch.compile(function)
        compiled(x)
        _, trace = traced(lambda: compiled(x))  # noqa: B023
        told = {e["args"]["source"] for e in trace["traceEvents"] if "step" in e.get("args", {})}
        assert told == {f"{__file__}:{line}"}


class Looked(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 64)

    def forward(self, rows):
        return self.table(rows) * 2  # LINE looked


@pytest.mark.parametrize("compiled", [False, True])
def test_an_error_of_a_launch_names_operator_line_and_module(compiled):
    torch.compiler.reset()
    model, rows = Looked().half().to("spyre").requires_grad_(False), torch.tensor([1, 70]).to("spyre")
    with pytest.raises(IndexError, match="index 70 is out of bounds") as failed:
        (torch.compile(model) if compiled else model)(rows).cpu()
    assert "comes from aten.embedding.default" in str(failed.value)
    if compiled:
        assert f"at {__file__}:{LINES['looked']} in table (Embedding)" in str(failed.value)
