"""Ops of the hardware have one format: what is widened, what is narrowed, and what stays as it is."""

from __future__ import annotations

import pytest

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.unify_formats import UnifyFormats
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import row_major
from openspyre.spec.origin import Origin

SIZE = (4, 70)


def unified(row: str, inputs: list[str], result: str, *, reduced: bool = False) -> Program:
    buffers = [Buffer(f"x{i}", dtype, SIZE, row_major(SIZE), Role.INPUT) for i, dtype in enumerate(inputs)]
    size = (4,) if reduced else SIZE
    out = Buffer("out", result, size, row_major(size), Role.OUTPUT)
    reads = tuple(Access(b.name, 0, b.stride, b.dtype) for b in buffers)
    target = Access("out", 0, (1, 0) if reduced else out.stride, result)
    op = Op("op", row, (Dim("i", 4), Dim("j", 70, reduced=reduced)), reads, (target,), origin=Origin("model.py", 3))
    before = Program("p", (*buffers, out), (op,))
    assert not Verifier().problems(before)
    after = UnifyFormats().run(before)
    assert not Verifier().problems(after)
    return after


def told(program: Program) -> list[tuple[str, ...]]:
    return [(op.row, *(access.dtype for access in op.accesses)) for op in program.ops]


def test_a_condition_is_widened_beside_float32() -> None:
    after = unified("where", ["bool", "float32", "float32"], "float32")
    assert told(after) == [("cast", "bool", "float32"), ("where", "float32", "float32", "float32", "float32")]
    assert {op.origin.call for op in after.ops} == {Origin("model.py", 3)}


def test_a_comparison_of_float32_leaves_its_truth_as_a_number() -> None:
    after = unified("lt", ["float32", "float32"], "bool")
    assert told(after) == [("lt", "float32", "float32", "float32"), ("cast", "float32", "float16")]
    assert after.ops[-1].outputs[0].buffer == "out"


def test_operands_of_both_widths_and_a_wider_mean() -> None:
    assert told(unified("add", ["float16", "float32"], "float32"))[0] == ("cast", "float16", "float32")
    after = unified("mean", ["float16"], "float32", reduced=True)
    assert told(after) == [("cast", "float16", "float32"), ("mean", "float32", "float32")]


@pytest.mark.parametrize(
    ("row", "inputs", "result"),
    [
        ("add", ["float16", "float16"], "float16"),
        ("where", ["bool", "float16", "float16"], "float16"),
        ("lt", ["float16", "float16"], "bool"),
        ("add", ["int32", "int32"], "int32"),
        ("cast", ["float16"], "float32"),
        ("sin", ["float16"], "float32"),
    ],
)
def test_what_needs_nothing_stays(row: str, inputs: list[str], result: str) -> None:
    assert len(unified(row, inputs, result).ops) == 1
