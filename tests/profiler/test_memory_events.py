"""Allocations and frees of the card in torch.profiler: events, columns and the timeline."""

import json

import pytest
import torch

SPYRE = 20  # torch's number for PrivateUse1


def _memory_events(trace, name="[memory]"):
    found = [event["args"] for event in trace["traceEvents"] if event["name"] == name]
    return [args for args in found if args["Device Type"] == SPYRE]


def test_every_allocation_and_free_is_an_event(traced):
    x = torch.randn(256, 256).half().to("spyre")
    x + 1
    torch.spyre.synchronize()
    before = torch.spyre.memory_allocated()

    def work():
        y = x + 1
        z = y + 1
        del y, z

    _, trace = traced(work, profile_memory=True)
    size = 256 * 256 * 2
    events = _memory_events(trace)
    assert [event["Bytes"] for event in events] == [size, size, -size, -size]
    assert [event["Total Allocated"] - before for event in events] == [size, 2 * size, size, 0]
    assert events[0]["Addr"] == events[2]["Addr"] and events[1]["Addr"] == events[3]["Addr"]
    assert all(event["Device Id"] == 0 and event["Total Reserved"] >= event["Total Allocated"] for event in events)


def test_operators_have_the_memory_they_took(traced):
    x = torch.randn(256, 256).half().to("spyre")
    x + 1
    found, _ = traced(lambda: [x + 1, x + 1], profile_memory=True)
    rows = {row.key: row for row in found.key_averages()}
    assert rows["aten::add"].self_device_memory_usage == 2 * 256 * 256 * 2
    table = found.key_averages().table()
    assert "Self SPYRE Mem" in table and "256.00 KB" in table


def test_nothing_is_told_where_memory_is_not_asked_for(traced):
    x = torch.randn(256, 256).half().to("spyre")
    _, trace = traced(lambda: x + 1)
    assert _memory_events(trace) == []


def test_out_of_memory_is_an_event(traced):
    def work():
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(200 << 30, dtype=torch.int8, device="spyre")

    _, trace = traced(work, profile_memory=True)
    (event,) = _memory_events(trace, "[OutOfMemory]")
    assert event["Bytes"] == 200 << 30 and event["Total Allocated"] == torch.spyre.memory_allocated()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch would have the snapshots used instead
def test_the_timeline_has_the_peak(traced, tmp_path):
    model = torch.nn.Linear(256, 256, bias=False).half().to("spyre")
    x = torch.randn(64, 256).half().to("spyre")
    model(x).sum().backward()
    model.weight.grad = None
    torch.spyre.synchronize()
    torch.spyre.reset_peak_memory_stats()
    before = torch.spyre.memory_allocated()

    def step():
        model(x).sum().backward()

    found, _ = traced(step, profile_memory=True, record_shapes=True, with_stack=True)
    file = tmp_path / "timeline.json"
    found.export_memory_timeline(str(file), device="spyre:0")
    times, sizes = json.loads(file.read_text())
    weight = 256 * 256 * 2
    totals = [sum(row) for row in sizes]
    assert len(times) == len(totals) > 6
    assert totals[-1] - totals[0] == weight  # the gradient stays
    assert max(totals) - totals[0] == torch.spyre.max_memory_allocated() - before


def test_frees_after_the_profile_are_not_told(traced):
    x = torch.randn(256, 256).half().to("spyre")
    kept = []
    _, trace = traced(lambda: kept.append(x + 1), profile_memory=True)
    kept.clear()
    _, second = traced(lambda: x + 1, profile_memory=True)
    assert [event["Bytes"] > 0 for event in _memory_events(trace)] == [True]
    assert [event["Bytes"] > 0 for event in _memory_events(second)] == [True, False]
