"""What a record becomes: dims, lanes and operands worked out by hand; code compared with arithmetic on paper."""

from __future__ import annotations

import pytest

from fuzz import samples
from openspyre.artifact import Emitted
from openspyre.artifact.extensions.description import Constant, Description, Dim, Iota
from openspyre.artifact.extensions.test_check import tensor
from openspyre.backend import compile_emitted
from openspyre.backend.extensions.lowering import template
from openspyre.program import model
from openspyre.program.model import Contract, LaneBlock, Map, Operand, OperandKind, Reduce, Relayout, Step
from openspyre.program.text import parse_program, print_program
from openspyre.spec.ops.expression import Lane
from openspyre.spec.ops.row import Fold


def step_of(description: Description) -> Step:
    return template(description, repr(description.attributes))


def test_a_pointwise_op_is_a_map_over_blocks_of_lanes() -> None:
    sizes = (96, 320)
    whole, row, slope = tensor(sizes, (320, 1), sizes), tensor((320,), (0, 1), sizes), tensor((), (0, 0), sizes)
    step = step_of(Description("where", (Dim("i", 96, 24), Dim("j", 320)), (whole, row, slope), (whole,)))
    assert isinstance(step, Map)
    assert (step.dims, step.lane) == ((model.Dim(96, 24), model.Dim(5)), LaneBlock(64, 320, 1))
    assert step.inputs == (
        Operand(OperandKind.VECTOR, 0, 0, (64, 96 * 64)),
        Operand(OperandKind.VECTOR, 1, 0, (0, 64)),
        Operand(OperandKind.SPLAT, 2, 0, (0, 0)),
    )
    assert step.outputs == (Operand(OperandKind.VECTOR, 3, 0, (64, 96 * 64)),)


def folded(row: str, dtype: str = "float16") -> Reduce:
    sizes = (128, 200)
    x, out = tensor(sizes, (200, 1), sizes), tensor((128,), (1, 0), sizes, dtype, sparse=True)
    step = step_of(Description(row, (Dim("i", 128, 32), Dim("j", 200, reduced=True)), (x,), (out,)))
    assert isinstance(step, Reduce)
    return step


def test_a_reduction_folds_its_lanes() -> None:
    step = folded("sum")
    assert step.dims == (model.Dim(128, 32), model.Dim(4, 1, True))
    assert step.lane == LaneBlock(64, 200, 1, reduced=True)
    assert step.combine is Fold.SUM
    assert step.outputs[0] == Operand(OperandKind.SPLAT, 1, 0, (64, 0))
    assert (step.finish.instructions, step.finish.results) == ((), (0,))


def test_a_mean_multiplies_by_one_over_n() -> None:
    finish = folded("mean").finish
    assert [instruction.opcode for instruction in finish.instructions] == ["mul"]
    assert finish.constants == (0x3BA3D70A,), "the fp32 nearest to 1 / 200"


def test_an_arg_reduction_returns_the_index() -> None:
    step = folded("argmax", "int64")
    assert step.combine is Fold.ARG_MAX
    assert (step.finish.results, step.finish.result_lanes) == ((1,), (Lane.INT,))


def product(n: int, *, along_k: bool) -> Contract:
    """[64, 192] @ [192, n] in float32: 32 elements a stick."""
    sizes = (64, n, 192)
    a, out = tensor((64, 192), (192, 0, 1), sizes, "float32"), tensor((64, n), (n, 1, 0), sizes, "float32")
    b = tensor((n, 192) if along_k else (192, n), (0, 192, 1) if along_k else (0, 1, n), sizes, "float32")
    dims = (Dim("m", 64, 4), Dim("n", n, 2), Dim("k", 192, 1, True))
    step = step_of(Description("batchmatmul", dims, (a, b), (out,)))
    assert isinstance(step, Contract)
    return step


def test_a_contraction_reads_a_along_k_and_b_along_n() -> None:
    step = product(128, along_k=False)
    assert step.dims == (model.Dim(64, 4), model.Dim(4, 2), model.Dim(6, 1, True))
    assert step.lane == LaneBlock(32, 128, 1)
    assert (step.k_extent, step.k_lanes, step.b_row_stride, step.b_along_k) == (192, 32, 32, False)
    a, b = step.inputs
    assert a.strides == (32, 0, 64 * 32)
    assert b.strides == (0, 192 * 32, 32 * 32)
    assert step.outputs[0].strides == (32, 64 * 32, 0)


def test_a_contraction_may_read_b_along_k() -> None:
    step = product(100, along_k=True)
    assert step.dims == (model.Dim(64, 4), model.Dim(4, 2), model.Dim(6, 1, True))
    assert (step.k_extent, step.k_lanes, step.b_row_stride, step.b_along_k) == (192, 32, 32, True)
    assert step.inputs[1].strides == (0, 32 * 32, 100 * 32)


def test_a_relayout_goes_by_views_and_begins_at_its_buffer() -> None:
    sizes = (128, 64)
    source = tensor((64, 128), (1, 128), sizes, view=True)
    step = step_of(
        Description("relayout", (Dim("i", 128), Dim("j", 64)), (source,), (tensor(sizes, (64, 1), sizes, view=True),))
    )
    assert isinstance(step, Relayout)
    assert (step.source.size, step.source.stride) == (sizes, (1, 128))
    assert (step.target.size, step.target.stride) == (sizes, (64, 1))
    assert [operand.symbol for operand in (*step.inputs, *step.outputs)] == [0, 1]
    assert step.inputs[0].offset == 0, "the view's own offset tells the rest"


def test_blocks_are_as_long_as_the_longest_stick() -> None:
    size = (4, 100)
    half, full = tensor(size, (100, 1), size), tensor(size, (100, 1), size, "float32")
    step = step_of(Description("abs", (Dim("i", 4), Dim("j", 100)), (half,), (full,)))
    assert isinstance(step, Map)
    assert (step.dims, step.lane) == ((model.Dim(4), model.Dim(2)), LaneBlock(64, 100, 1))
    assert (step.inputs[0].strides, step.inputs[0].tile_stride) == ((64, 4 * 64), 0)
    assert (step.outputs[0].strides, step.outputs[0].tile_stride) == ((32, 2 * 4 * 32), 4 * 32)


def test_an_iota_counts_along_blocks_and_lanes() -> None:
    size = (4, 100)
    out = tensor(size, (100, 1), size, "int64")
    (iota,) = step_of(Description("abs", (Dim("i", 4), Dim("j", 100)), (Iota(7, (1000, 3)),), (out,))).inputs
    assert (iota.kind, iota.offset, iota.strides, iota.tile_stride) == (OperandKind.IOTA, 7, (1000, 3 * 32), 3)


def test_truth_values_come_as_floats_and_are_made_predicates() -> None:
    size = (4, 64)
    mask, x = tensor(size, (64, 1), size, "bool"), tensor(size, (64, 1), size)
    step = step_of(Description("where", (Dim("i", 4), Dim("j", 64)), (mask, x, x), (x,)))
    assert isinstance(step, Map)
    assert step.code.inputs == (Lane.FLOAT,) * 3
    assert [instruction.opcode for instruction in step.code.instructions] == ["float_to_bool", "select"]


def test_a_constant_is_part_of_the_code() -> None:
    size = (4, 64)
    x = tensor(size, (64, 1), size, "float32")
    step = step_of(Description("mul", (Dim("i", 4), Dim("j", 64)), (x, Constant(0x3FC00000, "float32")), (x,)))
    assert isinstance(step, Map)
    assert (len(step.inputs), step.code.constants) == (1, (0x3FC00000,))


@pytest.mark.parametrize("emitted", samples.samples(), ids=lambda emitted: emitted.name)
def test_programs_survive_their_text(emitted: Emitted) -> None:
    program = compile_emitted(emitted)
    assert parse_program(print_program(program)) == program
