"""What a bundle becomes: loops, lanes and operands worked out by hand; code compared with arithmetic on paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz import samples
from fuzz.samples import buffer, walk
from fuzz.text_mutants import mutants, unpack
from openspyre.artifact import check
from openspyre.artifact.model import Bundle, Description, Dim, Execution, Iota, Place, Role
from openspyre.artifact.verify import examine
from openspyre.backend import compile_bundle
from openspyre.program.model import Contraction, LaneBlock, Loop, Operand, OperandKind, Step, StepKind
from openspyre.program.text import parse_program, print_program
from openspyre.spec.ops.expression import Lane
from openspyre.spec.ops.row import Fold


def steps(bundle: Bundle) -> tuple[Step, ...]:
    return compile_bundle(bundle).steps


def test_a_pointwise_op_is_a_map_over_blocks_of_lanes() -> None:
    program = compile_bundle(samples.pointwise())
    assert (program.symbols, program.scalars, program.pool_bytes) == (("x", "s", "out"), ("slope",), 122880)
    first, second, third = program.steps
    assert (first.name, first.kind) == ("add_0", StepKind.MAP)
    assert first.loops == (Loop(96, 24), Loop(5))
    assert first.lane == LaneBlock(64, 320, 1)
    assert first.inputs[0] == Operand(OperandKind.VECTOR, 0, 0, (64, 96 * 64))
    assert first.inputs[1] == Operand(OperandKind.VECTOR, 1, 0, (0, 64))
    pool = len(program.symbols)
    assert first.outputs[0] == Operand(OperandKind.VECTOR, pool, 0, (64, 96 * 64))
    assert second.outputs[0].offset == 61440 // 2, "the second temp lies behind the first in the pool"
    assert third.inputs[1] == Operand(OperandKind.SCALAR, 0, 0, (0, 0))


def test_a_reduction_folds_its_lanes() -> None:
    (step,) = steps(samples.row_sums())
    assert step.kind is StepKind.REDUCE
    assert step.loops == (Loop(128, 32), Loop(4, 1, True))
    assert step.lane == LaneBlock(64, 200, 1, reduced=True)
    assert step.combine is Fold.SUM
    assert step.outputs[0] == Operand(OperandKind.SPLAT, 1, 0, (64, 0))
    assert step.finish is not None
    assert (step.finish.instructions, step.finish.results) == ((), (0,))


def test_a_mean_multiplies_by_one_over_n() -> None:
    bundle = samples.row_sums()
    mean = replace(bundle, descriptions=(replace(bundle.descriptions[0], row="mean"),))
    (step,) = steps(mean)
    assert step.finish is not None
    assert [instruction.opcode for instruction in step.finish.instructions] == ["mul"]
    assert step.finish.constants == (0x3BA3D70A,), "the fp32 nearest to 1 / 200"


def test_an_arg_reduction_returns_the_index() -> None:
    x, out = buffer("x", (128, 200), Role.INPUT), buffer("out", (128,), Role.OUTPUT, "int64", sparse=True)
    dims = (Dim("i", 128), Dim("j", 200, reduced=True))
    op = Description("argmax", dims, (walk(x, (200, 1), (128, 200)),), (walk(out, (1, 0), (128, 200)),))
    (step,) = steps(Bundle("a", (x, out), (op,), (Execution("argmax", 0, (Place("x", 0), Place("out", 0))),)))
    assert step.combine is Fold.ARG_MAX
    assert step.finish is not None
    assert step.finish.results == (1,)
    assert step.finish.result_lanes == (Lane.INT,)


def test_a_contraction_reads_a_along_k_and_b_along_n() -> None:
    (step,) = steps(samples.matmul())
    assert step.kind is StepKind.CONTRACT
    assert step.loops == (Loop(64, 4), Loop(2, 2), Loop(3, 1, True))
    assert step.lane == LaneBlock(64, 128, 1)
    assert step.contraction == Contraction(k_extent=192, k_lanes=64, b_row_stride=64)
    a, b = step.inputs
    assert a.strides == (64, 0, 64 * 64)
    assert b.strides == (0, 192 * 64, 64 * 64)
    assert step.outputs[0].strides == (64, 64 * 64, 0)


def test_a_contraction_may_read_b_along_k() -> None:
    (step,) = steps(samples.scores())
    assert step.loops == (Loop(64, 4), Loop(2, 2), Loop(3, 1, True))
    assert step.contraction == Contraction(k_extent=192, k_lanes=64, b_row_stride=64, b_along_k=True)
    assert step.inputs[1].strides == (0, 64 * 64, 100 * 64)


def test_a_relayout_goes_by_views_and_begins_at_its_buffer() -> None:
    bundle = samples.transposed()
    shifted = replace(bundle.executions[0], places=(Place("x", 64 * 128), Place("out", 0)))
    (step,) = steps(replace(bundle, executions=(shifted,)))
    assert step.kind is StepKind.RELAYOUT
    assert [(view.symbol, view.size, view.stride) for view in step.views] == [
        (0, (128, 64), (1, 128)),
        (1, (128, 64), (64, 1)),
    ]
    assert step.inputs[0].offset == 0, "the view's own offset tells the rest"


def test_blocks_are_as_long_as_the_longest_stick() -> None:
    size = (4, 100)
    half, full = buffer("half", size, Role.INPUT), buffer("full", size, Role.OUTPUT, "float32")
    dims = (Dim("i", 4), Dim("j", 100))
    op = Description("abs", dims, (walk(half, (100, 1), size),), (walk(full, (100, 1), size),))
    (step,) = steps(Bundle("c", (half, full), (op,), (Execution("abs", 0, (Place("half", 0), Place("full", 0))),)))
    assert step.loops == (Loop(4), Loop(2))
    assert step.lane == LaneBlock(64, 100, 1)
    assert (step.inputs[0].strides, step.inputs[0].tile_stride) == ((64, 4 * 64), 0)
    assert (step.outputs[0].strides, step.outputs[0].tile_stride) == ((32, 2 * 4 * 32), 4 * 32)


def test_an_iota_counts_along_blocks_and_lanes() -> None:
    size = (4, 100)
    out = buffer("out", size, Role.OUTPUT, "int64")
    op = Description("abs", (Dim("i", 4), Dim("j", 100)), (Iota(7, (1000, 3)),), (walk(out, (100, 1), size),))
    (step,) = steps(Bundle("i", (out,), (op,), (Execution("iota", 0, (Place("out", 0),)),)))
    (iota,) = step.inputs
    assert (iota.kind, iota.offset, iota.strides, iota.tile_stride) == (OperandKind.IOTA, 7, (1000, 3 * 32), 3)


def test_truth_values_come_as_floats_and_are_made_predicates() -> None:
    size = (4, 64)
    mask, x = buffer("mask", size, Role.INPUT, "bool"), buffer("x", size, Role.INPUT)
    out = buffer("out", size, Role.OUTPUT)
    m, v = (walk(b, (64, 1), size) for b in (mask, x))
    op = Description("where", (Dim("i", 4), Dim("j", 64)), (m, v, v), (walk(out, (64, 1), size),))
    places = tuple(Place(b.name, 0) for b in (mask, x, x, out))
    (step,) = steps(Bundle("w", (mask, x, out), (op,), (Execution("where", 0, places),)))
    assert step.code is not None
    assert step.code.inputs == (Lane.FLOAT,) * 3
    assert [instruction.opcode for instruction in step.code.instructions] == ["float_to_bool", "select"]


@pytest.mark.parametrize("bundle", samples.samples(), ids=lambda bundle: bundle.name)
def test_programs_survive_their_text(bundle: Bundle) -> None:
    program = compile_bundle(bundle)
    assert parse_program(print_program(program)) == program


def test_whatever_the_checks_let_pass_compiles(tmp_path: Path) -> None:
    """Mutants whose facts are still sound, their hashes and derived fields aside."""
    compiled = 0
    for number, (done, files) in enumerate(mutants(seed=3, count=600)):
        bundle, _ = examine(unpack(files, tmp_path / str(number)))
        if bundle is not None and not check(bundle):
            program = compile_bundle(bundle)
            assert parse_program(print_program(program)) == program, done
            compiled += 1
    assert compiled > 50
