import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from openspyre.spec.environment import Settings, switch_of
from openspyre.tools import doctor, host
from openspyre.tools.command import main


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["doctor", "--help"]):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 0
        assert "example: openspyre doctor --json" in capsys.readouterr().out


def test_the_switch_table_lists_every_variable_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switches", "--markdown"]) == 0
    header, rule, *rows = capsys.readouterr().out.splitlines()
    assert header.count("|") == rule.count("|") == 5
    assert all(row.count("|") == 5 for row in rows)
    variables = [row.split("`")[1] for row in rows]
    assert variables == [switch_of(field).variable for field in fields(Settings)]
    assert main(["switches"]) == 0
    text = capsys.readouterr().out
    assert "SENCORES (default 32)\n    cores that work is planned for; accepts a whole number from 1 to 32\n" in text
    assert "/" not in text.split("OPENSPYRE_CACHE_DIR")[1].splitlines()[0]


@pytest.mark.parametrize("arguments", [[], ["operate"], ["doctor", "--loud"]])
def test_a_command_line_that_makes_no_sense_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2


def test_a_healthy_machine_gets_a_clean_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problems"] == []
    assert report["self_test"]["passed"] is True
    assert report["software"]["python"].startswith("3.")
    assert report["cards"]["count"] == len(report["cards"]["physical_indices"]) >= 1
    assert report["cards"]["threads"] >= 1
    by_variable = {row["variable"]: row for row in report["switches"]}
    assert by_variable["SENCORES"]["value"] == 32
    assert "DTLOG_LEVEL" not in by_variable


def test_the_text_report_names_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for expected in ("software", "host", "cards", "limits", "switches", "self test", "no problems found"):
        assert f"\n{expected}" in "\n" + text
    assert "2 MiB" in text


def run_doctor(*arguments: str, **environ: str) -> tuple[int, str]:
    run = subprocess.run(
        [sys.executable, "-m", "openspyre.tools.command", "doctor", *arguments],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path)} | environ,
        check=False,
    )
    assert run.stderr == ""
    return run.returncode, run.stdout


def test_a_nonsense_switch_is_a_problem_and_not_a_crash() -> None:
    code, text = run_doctor(OPENSPYRE_CARDS="many")
    assert code == 1
    assert "OPENSPYRE_CARDS='many' is not valid" in text


def test_switches_of_the_environment_are_in_force_and_marked() -> None:
    code, text = run_doctor("--json", OPENSPYRE_CARDS="3", SPYRE_DEVICES="2,1", OPENSPYRE_CARD_MEMORY_GIB="1")
    report = json.loads(text)
    assert code == 0
    assert report["cards"]["count"] == 2
    assert report["cards"]["physical_indices"] == [2, 1]
    assert report["cards"]["memory_bytes_each"] == 1 << 30
    assert {r["variable"] for r in report["switches"] if r["source"] == "environment"} == {
        "OPENSPYRE_CARDS",
        "SPYRE_DEVICES",
        "OPENSPYRE_CARD_MEMORY_GIB",
    }


@pytest.mark.parametrize(
    "arguments", ["switches", "doctor", "doctor --json", "ops", "opt --list", "--help", "run --help"]
)
def test_a_reader_may_leave_early(arguments: str) -> None:
    """The pipe's reader is gone before the command writes: it ends quietly, as other commands do."""
    reading, writing = os.pipe()
    os.close(reading)
    call = [sys.executable, "-m", "openspyre.tools.command", *arguments.split()]
    done = subprocess.run(call, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode in ((0, 141) if "--help" in arguments else (141,))  # argparse minds no pipe of its own


def test_the_span_in_force_is_the_one_shown() -> None:
    _, text = run_doctor("--json", OPENSPYRE_CORE_SPAN_MIB="7")
    assert json.loads(text)["limits"]["span_bytes_per_core_and_tensor"] == (7 << 20) - 4096


def test_a_machine_without_cards_is_no_problem() -> None:
    code, text = run_doctor("--json", OPENSPYRE_CARDS="0")
    assert code == 0
    assert json.loads(text)["cards"]["count"] == 0


def test_a_failed_self_test_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_self_test", lambda: {"passed": False})
    assert any("differs from what was written" in problem for problem in doctor.examine()["problems"])


def test_torch_is_reported_without_being_imported() -> None:
    program = (
        "import sys; from openspyre.tools.command import main; main(['doctor']); assert 'torch' not in sys.modules"
    )
    environ = {"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True, capture_output=True)


def test_a_machine_without_cpuinfo_still_has_a_processor() -> None:
    facts = host.processor(Path("/nowhere/cpuinfo"))
    assert facts["simd"] == []
    assert facts["model"]
