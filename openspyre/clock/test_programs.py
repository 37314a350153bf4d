"""Steps written by hand: the same work is counted of a program as of the bundle it comes from."""

from __future__ import annotations

import pytest

from openspyre.clock.kernels import Division, Form, Matmul, Pointwise, Reduction, RoundTrip, Runs
from openspyre.clock.programs import kernel_of_step, time_program
from openspyre.program.model import (
    Contract,
    Dim,
    LaneBlock,
    Map,
    Operand,
    OperandKind,
    Program,
    Reduce,
    Repeat,
    Scan,
    Space,
)
from openspyre.spec.ops.expression import Code, Lane
from openspyre.spec.ops.row import Fold

ROWS, COLUMNS = 2048, 1024
SIZE = 2 * ROWS * COLUMNS
NOTHING = Code((Lane.FLOAT,), (), (), (0,), (Lane.FLOAT,))
LOOPS = (Dim(ROWS, 32), Dim(COLUMNS // 64))
LANES = LaneBlock(64, COLUMNS, 1)


def tensor(symbol: int, space: Space = Space.MEMORY) -> Operand:
    """[rows, columns] in sticks: a row is one stick on, the next 64 columns all rows on."""
    return Operand(OperandKind.VECTOR, symbol, 0, (64, 64 * ROWS), space=space)


def copied(near: Space = Space.MEMORY) -> Map:
    return Map("copied", LOOPS, LANES, (tensor(0),), (tensor(1, near),), NOTHING)


def test_a_map_counts_whole_tensors_and_the_runs_of_a_core() -> None:
    assert kernel_of_step(copied()) == Pointwise(Form.COPY, SIZE, SIZE, 32, Runs(64 * 128, ROWS * 128), COLUMNS)
    near = kernel_of_step(copied(Space.SCRATCHPAD))
    assert isinstance(near, Pointwise) and (near.written_bytes, near.scratchpad_bytes) == (0, SIZE)


def test_a_reduction_along_the_lanes_writes_a_stick_a_row() -> None:
    loops, lanes = (LOOPS[0], Dim(COLUMNS // 64, reduced=True)), LaneBlock(64, COLUMNS, 1, reduced=True)
    total = Operand(OperandKind.SPLAT, 1, 0, (64, 0))
    step = Reduce("total", loops, lanes, (tensor(0),), (total,), NOTHING, Fold.SUM, NOTHING)
    assert kernel_of_step(step) == Reduction(SIZE, 128 * ROWS, ROWS, SIZE // 128, 32, stride=128 * ROWS)


def test_a_contraction_has_the_division_of_its_loops() -> None:
    loops = (Dim(512, 4), Dim(4096 // 64, 8), Dim(4096 // 64))
    first = Operand(OperandKind.VECTOR, 0, 0, (64, 0, 64 * 512))
    second = Operand(OperandKind.VECTOR, 1, 0, (0, 64 * 4096, 64 * 64), space=Space.SCRATCHPAD)
    result = Operand(OperandKind.VECTOR, 2, 0, (64, 64 * 512, 0))
    step = Contract("mm", loops, LaneBlock(64, 4096, 1), (first, second), (result,), 4096, 64, 64)
    assert kernel_of_step(step) == Matmul(1, 512, 4096, 4096, Division(1, 4, 8, 1), 32, second_resident=True)


def test_a_scan_is_none_of_the_hardwares() -> None:
    rows = Operand(OperandKind.SPLAT, 0, 0, (64, 1))
    step = Scan("scan", (Dim(16), Dim(64)), LaneBlock(64, 64, -1), (rows,), (rows,), Fold.SUM)
    assert isinstance(kernel_of_step(step), RoundTrip)


def test_repeats_multiply() -> None:
    once = time_program(Program("once", ("x", "y"), (), (copied(),)))
    often = time_program(Program("often", ("x", "y"), (), (Repeat(3, (Repeat(2, (copied(),)),)),)))
    assert often.card_us == pytest.approx(6 * once.card_us)
    assert once.steps[0].item.op == "map"
