"""The benchmark harness: its statistics on a clock that tells what we say, and the promises of its registry."""

import json
import subprocess
import sys
import timeit
from pathlib import Path

import pytest
import torch

from bench import host, report
from bench.__main__ import main
from bench.registry import Case, case, cases
from bench.scan import __main__ as scan
from bench.scan.calls import NOT_SCANNED, Call, calls
from bench.scan.measure import measure
from bench.timing import Effort, Measurement, Pair, compare, repeats_for, summarize

EFFORT = Effort(least_rounds=5, most_rounds=5, seconds=0.0, processes=1, sample_seconds=1e-9, warmup_rounds=0)


class Clock:
    """A timer that only moves when a work says how long it took."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def takes(self, *durations):
        """A work that takes the given times, one after the other, and the last one from then on."""
        left = list(durations)

        def work():
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return work


def test_a_work_twice_as_slow_has_ratio_two():
    clock = Clock()
    found = compare(Pair(clock.takes(2.0), clock.takes(1.0)), EFFORT, timer=clock)
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)
    assert (found.ours_seconds, found.baseline_seconds, found.rounds) == (2.0, 1.0, 5)


def test_the_number_is_the_median_of_ratios_not_the_ratio_of_medians():
    clock = Clock()
    # The first time of each work goes into finding how often it is repeated.
    ours, baseline = clock.takes(9, 1, 2, 6, 8, 9), clock.takes(9, 1, 1, 2, 4, 1)
    found = compare(Pair(ours, baseline), EFFORT, timer=clock)
    assert found.value == 2.0  # of 1, 2, 3, 2, 9
    assert found.ours_seconds / found.baseline_seconds == 6.0


def test_one_disturbed_round_does_not_move_the_number():
    clock = Clock()
    found = compare(Pair(clock.takes(3, 3, 3, 3000, 3, 3), clock.takes(2)), EFFORT, timer=clock)
    assert found.value == found.best == 1.5


def test_the_two_works_take_turns_in_going_first():
    clock, order = Clock(), []

    def work(name):
        def run():
            order.append(name)
            clock.now += 1.0

        return run

    compare(Pair(work("ours"), work("baseline")), EFFORT, timer=clock)
    rounds = list(zip(order[2::2], order[3::2], strict=True))
    assert rounds == [("ours", "baseline"), ("baseline", "ours")] * 2 + [("ours", "baseline")]


def test_rounds_go_on_until_the_time_is_spent_or_there_are_enough():
    clock = Clock()
    pair = Pair(clock.takes(1.0), clock.takes(1.0))
    timed = Effort(least_rounds=2, most_rounds=100, seconds=20.0, processes=1, warmup_rounds=0)
    assert compare(pair, timed, timer=clock).rounds == 10
    bounded = Effort(least_rounds=2, most_rounds=4, seconds=20.0, processes=1, warmup_rounds=0)
    assert compare(pair, bounded, timer=clock).rounds == 4


def test_a_short_work_is_repeated_until_it_fills_a_sample():
    clock = Clock()
    assert repeats_for(timeit.Timer(clock.takes(0.25), timer=clock), sample_seconds=1.0) == 4


def test_statements_see_their_own_names():
    seen = []
    names, baseline_names = {"note": lambda: seen.append("ours")}, {"note": lambda: seen.append("baseline")}
    compare(Pair("note()", "note()", names, baseline_names), EFFORT)
    assert set(seen) == {"ours", "baseline"}


def test_quartiles_stand_beside_the_median():
    assert summarize([4.0, 1.0, 2.0, 3.0, 5.0]) == Measurement(value=3.0, low=2.0, high=4.0, rounds=5)
    assert summarize([7.0]) == Measurement(7.0, 7.0, 7.0, 1)


@pytest.mark.parametrize(
    ("value", "verdict"), [(0.9, "goal"), (1.0, "goal"), (1.2, "pass"), (1.5, "pass"), (1.6, "short")]
)
def test_a_verdict_compares_with_what_was_asked_and_the_goal(value, verdict):
    row = Case("a", 1.5, 1.0, "x", "memcpy", ("one",), lambda effort: Measurement(value, value, value, 1))
    assert row.verdict(value) == verdict


def test_every_case_has_a_number_it_is_held_to():
    found = cases()
    assert len(found) > 50
    for row in found:
        assert row.asked >= 0, row.name
        assert row.goal is None or row.goal <= row.asked, f"{row.name}: the goal lies beyond what is asked"
        assert row.baseline, row.name
        assert set(row.threads) <= {"one", "all"}, row.name
        assert row.threads, row.name


def test_cases_are_chosen_by_regular_expression():
    assert {row.name.split(",")[0] for row in cases("^copy (in|out), fp32")} == {"copy in", "copy out"}


def test_two_cases_cannot_share_a_name():
    with pytest.raises(ValueError, match="two cases are called"):
        case(cases()[0].name, asked=1.0, baseline="CPU")(lambda effort: None)


def test_the_baseline_is_held_to_avx2_unless_native_is_chosen(monkeypatch):
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx512")
    comparable = host.measuring_environment("one", "avx2")
    assert comparable["ATEN_CPU_CAPABILITY"] == "avx2"
    assert comparable["OPENSPYRE_THREADS"] == comparable["OMP_NUM_THREADS"] == "1"
    assert "ATEN_CPU_CAPABILITY" not in host.measuring_environment("all", "native")


def test_the_list_names_each_case_and_what_is_asked(capsys):
    assert main(["--list", "--only", "fp32"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == len(cases("fp32"))
    assert all("at most 2.5 x memcpy" in line for line in listed)


def test_a_case_that_fails_is_told_and_the_others_go_on():
    row = {"name": "a", "asked": 1.5, "goal": None, "unit": "x", "threads": 1, "verdict": "error", "problem": "boom"}
    assert report.line(row, 4).endswith("ERROR  boom")
    assert report.summary([row]) == "1 numbers: 1 could not be measured"


def test_a_quick_run_writes_table_and_json(tmp_path):
    path = tmp_path / "run.json"
    command = [sys.executable, "-m", "bench", "--quick", "--only", r"^x\.view", "--json", str(path)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1]).stdout
    assert "x.view(2048, 64)" in told
    run = json.loads(path.read_text())
    assert run["baseline_isa"] == "avx2"
    assert run["host"]["torch_cpu_capability"] in ("AVX2", "DEFAULT", "NO AVX")
    (row,) = run["rows"]
    assert row["value"] > 0
    assert row["threads"] == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, while Inductor loads
def test_every_operator_that_is_served_is_scanned_or_says_why_not():
    from torch_spyre import operator_places

    ours = ("csrc/torch/operators/eager.cpp", "torch_spyre/ops/composed.py")
    kernels = [place for place in operator_places.places() if place.file in ours and place.what.startswith("eager: ")]
    served = {place.name.partition(".")[0].rstrip("_") for place in kernels}
    scanned = {call.operator.rstrip("_") for call in calls()}
    assert len(served) > 200
    assert served - scanned == set(NOT_SCANNED)


def test_the_scan_tells_what_torch_does_not_take():
    refused = measure(Call("neg", "-x"), torch.bool)
    assert refused.ratio is None and "bool" in refused.skipped
    found = measure(Call("neg", "-x"), torch.float16)
    assert found.ratio > 0 and found.over_float32 > 0 and not found.fallback and not found.skipped


def test_the_scan_prints_the_slowest_first_and_counts_them():
    lines = [
        {"name": name, "dtype": "bool", "ratio": ratio, "ours_seconds": 1e-3, "baseline_seconds": 1e-3}
        | {"over_float32": None, "fallback": False}
        for name, ratio in (("quick", 0.5), ("slow", 7.0), ("bad", 2.5), ("none", None))
    ]
    first, second, count = scan.summary(lines, worst=2).splitlines()
    assert "slow" in first and "bad" in second
    assert count.startswith("3 numbers, 2 above 2x; 1 left out")
