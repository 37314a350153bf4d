"""Traces are written whole or not at all, and profiles end whatever happens in them."""

import errno
import gc
import gzip
import json
import os
import shutil
import tempfile

import pytest
import torch
from torch.profiler import profile, schedule, tensorboard_trace_handler

from openspyre.spec.errors import CardLost
from torch_spyre.profiler import export

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and the profiler warn of their own deprecations


def kernels(path):
    raw = path.read_bytes()
    trace = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return [e["name"] for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") == "kernel"]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_trace_that_finds_no_room_is_told_and_kept(block, tmp_path, name, monkeypatch):
    _, compiled, x = block
    with profile() as found:
        compiled(x.to("spyre"))
    copy = shutil.copyfileobj

    def full(source, target, *_):
        target.write(source.read(100))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError, match=r"the trace \(.* MiB\) cannot be written: No space left.*it is kept") as refusal:
        found.export_chrome_trace(str(tmp_path / name))
    assert refusal.value.errno == errno.ENOSPC and str(tmp_path / name) in str(refusal.value)
    assert list(tmp_path.iterdir()) == []  # no half of it
    monkeypatch.setattr(shutil, "copyfileobj", copy)
    with pytest.raises(OSError, match="No such file"):
        found.export_chrome_trace(str(tmp_path / "none" / name))
    for _ in range(2):  # as often as one likes
        found.export_chrome_trace(str(tmp_path / name))
    (tmp_path / f"link.{name}").symlink_to(tmp_path / name)
    found.export_chrome_trace(str(tmp_path / f"link.{name}"))  # what is no file of its own is not replaced by one
    assert (tmp_path / f"link.{name}").is_symlink()
    assert len(kernels(tmp_path / name)) == 1
    found.export_chrome_trace(str(tmp_path / "python.json"), use_python_export=True)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_autograds_own_profile_writes_whole_traces_too(tmp_path):
    """Kineto alone is silent where it cannot write."""
    x = torch.ones(64).half().to("spyre")
    with torch.autograd.profiler.profile(use_device="spyre", use_kineto=True) as found:
        x.relu()
    with pytest.raises(OSError, match=r"cannot be written: No such file.*it is kept"):
        found.export_chrome_trace(str(tmp_path / "none" / "trace.json"))
    read, write = os.pipe()
    found.export_chrome_trace(f"/dev/fd/{write}")  # what is no file is written to, not replaced
    os.close(write)
    with os.fdopen(read) as pipe:
        assert "aten::relu" in pipe.read()
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    assert kernels(tmp_path / "trace.json") == ["aten::relu"]


@pytest.mark.parametrize(
    "begin", [profile, lambda: torch.autograd.profiler.profile(use_device="spyre", use_kineto=True)]
)
def test_a_launch_that_failed_leaves_the_profile_whole(begin, tmp_path):
    """Its error surfaces when the profile waits for the card."""
    x, beyond = torch.ones(8, 8).half().to("spyre"), torch.tensor([99]).to("spyre")
    for _ in range(2):
        with pytest.raises(IndexError, match="99 is out of bounds"), begin() as found:
            x.relu()
            x.index_select(0, beyond)
        assert not torch.autograd._profiler_enabled()
        found.export_chrome_trace(str(tmp_path / "trace.json"))
        assert kernels(tmp_path / "trace.json") == ["aten::relu", "aten::index_select"]


@pytest.mark.parametrize("problem", [CardLost("gone"), KeyboardInterrupt()])
def test_a_wait_that_never_succeeds_ends_a_profile_too(problem, monkeypatch, tmp_path):
    def fail():
        raise problem

    with pytest.raises(type(problem)), profile() as found:
        torch.ones(8).half().to("spyre").relu().cpu()
        monkeypatch.setattr(torch.spyre, "synchronize", fail)
    assert not torch.autograd._profiler_enabled()
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    assert kernels(tmp_path / "trace.json") == ["aten::relu"]


def test_a_profile_without_a_trace_says_why(tmp_path):
    """torch crashes there."""
    path = str(tmp_path / "trace.json")
    with profile() as outer:
        with pytest.raises(ValueError, match=r"has not ended.*on_trace_ready"):
            outer.export_chrome_trace(path)
        with profile():
            pass
    with pytest.raises(ValueError, match="another one was begun within it and took over"):
        outer.export_chrome_trace(path)
    with torch.autograd.profiler.profile(use_device="spyre", use_kineto=True) as outer, profile():
        pass
    with pytest.raises(ValueError, match="another one was begun within it"):
        outer.export_chrome_trace(path)
    assert list(tmp_path.iterdir()) == []


def test_a_schedule_keeps_the_trace_of_its_last_cycle_alone(tmp_path, monkeypatch):
    """Each cycle's is a file of its own, beside the one that was asked for."""
    kept, asked = tmp_path / "kept", tmp_path / "asked"
    kept.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(kept))
    monkeypatch.setattr(export, "_IN_MEMORY", kept)
    x = torch.ones(8).half().to("spyre")
    cycles = schedule(wait=0, warmup=1, active=1, repeat=3)
    with profile(schedule=cycles, on_trace_ready=tensorboard_trace_handler(str(asked))) as found:
        for _ in range(6):
            x.relu()
            found.step()
    assert len(list(asked.iterdir())) == 3
    assert len(list(kept.iterdir())) == 1
    del found
    gc.collect()
    assert list(kept.iterdir()) == []
