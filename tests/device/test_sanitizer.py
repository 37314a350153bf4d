"""The sanitizer: every seeded mistake is told with all that helps to find it; what is right is left alone."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FAULTS = HERE / "sanitizer_faults.py"


def run(*command: str, **environment: str) -> str:
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("OPENSPYRE_SANITIZE")}
    done = subprocess.run(
        [sys.executable, *command], env={**quiet, **environment}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def reports() -> dict[str, str]:
    return json.loads(run(str(FAULTS), OPENSPYRE_SANITIZE="1"))


def line_of(name: str) -> str:
    lines = FAULTS.read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# LINE {name}")]
    return f"{FAULTS}:{number}"


@pytest.mark.parametrize(
    ("mistake", "parts"),
    [
        ("computing_with_what_nobody_wrote", ["error aten::add.Tensor failed", "uninitialised-read", "program 'add'"]),
        ("computing_with_what_nobody_wrote", ["input 0 'arg0', element 0", "core 0", "device address 0x", "more like"]),
        ("the_host_reads_what_nobody_wrote", ["host-read", "element [0, 0] of a tensor of float16 [3, 5]"]),
        ("copies_are_allowed_and_remember", ["error aten::mul.Tensor failed", "uninitialised-read"]),
        ("an_integer_wraps", ["warning", "integer-wrap", "mul_i gives 4294967296, which wraps"]),
        ("an_index_nobody_wrote", ["tainted-address", "chooses an address"]),
        ("part_of_a_sum_is_missing", ["uninitialised-read", "'sum'"]),
        ("a_matrix_nobody_wrote", ["uninitialised-read", "input 1", "nobody has written it"]),
        ("a_compiled_graph", ["uninitialised-read", str(FAULTS), "in <lambda>"]),
        ("a_compiled_graph_fills_a_part", ["uninitialised-read", "in function"]),
        ("a_compiled_graph_computes_with_an_empty", ["uninitialised-read", "in <lambda>"]),
        ("padding_becomes_an_element", ["uninitialised-read", "step 0 'negate'", "input 0 'x', element 518", "core 0"]),
        ("a_step_leaves_its_tensor", ["out-of-bounds", "input 0 'x', element 1024", "core 3", "block of 2048 bytes"]),
        ("cores_write_the_same_place", ["write-race", "output 0 'y'", "core 1 writes what core 0 writes"]),
        ("a_core_reads_what_another_writes", ["read-race", "input 0 'x', element 128", "core 0 reads what core 1"]),
        ("memory_is_used_after_it_was_freed", ["freed-read", "input 0 'x'", "not allocated"]),
        ("a_core_reads_a_scratchpad_it_did_not_write", ["scratchpad-read", "step 1", "core 4", "has not written it"]),
        ("a_step_stores_nothing", ["unwritten", "step 0 'negate'", "output 0 'y', element 0", "says it stores"]),
        ("a_step_stores_beyond", ["undeclared-write", "step 0 'negate'", "output 0 'y'", "does not say it stores"]),
        ("an_eager_operator_stores_nothing", ["unwritten", "aten::add", "program 'add'", "output 0"]),
        ("a_copy_within_the_card_stores_nothing", ["unwritten", "element [0, 0] of a tensor of float16 [70, 10]"]),
        ("a_fused_graph_stores_nothing", ["unwritten", "output 0", str(FAULTS)]),
    ],
)
def test_a_mistake_is_told(mistake, parts):
    report = reports()[mistake]
    assert [part for part in parts if part not in report] == [], report


@pytest.mark.parametrize(
    "mistake",
    ["computing_with_what_nobody_wrote", "the_host_reads_what_nobody_wrote", "an_eager_operator_stores_nothing"],
)
def test_the_report_names_the_line_that_launched_it(mistake):
    assert f"launched at {line_of(mistake)} in {mistake}" in reports()[mistake]


def test_a_warning_stands_at_the_users_line():
    mistake = "the_host_reads_what_nobody_wrote"
    assert reports()[mistake].startswith(f"warning {line_of(mistake)} ")


def test_what_is_right_is_left_alone():
    told = {name: report for name, report in reports().items() if name.startswith("nothing_wrong")}
    assert len(told) == 6
    assert set(told.values()) == {"nothing"}, told


def test_strict_makes_errors_of_warnings():
    report = run(
        str(FAULTS),
        "the_host_reads_what_nobody_wrote",
        "an_integer_wraps",
        OPENSPYRE_SANITIZE="1",
        OPENSPYRE_SANITIZE_STRICT="1",
    )
    assert report.count('"error ') == 2, report


def test_a_program_turns_it_on_before_it_uses_the_card():
    program = """
import torch
torch.spyre.enable_sanitizer()
try:
    torch.empty(3, dtype=torch.float16, device="spyre").neg()
    torch.spyre.synchronize()
except RuntimeError as finding:
    print(type(finding).__name__)
torch.spyre.enable_sanitizer()
try:
    torch.spyre.enable_sanitizer(strict=True)
except ValueError as late:
    print("a card is already in use" in str(late))
"""
    assert run("-c", program).split() == ["SanitizerFinding", "True"]


def test_results_are_the_same_bits_and_without_the_sanitizer_no_shadow_is_reserved():
    sample = str(HERE / "sanitizer_sample.py")
    plain_bits, plain_gib = run(sample, OPENSPYRE_CARD_MEMORY_GIB="1000").split()
    sanitized_bits, sanitized_gib = run(sample, OPENSPYRE_CARD_MEMORY_GIB="1000", OPENSPYRE_SANITIZE="1").split()
    assert plain_bits == sanitized_bits
    assert 2000 <= int(plain_gib) < 2500
    assert 3000 <= int(sanitized_gib) < 3500
