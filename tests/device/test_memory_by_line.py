"""Who holds memory, now and at the peak: by line of Python, by module, by graph."""

import inspect
import random
from pathlib import Path

import pytest
import torch

from torch_spyre import _torch

memory = torch.spyre.memory
HERE = Path(__file__).name


ON_CARD = {"dtype": torch.float16, "device": "spyre"}


def _kib(count):
    """A tensor of that many KiB on the card: its size is a whole number of sticks."""
    return torch.empty(count, 512, **ON_CARD)


def _line():
    return inspect.currentframe().f_back.f_lineno


def _trace(snapshot=None, device=0):
    return (snapshot or memory._snapshot())["device_traces"][device]


def test_who_held_what_at_the_peak(recorded):
    recorded()
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.memory_allocated()

    def step():
        inner = torch.empty(300, 512, **ON_CARD)
        return inner, _line() - 1

    kept, line_kept = torch.empty(100, 512, **ON_CARD), _line()
    inner, line_inner = step()
    low, line_low = torch.empty(1, 512, **ON_CARD), _line()
    del inner, low
    later = torch.empty(200, 512, **ON_CARD)
    found = torch.spyre.memory_by_line()
    assert found.bytes == torch.spyre.max_memory_allocated() == before + (401 << 10)
    lines = {(Path(row.filename).name, row.line): (row.name, row.bytes, row.blocks) for row in found.lines if row.line}
    name = "test_who_held_what_at_the_peak"
    assert lines[HERE, line_kept] == (name, 100 << 10, 1)
    assert lines[HERE, line_inner] == ("step", 300 << 10, 1)
    assert lines[HERE, line_low] == (name, 1 << 10, 1)
    assert sum(row.bytes for row in found.lines) == found.bytes
    now = torch.spyre.memory_by_line(at_peak=False)
    assert now.bytes == torch.spyre.memory_allocated() == before + (300 << 10)
    assert {row.bytes for row in now.lines if row.line} == {100 << 10, 200 << 10}
    assert f"{HERE}:{line_inner} step" in torch.spyre.memory_summary()
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.memory_by_line().bytes == torch.spyre.memory_by_line(at_peak=False).bytes
    del kept, later


def test_the_peak_is_that_of_the_trace(recorded):
    """Random traffic; the oracle adds the entries of the trace up."""
    torch.spyre.reset_peak_memory_stats()
    recorded(context=None)
    numbers, held = random.Random(5), []
    begin = torch.spyre.memory_allocated()
    for _ in range(2000):
        if numbers.random() < 0.5:
            held.append(_kib(numbers.randrange(1, 60)))
        elif held:
            held.pop(numbers.randrange(len(held)))
    live, total, peak, at_peak = {}, begin, begin, {}
    for entry in _trace():
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry["size"]
            total += entry["size"]
            if total > peak:
                peak, at_peak = total, dict(live)
        elif entry["action"] == "free_requested":
            total -= live.pop(entry["addr"])
    (told, shares), _ = _torch.memory_shares(0)
    assert told == peak
    assert sorted(size for size, _, _ in shares) == sorted(at_peak.values())


def test_memory_from_before_the_recording_is_said_to_be_so(recorded):
    early = torch.empty(128, 512, **ON_CARD)
    recorded()
    late = torch.empty(64, 512, **ON_CARD)
    rows = {row.name: row.bytes for row in torch.spyre.memory_by_line().lines}
    assert rows["allocated before the recording began"] >= 128 << 10
    assert rows["test_memory_from_before_the_recording_is_said_to_be_so"] == 64 << 10
    del early, late


def test_lines_of_modules(recorded):
    class Leaf(torch.nn.Module):
        def forward(self, x):
            return x + 1

    class Tree(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Leaf(), Leaf()])

        def forward(self, x):
            return [layer(x) for layer in self.layers], x * 2

    x, tree = _kib(64).fill_(0), Tree()
    tree(x)
    recorded()
    kept = tree(x)
    found = torch.spyre.memory_by_line(at_peak=False)
    modules = {row.module: row.bytes for row in found.modules if row.module}
    assert modules == {"Tree.layers.0": 64 << 10, "Tree.layers.1": 64 << 10, "Tree": 64 << 10}
    assert "Tree.layers.1" in str(found)
    told = [entry["user_metadata"] for entry in _trace() if entry["action"] == "alloc"]
    assert told == ["Tree.layers.0", "Tree.layers.1", "Tree"]
    del kept


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while Inductor loads
def test_temporaries_of_a_compiled_graph_have_its_name(recorded):
    x = torch.randn(256, 256).half().to("spyre")
    compiled = torch.compile(lambda a: torch.softmax(a @ a, -1) @ a)
    compiled(x)
    recorded()
    result, line = compiled(x), _line()
    named = [entry for entry in _trace() if entry["action"] == "alloc" and entry["frames"][0]["filename"] == "<spyre>"]
    assert named and all("graph" in entry["frames"][0]["name"] for entry in named)
    assert any(frame["line"] == line and frame["filename"].endswith(HERE) for frame in named[0]["frames"])
    freed = {entry["addr"] for entry in _trace() if entry["action"] == "free_requested"}
    assert {entry["addr"] for entry in named} <= freed
    rows = [row for row in torch.spyre.memory_by_line().lines if "graph" in row.purpose]
    assert sum(row.bytes for row in rows) >= max(entry["size"] for entry in named)
    del result


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_what_backward_allocates_is_told_by_its_node(recorded, compiled):
    """Threads of autograd have no line of the user's, and code that Inductor wrote is none."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 128)).to("spyre")
    run = torch.compile(model) if compiled else model
    x = torch.randn(64, 128).to("spyre")
    run(x).sum().backward()
    model.zero_grad()
    recorded()
    run(x).sum().backward()
    found = torch.spyre.memory_by_line(at_peak=False)
    told = {line.name: line.bytes for line in found.lines if not line.line and line.filename == ""}
    backward = {name: size for name, size in told.items() if name.startswith("backward: ")}
    wanted = sum(p.grad.untyped_storage().nbytes() for p in model.parameters())
    assert sum(backward.values()) >= 0.9 * wanted, found  # gradients
    assert all("Backward" in name or "AccumulateGrad" in name for name in backward)
    assert not any("torchinductor_" in line.filename for line in found.lines)
    assert "no stack was recorded" not in told


def test_the_summary_looks_like_that_of_cuda():
    x = _kib(2048)
    text = torch.spyre.memory_summary()
    lines = text.splitlines()
    assert {len(line) for line in lines} == {77} and all(line[0] == line[-1] == "|" for line in lines)
    assert "PyTorch SPYRE memory summary, device ID 0" in text
    row = next(line for line in lines if "Allocated memory" in line).strip("|").split("|")
    count, unit = row[1].split()
    allocated = torch.spyre.memory_allocated()
    assert int(count) == allocated // {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]
    del x
