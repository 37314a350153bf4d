"""`openspyre explain` on a softmax over 8 rows of 128 on four cores: what it counts is what one counts by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Execute, Function, Loop, Node
from openspyre.artifact.superdsc import Axis, Component, Stick, SuperDsc, Tensor
from openspyre.clock import time_directory
from openspyre.spec.formats import DataFormats
from openspyre.tools.command import main
from openspyre.tools.explaining.counting import LaunchedBundle, explain_bundles

SOFTMAX = Path(__file__).parents[2] / "examples" / "kernel_directory"
FP16 = DataFormats.SEN169_FP16
ROWS = 8 * 128 * 2  # bytes of the whole tensor
ONE_A_ROW = 8 * 128  # a stick for each row


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["explain", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_bytes_and_work_are_those_of_hand_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    (launch,) = explained(capsys, str(SOFTMAX))["launches"]
    near = {
        "identity": ROWS,
        "max": ROWS + ONE_A_ROW,
        "sub": ROWS + ONE_A_ROW + ROWS,
        "exp": 2 * ROWS,
        "sum": ROWS + ONE_A_ROW,
        "realdiv": ROWS + ONE_A_ROW,
    }
    assert {e["op"]: e["scratchpad_bytes"] for e in launch["executions"]} == near
    assert [e["memory_read_bytes"] for e in launch["executions"]] == [ROWS, 0, 0, 0, 0, 0]
    assert [e["memory_written_bytes"] for e in launch["executions"]] == [0, 0, 0, 0, 0, ROWS]
    assert all(e["vector_elements"] == 8 * 128 and e["macs"] == e["ring_bytes"] == 0 for e in launch["executions"])
    assert all(
        e["cores"] == 4 and e["dims"][0] == {"label": "mb", "size": 8, "slices": 4} for e in launch["executions"]
    )


def test_times_are_the_clocks_and_shares_make_one(capsys: pytest.CaptureFixture[str]) -> None:
    told, timing = explained(capsys, str(SOFTMAX)), time_directory(SOFTMAX)
    executions = told["launches"][0]["executions"]
    assert [e["time_us"] for e in executions] == [step.time_us for step in timing.steps]
    assert sum(e["share"] for e in executions) == pytest.approx(1)
    assert executions[5]["start_us"] == pytest.approx(timing.card_us - executions[5]["time_us"])
    assert told["totals"]["card_us"] == timing.card_us and told["totals"]["launches_us"] == timing.launch.time_us
    assert all(e["low_us"] < e["time_us"] < e["high_us"] for e in executions)


def test_all_data_once_is_the_input_and_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    totals = explained(capsys, str(SOFTMAX))["totals"]
    assert totals["data_bytes"] == totals["memory_bytes"] == 2 * ROWS
    assert totals["data_once_us"] == pytest.approx(2 * ROWS / 204.8e9 * 1e6)
    assert totals["peak_macs_us"] == 0


def test_several_directories_are_launches_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = explained(capsys, str(SOFTMAX)), explained(capsys, str(SOFTMAX), str(SOFTMAX))
    assert two["totals"]["card_us"] == pytest.approx(2 * one["totals"]["card_us"])
    assert two["launches"][1]["executions"][0]["share"] == pytest.approx(
        one["launches"][0]["executions"][0]["share"] / 2
    )


def test_scratchpads_are_held_from_the_writer_to_the_last_reader(capsys: pytest.CaptureFixture[str]) -> None:
    (launch,) = explained(capsys, str(SOFTMAX))["launches"]
    lives = [(r["name"], r["end"] - r["first"], r["written_by"], r["last_read_by"]) for r in launch["residents"]]
    # Two rows a core: two sticks each for the tensor, one for a value of each row.
    assert lives == [("0_identity", 512, 0, 2), ("1_max", 256, 1, 2), ("2_sub", 512, 2, 3), ("3_exp", 512, 3, 5), ("4_sum", 256, 4, 5)]  # fmt: skip


def test_the_table_names_what_the_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(SOFTMAX)]) == 0
    text = capsys.readouterr().out
    assert "5 realdiv" in text and "mb 4" in text and "the card takes" in text
    assert "4.1 kB of data once through memory" in text


def test_what_is_no_bundle_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(tmp_path)]) == 1
    assert "bundle.mlir" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_a_line_and_no_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["explain", str(SOFTMAX), "--html", str(tmp_path / "no" / "page.html")]) == 1
    assert "page.html: No such file or directory" in capsys.readouterr().err
    assert main(["explain", str(SOFTMAX), "--machine", "cores=16", "--against", str(SOFTMAX)]) == 1
    assert "give one of them" in capsys.readouterr().err


def tensor(order: str, stick: str, segment: int) -> Tensor:
    labels = tuple(order.split())
    return Tensor("t", "OUTPUT", FP16, labels, (Stick(stick, 64),), tuple((label, 1) for label in labels), Component.MEMORY, (segment << 34,))  # fmt: skip


def product(m: int, n: int, k: int, splits: tuple[int, int, int], result: int = 2) -> SuperDsc:
    axes = tuple(Axis(*each) for each in zip(("mb", "out", "in"), (m, n, k), splits, strict=True))
    tensors = (tensor("mb in", "in", 0), tensor("in out", "out", 1), tensor("mb out", "out", result))
    cores = splits[0] * splits[1] * splits[2]
    return SuperDsc("0_mm", "batchmatmul", "pt", FP16, axes, ((0, 0, 0),) * cores, tensors, (0, 1), (2,))


def bundle(*ops: SuperDsc, body: tuple[Node, ...] = ()) -> LaunchedBundle:
    files = {f"sdsc_{number}.json": op for number, op in enumerate(ops)}
    listed = tuple(Execute(file, (), number) for number, file in enumerate(files))
    return LaunchedBundle(Bundle("by hand", Function((), body or listed), files), None)


def test_a_product_counts_macs_partial_sums_and_its_peak() -> None:
    explanation = explain_bundles([bundle(product(512, 1024, 4096, (4, 2, 4)))])
    (execution,) = explanation.executions
    assert execution.macs == 512 * 1024 * 4096 and execution.vector_elements == 0
    assert execution.memory_read_bytes == 2 * (512 * 4096 + 4096 * 1024)
    assert execution.ring_bytes == 3 * 2 * 512 * 1024  # three of four cores pass their sums on
    assert explanation.totals.peak_macs_us == pytest.approx(execution.macs / (32 * 1024 * 1.5e9) * 1e6)
    assert execution.division == "mb 4, out 2, in 4"


def test_loops_multiply_what_is_moved_but_not_what_is_data() -> None:
    once = explain_bundles([bundle(product(64, 64, 64, (1, 1, 1)))])
    looped = explain_bundles(
        [bundle(product(64, 64, 64, (1, 1, 1)), body=(Loop(5, (Execute("sdsc_0.json", (), 0),)),))]
    )
    (first,), (fifth,) = once.executions, looped.executions
    assert (fifth.runs, fifth.macs, fifth.memory_bytes) == (5, 5 * first.macs, 5 * first.memory_bytes)
    assert once.totals.data_bytes == looped.totals.data_bytes == 3 * 2 * 64 * 64


def test_what_is_written_and_read_again_is_no_data_from_outside() -> None:
    square = (64, 64, 64, (1, 1, 1))
    first = product(*square)
    second = SuperDsc(first.name, first.op, first.unit, FP16, first.axes, first.slices, (tensor("mb in", "in", 2), tensor("in out", "out", 1), tensor("mb out", "out", 3)), (0, 1), (2,))  # fmt: skip
    assert explain_bundles([bundle(first, second)]).totals.data_bytes == 3 * 2 * 64 * 64
