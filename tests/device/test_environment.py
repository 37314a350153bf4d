"""Switches, in processes of their own: card counts and their precedence, fallback mode, logs, nonsense values."""

import os
import subprocess
import sys
import tempfile

import pytest

from openspyre.spec import logs


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


COUNT = "import torch; print(torch.spyre.device_count(), torch.spyre.current_device() if torch.spyre.is_available() else None)"


@pytest.mark.parametrize(
    ("environment", "answer"),
    [
        ({}, "1 0"),
        ({"OPENSPYRE_CARDS": "4"}, "4 0"),
        ({"OPENSPYRE_CARDS": "0"}, "0 None"),
        ({"OPENSPYRE_CARDS": "4", "SPYRE_DEVICES": "3,1"}, "2 0"),
        ({"OPENSPYRE_CARDS": "4", "AIU_WORLD_SIZE": "2"}, "2 0"),
        ({"OPENSPYRE_CARDS": "2", "AIU_WORLD_SIZE": "9"}, "2 0"),
        ({"OPENSPYRE_CARDS": "3", "LOCAL_RANK": "2"}, "3 2"),
        ({"FLEX_DEVICE": "MOCK", "AIU_WORLD_SIZE": "1"}, "1 0"),
        ({"FLEX_DEVICE": "MOCK", "AIU_WORLD_SIZE": "4"}, "4 0"),
        ({"OPENSPYRE_CARDS": "2", "SPYRE_DEVICES": "1,7"}, "1 0"),
    ],
    ids=str,
)
def test_card_counts(environment, answer):
    done = run(COUNT, **environment)
    assert done.stdout.strip() == answer, done.stderr
    missing = "SPYRE_DEVICES names 7, but the machine has 2 card(s)"
    assert done.stderr.count(missing) == ("7" in environment.get("SPYRE_DEVICES", "")), done.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OPENSPYRE_CARDS", "9"),
        ("OPENSPYRE_CARDS", "two"),
        ("SPYRE_DEVICES", "0,x"),
        ("AIU_WORLD_SIZE", "0"),
        ("FLEX_DEVICE", "XF"),
        ("TORCH_SPYRE_FALLBACK", "maybe"),
        ("OPENSPYRE_THREADS", "-1"),
    ],
)
def test_nonsense_is_named_at_first_use_and_never_breaks_the_import(variable, value):
    done = run("import torch; print(torch.ones(2).sum().item()); torch.empty(1, device='spyre')", **{variable: value})
    assert done.stdout == "2.0\n" and done.returncode == 1
    assert f"EnvironmentVariableError: {variable}={value!r}" in done.stderr


def test_a_rank_without_a_card_matters_only_when_the_device_is_used():
    done = run("import torch; torch.manual_seed(3); print(1); torch.empty(1, device='spyre')", LOCAL_RANK="5")
    assert done.stdout == "1\n" and "spyre:5" in done.stderr and "LOCAL_RANK" in done.stderr


def test_two_cards_hold_separate_tensors_and_exchange_them():
    program = """
import torch
a = torch.arange(100.0).to("spyre:0"); b = a.to("spyre:1")
assert b.device.index == 1 and torch.equal(a.cpu(), b.cpu())
with torch.spyre.device(1):
    c = torch.empty(64, 64, device="spyre"); assert c.device.index == 1
assert torch.spyre.memory_allocated(1) > torch.spyre.memory_allocated(0) > 0
b.zero_(); assert a.cpu().sum().item() == 4950
torch.spyre.synchronize(); print("fine")
"""
    done = run(program, OPENSPYRE_CARDS="2", TORCH_SPYRE_FALLBACK="silent")
    assert done.stdout == "fine\n", done.stderr


def test_the_fallback_switch():
    program = "import torch; torch.ones(2).to('spyre').digamma()"
    assert "FallbackError" in run(program, TORCH_SPYRE_FALLBACK="error").stderr
    assert run(program, TORCH_SPYRE_FALLBACK="silent").stderr == ""
    assert "FallbackWarning: aten::digamma" in run(program, TORCH_SPYRE_FALLBACK="warn").stderr


def test_int64_is_warned_of_once_and_the_switch_hides_it():
    program = "import torch; [torch.tensor([1]).to('spyre') for _ in range(3)]"
    assert run(program).stderr.count("int64 lives on spyre as int32") == 1
    assert run(program, TORCH_SPYRE_DOWNCAST_WARN="0").stderr == ""


def test_torch_logs_takes_our_names():
    program = "import torch; torch.empty(1, device='spyre')"
    assert "[INFO] [spyre.device] 1 card(s)" in run(program, TORCH_LOGS="+spyre.device").stderr
    assert "[INFO] [spyre.device] 1 card(s)" in run(program, TORCH_LOGS="+dynamo,spyre:DEBUG").stderr
    assert run(program, TORCH_LOGS="-spyre").stderr == ""
    assert "[spyre.device]" in run(program, TORCH_SPYRE_DEBUG="1").stderr


def test_a_cores_span_reaches_the_planning(tmp_path):
    """A card that reaches less far gets programs that are cut so; none that were planned for another one."""
    program = """
import torch
from torch_spyre.inductor.launching import specialise
x = torch.ones(1024, 1536, dtype=torch.float16).to("spyre")
y, (top, negative) = x.mul(3), torch.compile(lambda x: ((x * 2).amax(0), -x))(x)
print(y.cpu().eq(3).all().item(), top.cpu().eq(2).all().item(), negative.cpu().eq(-1).all().item())
print(specialise.counts()["found"])
"""
    for span, found in (("256", 0), ("1", 0), ("1", 1)):
        done = run(program, SENCORES="1", OPENSPYRE_CORE_SPAN_MIB=span, OPENSPYRE_CACHE_DIR=str(tmp_path))
        assert done.stdout == f"True True True\n{found}\n", done.stderr


def test_every_name_of_the_inductor_log_shows_a_graph():
    program = "import torch; torch.compile(lambda x: x.exp() + 1)(torch.ones(3, 70).to('spyre'))"
    told, passed = "[INFO] [spyre.inductor] graph graph0", "[DEBUG] [spyre.compiler] graph0: DivideWork"
    shown = run(program, SPYRE_INDUCTOR_LOG="1").stderr
    assert told in shown and passed not in shown
    assert run(program, SPYRE_INDUCTOR_LOG="1", SPYRE_INDUCTOR_LOG_LEVEL="ERROR").stderr == ""
    with tempfile.TemporaryDirectory() as cache:  # nobody has compiled this before
        fine = {"OPENSPYRE_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": cache}
        shown = run(program, SPYRE_INDUCTOR_LOG="1", SPYRE_INDUCTOR_LOG_LEVEL="DEBUG", **fine).stderr
        assert told in shown and passed in shown
    assert told in run(program, TORCH_LOGS="torch_spyre").stderr
    assert told in run(program, TORCH_LOGS="+torch_spyre.inductor,-dynamo").stderr
    assert run(program, TORCH_LOGS="-torch_spyre").stderr == ""


def test_every_copy_between_host_and_card_is_logged():
    program = """
import torch
from openspyre.spec import logs
x = torch.ones(3, 70, dtype=torch.float16).to("spyre")
(x + x)[0, 1].item()
x[:2].to("cpu", torch.float32)
logs.set_log_level("spyre.device.copies", "INFO")
x.cpu()
logs.set_log_level("spyre.device.copies", "DEBUG")
torch.empty(5, dtype=torch.int32).copy_(torch.zeros(5, dtype=torch.int32, device="spyre"))
"""
    layout = "SpyreTensorLayout(device_size=[2, 3, 64], stride_map =[64, 70, 1], device_dtype=DataFormats.SEN169_FP16)"
    shown = run(program, TORCH_SPYRE_DEBUG="1").stderr.splitlines()
    copies = [line.removeprefix("[DEBUG] [spyre.device.copies] ") for line in shown if "copies" in line]
    assert copies[:3] == [
        f"host to spyre:0: [3, 70] torch.float16, 420 bytes, {layout}",
        f"spyre:0 to host: [] torch.float16, 2 bytes, {layout}",
        f"spyre:0 to host: [2, 70] torch.float16 as torch.float32, 280 bytes, {layout}",
    ]
    assert len(copies) == 4 and copies[3].startswith("spyre:0 to host: [5] torch.int32, 20 bytes, ")


def test_both_variables_of_the_log_are_kept(monkeypatch):
    from torch_spyre.device import registration

    monkeypatch.setenv("OPENSPYRE_LOGS", "spyre.device:DEBUG,spyre.compiler:DEBUG")
    monkeypatch.setenv("TORCH_LOGS", "+dynamo,-spyre.device")
    registration._take_our_logs()
    assert os.environ["TORCH_LOGS"] == "+dynamo"
    levels = logs.parse_entries(os.environ["OPENSPYRE_LOGS"])
    assert levels == {"spyre.compiler": logs.LEVELS["DEBUG"], "spyre.device": logs.OFF}


def test_sencores_reaches_the_planning():
    program = """
import torch
from openspyre.compiler import pipeline
plan, seen = pipeline.run, []
pipeline.run = lambda ir, machine, *rest, **options: (seen.append(machine.cores), plan(ir, machine, *rest, **options))[1]
x = torch.ones(96, 64).to("spyre")
print((x + x).sum().item(), set(seen))
"""
    assert run(program, SENCORES="3").stdout == "12288.0 {3}\n"
