"""Composites become ops of the hardware: which ones, over which dims, and none is left."""

from __future__ import annotations

import pytest

from openspyre.compiler.ir import Access, Buffer, Constant, Dim, Op, Program, Role, Scalar
from openspyre.compiler.passes.expand_composites import ExpandComposites
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import formats_of
from openspyre.spec.hardware import HARDWARE
from openspyre.spec.ops import TABLE, Kind, OpClass, Promotion, Row
from openspyre.spec.origin import Origin

SIZE = (5, 70)
COMPOSITES = [row for row in TABLE.values() if row.op_class is OpClass.COMPOSITE]
OF_BOTH = [(row, dtype) for row in COMPOSITES for dtype in ("float16", "float32")[: 1 if row.widened else 2]]
# What a composite's parts have no hardware for in float32: log is an op of 16 bits.
NOT_IN_FP32 = {"log_softmax": {"log"}}


def program(row: Row, dtype: str = "float16", **attributes: float | str) -> Program:
    """One op of a row over a matrix, its second dim folded where the row folds."""
    folds = row.kind in (Kind.REDUCTION, Kind.ROWS)
    small = row.kind is Kind.REDUCTION
    result = "bool" if row.promotion is Promotion.BOOL else dtype
    operands = row.operands + len(str(attributes.get("affine", "")))
    inputs = [Buffer(f"x{i}", dtype, SIZE, row_major(SIZE), Role.INPUT) for i in range(operands)]
    size = (5, 1) if small else SIZE
    out = Buffer("out", result, size, row_major(size), Role.OUTPUT)
    scalars = tuple(Scalar(name, dtype) for name in row.scalars)
    accesses = tuple(Access(b.name, 0, b.stride, b.dtype) for b in inputs)
    target = Access("out", 0, (1, 0) if small else out.stride, result)
    dims = (Dim("i", 5), Dim("j", 70, reduced=folds))
    op = Op("op", row.name, dims, (*accesses, *scalars), (target,), tuple(attributes.items()), Origin("model.py", 7))
    return Program("p", (*inputs, out), (op,), scalars)


def attributes(row: Row) -> dict[str, float | str]:
    return {"eps": 1e-5, "affine": "w"} if row.name in ("layer_norm", "rms_norm") else {}


def expand(row: Row, dtype: str = "float16") -> Program:
    before = program(row, dtype, **attributes(row))
    assert not Verifier().problems(before)
    after = ExpandComposites().run(before)
    assert not Verifier().problems(after)
    return after


@pytest.mark.parametrize(("row", "dtype"), [pytest.param(*each, id=f"{each[0].name}-{each[1]}") for each in OF_BOTH])
def test_every_composite_is_made_of_hardware_ops(row: Row, dtype: str) -> None:
    for op in expand(row, dtype).ops:
        made_of = TABLE[op.row]
        assert made_of.composite is None
        if op.row == "cast" or (dtype == "float32" and op.row in NOT_IN_FP32.get(row.name, ())):
            continue
        assert made_of.documented, f"{row.name} needs {op.row}, which is no op of the hardware"
        hardware = HARDWARE[made_of.artifact]
        kinds = {formats_of(access.dtype).device for access in op.accesses}
        assert kinds <= set(hardware.formats), f"{row.name} needs {op.row} in {kinds}"


def rows_of(name: str, dtype: str = "float16") -> list[str]:
    return [op.row for op in expand(TABLE[name], dtype).ops]


def test_the_documents_decompositions() -> None:
    assert rows_of("softmax") == ["amax", "sub", "exp", "sum", "div"]
    assert rows_of("rms_norm") == ["mul", "mean", "add", "rsqrt", "mul", "mul"]
    assert rows_of("layer_norm") == ["exx2", "layernormscale", "layernormnorm"]
    assert rows_of("add_scaled") == ["mul", "add"]
    assert rows_of("logical_not") == ["eq"]
    assert rows_of("hardswish") == ["cast", "add", "maximum", "minimum", "mul", "div", "cast"]
    assert rows_of("hardswish", "float32") == ["add", "maximum", "minimum", "mul", "div"]


def test_values_per_row_are_computed_once_a_row() -> None:
    ops = {op.row: op for op in expand(TABLE["rms_norm"]).ops}
    assert [dim.name for dim in ops["rsqrt"].dims] == ["i"]
    assert [(dim.name, dim.reduced) for dim in ops["mean"].dims] == [("i", False), ("j", True)]
    assert ops["add"].inputs[1] == Constant.of(1e-5, "float16")


def test_numbers_are_rounded_to_the_format_of_the_tensors_they_meet() -> None:
    (constant,) = {
        i for op in expand(TABLE["hardswish"]).ops for i in op.inputs if isinstance(i, Constant) and i.value > 5
    }
    assert constant == Constant.of(6.0, "float32")


def test_what_it_was_made_of_is_remembered() -> None:
    ops = expand(TABLE["softmax"]).ops
    assert {op.origin.call for op in ops} == {Origin("model.py", 7)}
    assert {change.kind for op in ops for change in op.origin.history} == {"decomposition"}


def test_integers_stay_whole() -> None:
    before = program(TABLE["sign"], "int32")
    assert ExpandComposites().run(before) == before


def test_a_mean_square_and_a_mean_lie_in_one_stick() -> None:
    after = expand(TABLE["layer_norm"])
    (pair,) = [buffer for buffer in after.buffers if buffer.name.endswith("exx2")]
    assert pair.size == (5, 2) and pair.layout is not None and pair.layout.device_size == [1, 5, 32]
    assert [(out.buffer, out.offset) for out in after.ops[0].outputs] == [(pair.name, 0), (pair.name, 1)]
