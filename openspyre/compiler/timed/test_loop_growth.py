"""Which ops share a loop: neighbours through the tensors they share, as long as nobody outside needs to come between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Role
from openspyre.compiler.passes.expand_composites import ExpandComposites
from openspyre.compiler.text import parse_program
from openspyre.compiler.timed.loop_growth import Flow, grown, tiled_size
from openspyre.spec.addressing import row_major

PLANS = Path(__file__).parents[1] / "golden" / "plans"
ROWS, COLUMNS = 64, 4096


def buffer(name: str, *size: int, role: Role = Role.TEMP) -> Buffer:
    return Buffer(name, "float16", size, row_major(size), role)


def op(name: str, row: str, size: tuple[int, ...], reads: dict[str, tuple[int, ...]], writes: tuple[int, ...]) -> Op:
    reduced = [not stride for stride in writes]
    dims = tuple(Dim(f"d{d}", n, reduced=reduced[d]) for d, n in enumerate(size))
    inputs = tuple(Access(one, 0, strides, "float16") for one, strides in reads.items())
    return Op(name, row, dims, inputs, (Access(name, 0, writes, "float16"),))


def matrix_op(name: str, row: str, *reads: str) -> Op:
    return op(name, row, (ROWS, COLUMNS), dict.fromkeys(reads, (COLUMNS, 1)), (COLUMNS, 1))


def flow(buffers: list[Buffer], *ops: Op) -> Flow:
    return Flow(ops, {buffer.name: buffer for buffer in buffers})


def loop(given: Flow, seed: int, dim: int) -> dict[str, str]:
    """Names of ops and their dims."""
    found = grown(given, seed, dim, lambda name: given.buffers[name].role is not Role.INPUT)
    return {given.ops[number].name: given.ops[number].dims[d].name for number, d in found.items()}


X, Y, Z = (buffer(name, ROWS, COLUMNS) for name in "xyz")
GIVEN = buffer("given", ROWS, COLUMNS, role=Role.INPUT)


def test_what_sums_the_tiled_dim_stands_outside_and_bars_whom_it_serves() -> None:
    """y needs the sum of all rows of x: a loop over rows ends before it, one over columns has all of it."""
    total = op("total", "sum", (ROWS, COLUMNS), {"x": (COLUMNS, 1)}, (0, 1))
    away = op("y", "sub", (ROWS, COLUMNS), {"x": (COLUMNS, 1), "total": (0, 1)}, (COLUMNS, 1))
    given = flow([GIVEN, X, Y, buffer("total", COLUMNS)], matrix_op("x", "exp", "given"), total, away)
    assert loop(given, 0, 0) == {"x": "d0"}
    assert loop(given, 0, 1) == {"x": "d1", "total": "d1", "y": "d1"}


def test_heads_are_columns_of_a_product() -> None:
    """32 heads of 128 are 4096 columns: as many tiles of one are tiles of the other."""
    rows = op("y", "exp", (32, ROWS, 128), {"x": (128, COLUMNS, 1)}, (128, COLUMNS, 1))
    given = flow([GIVEN, X, Y], matrix_op("x", "exp", "given"), rows)
    assert loop(given, 1, 0) == {"x": "d1", "y": "d0"}
    assert tiled_size(given, {0: 1, 1: 0}) == 32
    assert loop(given, 1, 2) == {"y": "d2"}  # columns of all heads are in no one piece


def test_nobody_joins_across_what_is_written_under_another_name() -> None:
    write = op("state", "neg", (ROWS, COLUMNS), {"given": (COLUMNS, 1)}, (COLUMNS, 1))
    state = buffer("state", ROWS, COLUMNS, role=Role.UPDATE)
    ops = matrix_op("x", "exp", "given"), write, matrix_op("y", "exp", "x")
    assert loop(flow([GIVEN, X, Y, state], *ops), 0, 0) == {"x": "d0"}
    assert loop(flow([GIVEN, X, Y, replace(state, role=Role.OUTPUT)], *ops), 0, 0) == {"x": "d0", "y": "d0"}


def test_taken_ops_are_left_alone() -> None:
    given = flow(
        [GIVEN, X, Y, Z], matrix_op("x", "exp", "given"), matrix_op("y", "exp", "x"), matrix_op("z", "neg", "y")
    )
    assert list(grown(given, 0, 0, lambda _: True)) == [0, 1, 2]
    assert list(grown(given, 0, 0, lambda _: True, without={1})) == [0]


def test_rows_of_queries_leave_keys_outside() -> None:
    program = ExpandComposites().run(parse_program((PLANS / "attention_unmasked_2048.ir").read_text()))
    given = Flow(program.ops, {one.name: one for one in program.buffers})
    scores = next(n for n, each in enumerate(program.ops) if each.row == "batchmatmul")
    dims = {dim.name: d for d, dim in enumerate(program.ops[scores].dims)}
    everything = {each.name for each in program.ops}
    assert everything - loop(given, scores, dims["m"]).keys() == {"mul_1"}  # which scales the keys
    assert everything == loop(given, scores, dims["b1"]).keys()


def test_a_gather_stays_outside() -> None:
    """Its index is packed already: from the middle of a stick, or of its table, it would be no op of the hardware."""
    table, index = buffer("table", 512, COLUMNS, role=Role.INPUT), buffer("index", ROWS, role=Role.INPUT)
    dims = (Dim("d0", ROWS), Dim("d1", COLUMNS), Dim("index", 512, reduced=True))
    reads = (Access("table", 0, (0, 1, COLUMNS), "float16"), Access("index", 0, (1, 0, 0), "int64"))
    rows = Op("x", "gather", dims, reads, (Access("x", 0, (COLUMNS, 1, 0), "float16"),))
    given = flow([table, index, X, Y, Z], rows, matrix_op("y", "exp", "x"), matrix_op("z", "exp", "y"))
    assert loop(given, 1, 0) == {"y": "d0", "z": "d0"}
    assert loop(given, 1, 1) == {"y": "d1", "z": "d1"}
