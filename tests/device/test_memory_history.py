"""The memory history: torch's own viewer reads the snapshots, and what they tell is what the program did."""

import inspect
import os
import pickletools
import random
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from memory_replay import states_before
from torch.cuda import _memory_viz

from openspyre.spec.errors import BadFork, InvalidArgument
from torch_spyre import _torch

memory = torch.spyre.memory
HERE = Path(__file__).name
# What the viewer's reader of pickles knows (torch/utils/viz/MemoryViz.js).
READABLE = {
    "APPENDS",
    "BINGET",
    "BININT",
    "BININT1",
    "BININT2",
    "EMPTY_DICT",
    "EMPTY_LIST",
    "FRAME",
    "LONG1",
    "LONG_BINGET",
    "MARK",
    "MEMOIZE",
    "PROTO",
    "SETITEMS",
    "SHORT_BINUNICODE",
    "STOP",
    "TUPLE2",
    "APPEND",
    "NEWFALSE",
    "BINPUT",
    "BINUNICODE",
    "EMPTY_TUPLE",
    "NEWTRUE",
    "NONE",
    "BINFLOAT",
    "TUPLE",
    "TUPLE1",
    "TUPLE3",
    "LONG_BINPUT",
    "LIST",
    "DICT",
    "SETITEM",
}


ON_CARD = {"dtype": torch.float16, "device": "spyre"}


def _kib(count):
    """A tensor of that many KiB on the card: its size is a whole number of sticks."""
    return torch.empty(count, 512, **ON_CARD)


def _line():
    return inspect.currentframe().f_back.f_lineno


def _trace(snapshot=None, device=0):
    return (snapshot or memory._snapshot())["device_traces"][device]


def _actions(trace):
    return [entry["action"] for entry in trace if not entry["action"].startswith("segment")]


def test_the_viewer_of_torch_reads_a_snapshot(recorded, tmp_path):
    recorded()
    kept, line = _kib(64), _line()
    gone = _kib(32)
    del gone
    snapshot = memory._snapshot()
    text = _memory_viz.memory(snapshot, format_flamegraph=lambda lines: lines)
    mine = [row for row in text.splitlines() if f"{HERE}:{line}:test_the_viewer" in row]
    assert len(mine) == 1 and "active_allocated" in mine[0] and mine[0].endswith(f" {64 << 10}")
    assert f"{HERE}:{line}:" in _memory_viz.segments(snapshot, format_flamegraph=lambda lines: lines)
    # It asserts that the sizes of blocks add up to those of segments.
    assert f"segments: {len(snapshot['segments'])}" in _memory_viz.segsum(snapshot)
    told = _memory_viz.trace(snapshot)
    assert ":64.0KiB]" in told and "# 32.0KiB" in told and "free completed" in told
    for page in (_memory_viz.trace_plot(snapshot), _memory_viz.segment_plot(snapshot)):
        assert "snapshot.pickle" in page
    file = tmp_path / "memory.pickle"
    memory._dump_snapshot(file)
    for action, output in (
        ("stats", None),
        ("trace", None),
        ("trace_plot", "plot.html"),
        ("segment_plot", "plot.html"),
    ):
        command = [sys.executable, "-m", "torch.cuda._memory_viz", action, str(file)]
        command += ["-o", str(tmp_path / output)] if output else []
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stderr
        assert "64.0KiB" in run.stdout or action != "trace"
    del kept


def test_a_file_has_only_what_the_viewer_can_read(recorded, tmp_path):
    recorded()
    tensors = [_kib(count) for count in range(1, 300)]
    del tensors[::2]
    file = tmp_path / "memory.pickle"
    memory._dump_snapshot(file)
    assert {code.name for code, _, _ in pickletools.genops(file.read_bytes())} <= READABLE
    assert [entry.name for entry in tmp_path.iterdir()] == ["memory.pickle"]


def test_segments_hold_what_the_counters_say(recorded):
    recorded()
    tensors = [_kib(count) for count in (1, 2, 500, 3000)]
    del tensors[1]
    torch.spyre.synchronize()
    segments = torch.spyre.memory_snapshot()
    assert sum(segment["total_size"] for segment in segments) == torch.spyre.memory_reserved()
    assert sum(segment["allocated_size"] for segment in segments) == torch.spyre.memory_allocated()
    assert sum(segment["active_size"] for segment in segments) == torch.spyre.memory_stats()["active_bytes.all.current"]
    requested = torch.spyre.memory_stats()["requested_bytes.all.current"]
    assert sum(segment["requested_size"] for segment in segments) == requested


def test_a_history_walks_back_to_its_beginning(recorded):
    """Random traffic on three streams, with memory given back to the host: the state before each entry makes sense."""
    recorded(context=None)
    numbers = random.Random(3)
    streams = [torch.spyre.default_stream(), torch.spyre.Stream(), torch.spyre.Stream()]
    held = []
    for _ in range(1500):
        match numbers.randrange(8):
            case 0 | 1 | 2:
                with torch.spyre.stream(numbers.choice(streams)):
                    held.append(_kib(numbers.choice((1, 3, 64, 65, 500, 5000))))
            case 3 if held:
                held[-1].record_stream(numbers.choice(streams))
            case 4 | 5 | 6 if held:
                held.pop(numbers.randrange(len(held)))
            case 7 if numbers.random() < 0.1:
                torch.spyre.empty_cache()
    snapshot = memory._snapshot()
    assert {"alloc", "free_requested", "free_completed", "segment_map", "segment_unmap"} <= {
        entry["action"] for entry in _trace(snapshot)
    }
    assert sum(1 for _ in states_before(snapshot)) == len(_trace(snapshot)) + 1


def test_only_the_last_entries_are_kept(recorded):
    recorded(max_entries=7)
    tensors = [_kib(count) for count in range(1, 21)]
    trace = _trace()
    assert len(trace) == 7 and trace[-1]["action"] == "snapshot"
    assert [entry["size"] for entry in trace[:-1] if entry["action"] == "alloc"] == [
        count << 10 for count in range(21 - sum(entry["action"] == "alloc" for entry in trace), 21)
    ]
    memory._record_memory_history(max_entries=3)  # without clearing: the newest stay
    assert [entry["action"] for entry in memory._snapshot()["device_traces"][0]] == ["alloc", "snapshot", "snapshot"]
    memory._record_memory_history(max_entries=5)
    tensors.append(_kib(1))
    assert _actions(_trace()) == ["alloc", "snapshot", "snapshot", "alloc", "snapshot"]
    memory._record_memory_history(max_entries=0)
    assert _trace() == []
    times = [entry["time_us"] for entry in trace]
    assert times == sorted(times)


def test_what_is_recorded_can_be_chosen(recorded):
    recorded("state")
    kept = _kib(64)
    assert _trace() == []
    assert any(line.filename.endswith(HERE) for line in torch.spyre.memory_by_line(at_peak=False).lines)
    recorded("all", context="alloc")
    del kept
    kept = _kib(64)
    assert [bool(entry["frames"]) for entry in _trace() if entry["action"] != "snapshot"] == [False, False, True]
    recorded("all", context=None)
    del kept
    kept = _kib(64)
    assert not any(entry["frames"] for entry in _trace())
    recorded("all", context="state", skip_actions=["free_requested", "free_completed", "snapshot"])
    del kept
    kept = _kib(64)
    assert _actions(_trace()) == ["alloc"] and _trace()[0]["frames"] == []
    assert any(frame["filename"].endswith(HERE) for frame in _frames_of_blocks())
    recorded("all", stacks="all")
    del kept
    _kib(64)
    alloc = next(entry for entry in _trace() if entry["action"] == "alloc")
    names = [frame["name"] for frame in alloc["frames"]]
    assert any("Allocator::allocate" in name for name in names) and "test_what_is_recorded_can_be_chosen" in names


def _frames_of_blocks():
    return [
        frame for segment in torch.spyre.memory_snapshot() for block in segment["blocks"] for frame in block["frames"]
    ]


def test_frees_after_the_recording_leave_nothing_behind(recorded):
    recorded()
    kept, gone = _kib(64), _kib(64)
    memory._record_memory_history(None)
    assert _trace() == []
    del gone
    again = _kib(64)  # where the first one lay
    with pytest.raises(InvalidArgument, match="_record_memory_history"):
        torch.spyre.memory_by_line()
    here = inspect.currentframe().f_code.co_name
    names = [frame["name"] for frame in _frames_of_blocks()]
    assert names.count(here) == 1  # kept is known still, as torch.cuda does it
    memory._record_memory_history()
    del kept, again
    assert _actions(_trace()) == ["free_requested", "free_completed", "free_requested", "free_completed", "snapshot"]
    for _ in states_before(memory._snapshot()):
        pass


def test_a_block_that_another_stream_uses_is_awaited(recorded):
    recorded()
    side = torch.spyre.Stream()
    x = _kib(2048).fill_(1.0)
    torch.spyre.synchronize()
    with torch.spyre.stream(side):
        for _ in range(200):
            y = x + 1
    x.record_stream(side)
    address = x.data_ptr()
    del x
    before = _actions(entry for entry in _trace() if entry.get("addr") == address)
    torch.spyre.synchronize()
    after = _actions(entry for entry in _trace() if entry.get("addr") == address)
    assert before in (["alloc", "free_requested"], ["alloc", "free_requested", "free_completed"])
    assert after == ["alloc", "free_requested", "free_completed"]
    streams = {entry["stream"] for entry in _trace() if entry["action"] == "alloc"}
    assert streams == {0, side.stream_id}
    del y


def test_two_threads_are_told_apart(recorded):
    recorded()
    errors = []

    def first():
        return [_kib(1) for _ in range(200)]

    def second():
        return [_kib(2) for _ in range(200)]

    def work(function):
        try:
            for _ in range(5):
                function()
                memory._snapshot()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(function,)) for function in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    counts = {}
    for entry in _trace():
        if entry["action"] != "alloc":
            continue
        name = next(f["name"] for f in entry["frames"] if f["name"] in ("first", "second"))
        counts[name, entry["size"]] = counts.get((name, entry["size"]), 0) + 1
    assert counts == {("first", 1 << 10): 1000, ("second", 2 << 10): 1000}
    for _ in states_before(memory._snapshot()):
        pass


def test_backward_passes_are_recorded(recorded):
    weight = torch.randn(64, 64).half().to("spyre").requires_grad_()
    x = torch.randn(8, 64).half().to("spyre")
    (x @ weight).sum().backward()
    weight.grad = None
    recorded()
    (x @ weight).sum().backward()
    allocs = [entry for entry in _trace() if entry["action"] == "alloc"]
    assert any(entry["size"] == 64 * 64 * 2 for entry in allocs)
    assert any(frame["name"] == "backward" for entry in allocs for frame in entry["frames"])


def test_out_of_memory_is_recorded_and_says_what_to_do(recorded):
    with pytest.raises(torch.OutOfMemoryError, match=r"call torch.spyre.memory._record_memory_history\(\) first"):
        torch.empty(200 << 30, dtype=torch.int8, device="spyre")
    recorded()
    with pytest.raises(torch.OutOfMemoryError, match=r"_dump_snapshot\(\"memory.pickle\"\)"):
        torch.empty(200 << 30, dtype=torch.int8, device="spyre")
    snapshot = memory._snapshot()
    oom = next(entry for entry in _trace(snapshot) if entry["action"] == "oom")
    free, total = torch.spyre.mem_get_info()
    assert oom["size"] == 200 << 30 and 0 < oom["device_free"] <= total and abs(oom["device_free"] - free) < 1 << 20
    assert oom["frames"] and "addr" not in oom
    assert "raise OutOfMemoryError # 200.0GiB requested" in _memory_viz.trace(snapshot)


OBSERVER = """
import os, torch
told = []
def observe(device, requested, allocated, free):
    told.append((device, requested, allocated))
    torch.spyre.memory._dump_snapshot("oom.pickle")
torch.spyre.memory._record_memory_history()
torch.spyre.memory._attach_out_of_memory_observer(observe)
x = torch.empty(1024, 512, dtype=torch.float16, device="spyre")
try:
    torch.empty(200 << 30, dtype=torch.int8, device="spyre")
except torch.OutOfMemoryError:
    assert told == [(0, 200 << 30, 1 << 20)] and os.path.getsize("oom.pickle") > 100
    print("told")
def fails(*_):
    raise KeyError("of the observer")
torch.spyre.memory._attach_out_of_memory_observer(fails)
try:
    torch.empty(200 << 30, dtype=torch.int8, device="spyre")
except KeyError as error:
    print("raised", error)
"""


def _run(program, tmp_path, **environment):
    command = [sys.executable, "-W", "ignore", "-c", program]
    options = {"capture_output": True, "text": True, "timeout": 300, "cwd": tmp_path}
    run = subprocess.run(command, env={**os.environ, **environment}, **options)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def test_an_observer_is_called_before_the_error(tmp_path):
    assert _run(OBSERVER, tmp_path) == "told\nraised 'of the observer'\n"


TWO_CARDS = """
import torch
m = torch.spyre.memory
m._record_memory_history()
a = torch.empty(1024, 512, dtype=torch.float16, device="spyre:1")
s = m._snapshot()
print([[e["action"] for e in t] for t in s["device_traces"]], [g["device"] for g in s["segments"]])
b = torch.empty(512, 512, dtype=torch.float16, device="spyre:0")
s = m._snapshot()
print([[e["size"] for e in t if e["action"] == "alloc"] for t in s["device_traces"]], [g["device"] for g in s["segments"]])
print([torch.spyre.memory_by_line(i).bytes for i in (0, 1)], torch.spyre.memory_by_line("spyre:1").lines[0].bytes)
"""


def test_cards_are_told_apart_and_none_is_started(tmp_path):
    first, second, third = _run(TWO_CARDS, tmp_path, OPENSPYRE_CARDS="2").splitlines()
    assert first == "[[], ['segment_map', 'alloc', 'snapshot']] [1]"
    assert second == f"[[{512 << 10}], [{1 << 20}]] [0, 1]"
    assert third == f"[{512 << 10}, {1 << 20}] {1 << 20}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's, of forks with threads
def test_a_forked_child_is_refused_and_the_parent_goes_on(recorded):
    recorded()
    kept = _kib(64)
    child = os.fork()
    if child == 0:
        told = 1
        try:
            memory._snapshot()
        except BadFork:
            try:
                memory._record_memory_history()
            except BadFork:
                del kept  # frees nothing, and waits for nobody
                told = 0
        finally:
            os._exit(told)
    assert os.waitpid(child, 0)[1] == 0
    assert _actions(_trace()) == ["alloc", "snapshot"]


ENDING = """
import torch
torch.spyre.memory._record_memory_history(stacks="all")
x = torch.randn(8, 70).to("spyre").requires_grad_()
keep = torch.relu(x @ x.t()).sum()
keep.backward()
class Late:
    def __del__(self):
        del self.tensor
late = Late()
late.tensor = x + 1
"""


def test_a_process_that_records_ends_quietly(tmp_path):
    assert _run(ENDING, tmp_path) == ""


def test_a_full_disk_leaves_no_half_file(recorded, tmp_path):
    recorded()
    tensors = [_kib(1) for _ in range(500)]
    file = tmp_path / "memory.pickle"
    file.write_bytes(b"what was there before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(
            OSError, match="cannot write the memory snapshot: File too large; nothing is left of it"
        ) as raised:
            memory._dump_snapshot(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.filename == str(file) and raised.value.errno
    assert [entry.name for entry in tmp_path.iterdir()] == [
        "memory.pickle"
    ] and file.read_bytes() == b"what was there before"
    with pytest.raises(OSError, match="No space left on device"):
        memory._dump_snapshot("/dev/full")
    assert not Path("/dev/full").is_file()
    with pytest.raises(OSError, match="cannot write the memory snapshot: No such file or directory"):
        memory._dump_snapshot(tmp_path / "nowhere" / "memory.pickle")
    del tensors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"enabled": "some"}, "enabled is 'some', accepted is None, 'state', 'all'"),
        ({"context": "free"}, "context is 'free'"),
        ({"stacks": "cpp"}, "stacks is 'cpp', accepted is 'python', 'all'"),
        ({"max_entries": -1}, "max_entries is -1"),
        ({"max_entries": 2.5}, "max_entries is 2.5"),
        ({"skip_actions": ["frees"]}, "an entry of skip_actions is 'frees'"),
    ],
)
def test_options_that_do_not_exist(options, words):
    with pytest.raises(InvalidArgument, match=words):
        memory._record_memory_history(**options)
    assert not _torch.memory_recorded()
