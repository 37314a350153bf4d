"""torch.profiler on the stock wheel: every launch and copy, linked to its operator, with the steps inside and a real card's times."""

import inspect
import itertools
import json
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections import defaultdict

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

import torch_spyre

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and the profiler warn of their own deprecations


def of(trace, *categories, pid=None):
    found = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in categories]
    return found if pid is None else [e for e in found if e["pid"] == pid]


def test_every_launch_and_copy_is_there_and_linked_to_its_operator(traced, block):
    model, compiled, x = block

    def work():
        with torch.no_grad():
            compiled(x.to("spyre")).cpu()
            model(x.to("spyre")).cpu()

    _, trace = traced(work)
    kernels, copies = of(trace, "kernel"), of(trace, "gpu_memcpy")
    assert len([kernel for kernel in kernels if kernel["args"]["steps"] > 3]) == 1
    assert len(kernels) == 1 + 4  # linear, norm, gelu, linear
    assert sorted(copy["name"] for copy in copies) == ["Memcpy (DtoH)"] * 2 + ["Memcpy (HtoD)"] * 2
    operators = {e["args"]["External id"] for e in of(trace, "cpu_op")}
    for event in kernels + copies:
        assert event["args"]["External id"] in operators
        calls = [
            e for e in of(trace, "privateuse1_runtime") if e["args"]["correlation"] == event["args"]["correlation"]
        ]
        assert len(calls) == 1
        assert calls[0]["ts"] <= event["ts"] + event["dur"]
    assert all(copy["args"]["bytes"] == 64 * 256 * 2 for copy in copies)


def test_arrows_lead_from_the_call_to_the_card(traced, block):
    _, compiled, x = block
    _, trace = traced(lambda: compiled(x.to("spyre")).cpu())
    starts = {e["id"] for e in trace["traceEvents"] if e.get("ph") == "s" and e["cat"] == "ac2g"}
    ends = {e["id"] for e in trace["traceEvents"] if e.get("ph") == "f" and e["cat"] == "ac2g"}
    assert starts == ends == {e["args"]["correlation"] for e in of(trace, "kernel", "gpu_memcpy")}


def test_steps_lie_within_their_launch_and_add_up_to_it(traced):
    """Large enough that a step takes longer than reading a clock."""
    x = torch.randn(512, 1024).half().to("spyre")
    function = torch.compile(lambda x: torch.softmax(x @ x.t(), -1) @ x + 1)
    function(x)
    _, trace = traced(lambda: [function(x) for _ in range(3)])
    launches = of(trace, "kernel")
    assert len(launches) == 3
    steps = [e for e in of(trace, "gpu_user_annotation", pid=0) if "step" in e["args"]]
    for launch in launches:
        own = [s for s in steps if s["args"]["correlation"] == launch["args"]["correlation"]]
        assert len(own) == launch["args"]["steps"]
        assert [s["args"]["step"] for s in own] == list(range(len(own)))
        assert all(launch["ts"] <= s["ts"] and s["ts"] + s["dur"] <= launch["ts"] + launch["dur"] + 1 for s in own)
        assert sum(s["dur"] for s in own) == pytest.approx(launch["dur"], rel=0.05)
        assert {s["args"]["External id"] for s in own} == {launch["args"]["External id"]}


def test_steps_of_tiny_launches_add_up_to_them_too(traced, block):
    """The first step begins with its launch, and each other one where the one before it ended."""
    model, compiled, x = block
    tiny = torch.ones(8).half().to("spyre")

    def work():
        for _ in range(5):
            tiny.add_(1).relu().fill_(2)
            compiled(x[:1].to("spyre"))
        model(x.to("spyre")).sum().backward()

    work()
    _, trace = traced(work)
    spans = defaultdict(list)
    for step in of(trace, "gpu_user_annotation", pid=0):
        if "step" in step["args"]:
            start = round(step["ts"] * 1000)
            spans[step["args"]["correlation"]].append((start, start + round(step["dur"] * 1000)))
    launches = of(trace, "kernel", "gpu_memset")
    assert len(launches) > 20 and min(launch["dur"] for launch in launches) < 5
    for launch in launches:
        own, start = sorted(spans[launch["args"]["correlation"]]), round(launch["ts"] * 1000)
        assert own[0][0] == start and own[-1][1] == start + round(launch["dur"] * 1000)
        assert all(before[1] == after[0] for before, after in itertools.pairwise(own))


def test_a_step_tells_what_it_does_and_where_it_comes_from(traced, block):
    _, compiled, x = block
    _, trace = traced(lambda: compiled(x.to("spyre")))
    steps = [e["args"] | {"name": e["name"]} for e in of(trace, "gpu_user_annotation", pid=0) if "step" in e["args"]]
    product = next(s for s in steps if s["name"].startswith("batchmatmul"))
    assert product["macs"] == 64 * 256 * 512
    assert "mb64" in product["shape"]
    assert "in256" in product["shape"]
    assert product["cores"] == 32
    assert product["bytes read"] >= (64 * 256 + 256 * 512) * 2
    assert product["predicted us"] > 0
    assert all("conftest.py:" in s["source"] for s in steps)
    ops = " ".join(s["sdsc"] for s in steps).split()
    assert [int(op.split("_")[0]) for op in sorted(ops, key=lambda op: int(op.split("_")[0]))] == list(range(len(ops)))


def test_the_lane_of_a_real_card_is_what_the_clock_says(traced, block):
    _, compiled, x = block
    on_card = x.to("spyre")
    with torch.spyre.predicted_time() as predicted:
        compiled(on_card)
    _, trace = traced(lambda: compiled(on_card))
    (launch,) = of(trace, "kernel")
    lane = list(of(trace, "gpu_user_annotation", pid=64))
    kernels = [e for e in lane if e["tid"] == 0]
    assert sum(e["args"]["predicted us"] for e in kernels) == pytest.approx(predicted.launches[0].time_us, rel=1e-3)
    assert launch["args"]["predicted us"] == pytest.approx(predicted.launches[0].time_us, rel=1e-3)
    rows = {e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "thread_name" and e["pid"] == 64}
    assert {"kernels", "memory", "fixed"} <= rows
    ordered = sorted(kernels, key=lambda e: e["ts"])
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.005 for a, b in itertools.pairwise(ordered))
    counters = [e for e in trace["traceEvents"] if e.get("ph") == "C"]
    assert counters
    assert all(0 <= e["args"]["PT %"] <= 100 and 1 <= e["args"]["cores"] <= 32 for e in counters)


def test_events_of_a_row_nest(traced, block):
    """Viewers drop what overlaps otherwise. In whole nanoseconds: the file has three digits behind microseconds."""
    model, compiled, x = block

    def work():
        for _ in range(2):
            with record_function("a range"):
                compiled(x.to("spyre")).cpu()
            model(x.to("spyre"))

    _, trace = traced(work)
    rows = defaultdict(list)
    for event in of(trace, "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"):
        start = round(event["ts"] * 1000)
        rows[event["pid"], event["tid"]].append((start, -round(event["dur"] * 1000), event["name"]))
    assert {(0, 0), (64, 0)} <= set(rows)
    for row in rows.values():
        open_until = []
        for start, negative, name in sorted(row):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or start - negative <= open_until[-1], name
            open_until.append(start - negative)


def test_tables_are_of_one_clock(traced, block):
    """What a real card would take is in the trace, and in no table."""
    _, compiled, x = block
    found, trace = traced(lambda: compiled(x.to("spyre")))
    assert any(e["name"].endswith("(predicted)") for e in of(trace, "gpu_user_annotation"))
    assert not any(row.key.endswith("(predicted)") for row in found.key_averages())
    assert not any(event.name.endswith("(predicted)") for event in found.events())


def test_an_operators_launch_and_its_steps_have_the_line_that_called_it(traced):
    x = torch.randn(64, 64).half().to("spyre")
    x.sigmoid()
    here = inspect.currentframe().f_lineno
    _, trace = traced(lambda: x.sigmoid())
    (launch,) = of(trace, "kernel")
    steps = [e for e in of(trace, "gpu_user_annotation", pid=0) if "step" in e["args"]]
    for event in (launch, *steps):
        assert event["args"]["source"] == f"{__file__}:{here + 1}"


def test_names_with_quotes_and_backslashes_break_no_trace(traced):
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module('a"b\\c\n', torch.nn.Linear(64, 64))

        def forward(self, x):
            return self._modules['a"b\\c\n'](x)

    function = torch.compile(Odd().half().to("spyre"))
    x = torch.ones(4, 64).half().to("spyre")
    function(x)
    _, trace = traced(lambda: function(x))
    modules = {e["args"]["module"] for e in of(trace, "gpu_user_annotation", pid=0) if "step" in e["args"]}
    assert len(modules) == 1 and "a'b" in modules.pop()


def test_tables_have_the_cards_columns_and_count_nothing_twice(traced, block):
    _, compiled, x = block
    found, trace = traced(lambda: compiled(x.to("spyre")).cpu())
    table = found.key_averages().table(sort_by="self_device_time_total")
    assert "Self SPYRE" in table
    total = sum(e["dur"] for e in of(trace, "kernel", "gpu_memcpy"))
    counted = sum(
        e.self_device_time_total
        for e in found.key_averages()
        if not e.is_user_annotation and e.device_type.name != "CPU"
    )
    assert counted == pytest.approx(total, rel=0.01)
    linked = sum(e.self_device_time_total for e in found.key_averages() if e.device_type.name == "CPU")
    assert linked == pytest.approx(total, rel=0.01)


def test_ranges_of_the_user_reach_the_card(traced, block):
    model, _, x = block

    def work():
        with record_function("my range"):
            model(x.to("spyre"))

    _, trace = traced(work)
    (range_,) = [e for e in of(trace, "gpu_user_annotation", pid=0) if e["name"] == "my range"]
    kernels = of(trace, "kernel")
    assert range_["ts"] <= min(k["ts"] for k in kernels)
    assert range_["ts"] + range_["dur"] >= max(k["ts"] + k["dur"] for k in kernels) - 0.001


def test_a_range_has_the_work_of_those_inside_it(traced, block):
    model, compiled, x = block

    def work():
        with record_function("outer"):
            with record_function("first"):
                model(x.to("spyre"))
            with record_function("second"):
                compiled(x.to("spyre"))

    _, trace = traced(work)
    begin, end = {}, {}
    for range_ in of(trace, "gpu_user_annotation", pid=0):
        begin[range_["name"]], end[range_["name"]] = range_["ts"], range_["ts"] + range_["dur"]
    assert begin["outer"] <= begin["first"] < end["first"] <= begin["second"] < end["second"] <= end["outer"] + 0.001


def test_options_leave_steps_and_the_lane_out(traced, block):
    _, compiled, x = block
    before = (torch_spyre.profiler.options().steps, torch_spyre.profiler.options().predicted)
    with torch_spyre.profiler.configure(steps=False, predicted=False):
        _, trace = traced(lambda: compiled(x.to("spyre")))
    assert len(of(trace, "kernel")) == 1
    assert of(trace, "gpu_user_annotation") == []
    with torch_spyre.profiler.configure(predicted=False) as options:
        assert (options.steps, options.predicted) == (before[0], False)
        _, trace = traced(lambda: compiled(x.to("spyre")))
    assert {e["pid"] for e in of(trace, "gpu_user_annotation")} == {0}
    assert (torch_spyre.profiler.options().steps, torch_spyre.profiler.options().predicted) == before
    assert torch_spyre.profiler.is_available()


def test_a_profile_of_the_cpu_alone_has_nothing_of_the_card(traced, block):
    _, compiled, x = block
    _, trace = traced(lambda: compiled(x.to("spyre")).cpu(), activities=[ProfilerActivity.CPU])
    assert of(trace, "kernel", "gpu_memcpy", "privateuse1_runtime", "gpu_user_annotation") == []


def test_a_profile_of_the_card_alone(traced, block):
    _, compiled, x = block
    _, trace = traced(lambda: compiled(x.to("spyre")).cpu(), activities=[ProfilerActivity.PrivateUse1])
    assert len(of(trace, "kernel")) == 1
    assert len(of(trace, "gpu_memcpy")) == 2


def test_streams_are_rows(traced):
    x = torch.randn(64, 64).half().to("spyre")
    side = torch.Stream("spyre")

    def work():
        x + 1
        with side:
            x * 2
        torch.spyre.synchronize()

    _, trace = traced(work)
    assert sorted(e["tid"] for e in of(trace, "kernel")) == sorted([0, side.stream_id])
    rows = {e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "thread_name" and e["pid"] == 0}
    assert {"stream 0", f"stream {side.stream_id}"} <= rows


def test_waiting_and_compiling_are_calls(traced):
    x = torch.randn(7, 13).half().to("spyre")

    def work():
        torch.lerp(x, x, 0.375)  # of a size that nothing else has
        torch.spyre.synchronize()

    torch.spyre.synchronize()
    _, trace = traced(work)
    names = {e["name"] for e in of(trace, "privateuse1_runtime")}
    assert {"aiuCompileGraph", "aiuLaunchScheduleCompute", "aiuDeviceSynchronize"} <= names


def test_a_schedule_writes_exactly_its_active_steps(tmp_path, block):
    _, compiled, x = block
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=tensorboard_trace_handler(str(tmp_path)),
    ) as profiler:
        for _ in range(8):
            compiled(x.to("spyre"))
            torch.spyre.synchronize()
            profiler.step()
    files = sorted(tmp_path.glob("*.pt.trace.json"))
    assert len(files) == 2
    assert [len(of(json.loads(file.read_text()), "kernel")) for file in files] == [2, 2]


def test_work_of_other_threads_is_told(traced):
    x = torch.randn(64, 64).half().to("spyre")

    def work():
        thread = threading.Thread(target=lambda: x + 1)
        thread.start()
        thread.join()
        torch.spyre.synchronize()

    _, trace = traced(work)
    assert len(of(trace, "kernel")) == 1


def test_launches_that_outlive_the_profile_are_left_out_and_harm_nothing(traced):
    x = torch.randn(2048, 2048).half().to("spyre")
    before = torch.spyre.synchronize
    y = x
    try:
        torch.spyre.synchronize = lambda *_: None  # what the profiler calls at its end
        with profile(activities=[ProfilerActivity.PrivateUse1]) as found:
            for _ in range(20):
                y = y @ x
    finally:
        torch.spyre.synchronize = before
    torch.spyre.synchronize()
    kernels = [e for e in found.events() if e.device_type.name != "CPU" and not e.is_user_annotation]
    assert len(kernels) < 20


def test_a_second_profiler_takes_over_and_a_third_works_again(block):
    """torch lets the inner one end the outer one, on every device: it says so, and nothing hangs or is told twice."""
    _, compiled, x = block
    on_card = x.to("spyre")

    def launches(found):
        return [e for e in found.events() if e.device_type.name != "CPU" and e.name.startswith("spyre_kernel_v1_")]

    with profile(activities=[ProfilerActivity.PrivateUse1]) as outer:
        with profile(activities=[ProfilerActivity.PrivateUse1]) as inner:
            compiled(on_card)
        compiled(on_card)
    with profile(activities=[ProfilerActivity.PrivateUse1]) as after:
        compiled(on_card)
    assert [len(launches(found)) for found in (inner, after)] == [1, 1]
    assert len(launches(outer)) <= 1


def test_marks_on_the_stream_time_operators_without_kineto():
    x = torch.randn(1024, 1024).half().to("spyre")
    x @ x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.profiler.profile(use_device="spyre", use_kineto=False) as found:
            x @ x
            torch.spyre.synchronize()
    product = next(e for e in found.function_events if e.name == "aten::mm")
    assert product.device_time_total > 50  # microseconds


def test_the_state_of_annotations_runs():
    """It calls an observer, and a null pointer where there is none: in a process of its own."""
    code = """
        import torch
        from torch._C._profiler import ProfilerState, ProfilerConfig, _ExperimentalConfig
        config = ProfilerConfig(ProfilerState.PRIVATEUSE1, False, False, False, False, False, _ExperimentalConfig())
        torch.autograd._enable_profiler(config, {torch.profiler.ProfilerActivity.CPU})
        x = torch.ones(64).half().to("spyre") + 1
        torch.autograd._disable_profiler()
        print(x.cpu().sum().item())
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "128.0"


def test_a_forked_child_profiles_what_it_can():
    """The card is the parent's; a profile of the child's own work on the CPU goes on, and the card says why it does not."""
    x = torch.ones(64).half().to("spyre") + 1
    torch.spyre.synchronize()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as found:
                torch.ones(4) + 1
            events = len(found.events())
            try:
                _ = x + 1
            except Exception as refusal:
                said = f"{events > 0} {type(refusal).__name__}"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    told = os.read(reading, 1000).decode()
    os.close(reading)
    assert told.startswith("True"), told
