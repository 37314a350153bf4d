"""Structures: equal for ops that differ in names alone, different wherever an answer could differ."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import pytest

from openspyre.compiler.ir import Access, Buffer, Dim, Iota, Op, Role, Scalar
from openspyre.compiler.structure import per_structure, structure_of
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.origin import Origin
from openspyre.spec.sharing import nothing_shared

ROWS = SpyreTensorLayout([4, 64], "float16", [0, 1])
COLUMNS = SpyreTensorLayout([4, 64], "float16", [1, 0])
BUFFERS = {name: Buffer(name, "float16", (4, 64), (64, 1), Role.TEMP, ROWS) for name in ("x", "y", "z", "a", "b", "c")}
DIMS = (Dim("d0", 4), Dim("d1", 64))


def adding(first: str, second: str, out: str) -> Op:
    accesses = [Access(name, 0, (64, 1), "float16") for name in (first, second, out)]
    return Op(f"add_{out}", "add", DIMS, tuple(accesses[:2]), (accesses[2],))


OP = adding("x", "y", "z")


def test_names_and_origins_are_no_part_of_a_structure() -> None:
    other = replace(adding("a", "b", "c"), origin=Origin("model.py", 3))
    assert structure_of(OP, BUFFERS) == structure_of(other, BUFFERS)


@pytest.mark.parametrize(
    "other",
    [
        replace(OP, row="mul"),
        replace(OP, dims=(Dim("d0", 2), Dim("d1", 64))),
        replace(OP, dims=(Dim("d0", 4, split=2), Dim("d1", 64))),
        replace(OP, inputs=OP.inputs[:1]),
        replace(OP, inputs=(OP.inputs[0], Scalar("c0", "float16"))),
        replace(OP, inputs=(OP.inputs[0], Iota(0, (64, 1)))),
        replace(OP, inputs=(OP.inputs[0], Access("y", 64, (64, 1), "float16"))),
        replace(OP, inputs=(OP.inputs[0], Access("y", 0, (0, 1), "float16"))),
        replace(OP, inputs=OP.inputs[:1], outputs=(*OP.outputs, *OP.inputs[1:])),  # type: ignore[arg-type]
    ],
)
def test_an_op_that_differs_in_more_is_another_structure(other: Op) -> None:
    assert structure_of(OP, BUFFERS) != structure_of(other, BUFFERS)


@pytest.mark.parametrize(
    "changed",
    [
        replace(BUFFERS["y"], layout=COLUMNS),
        replace(BUFFERS["y"], dtype="float32"),
        replace(BUFFERS["y"], size=(5, 64)),
        replace(BUFFERS["y"], stride=(1, 4)),
    ],
)
def test_how_buffers_lie_is_part_of_it(changed: Buffer) -> None:
    assert structure_of(OP, BUFFERS) != structure_of(OP, BUFFERS | {"y": changed})


def test_a_question_is_asked_once_per_structure_or_always() -> None:
    asked = []

    @per_structure
    def answer(op: Op, buffers: object) -> int:
        asked.append(op.name)
        return len(asked)

    assert [answer(OP, BUFFERS), answer(adding("a", "b", "c"), BUFFERS), answer(replace(OP, row="mul"), BUFFERS)] == [
        1,
        1,
        2,
    ]
    with nothing_shared():
        assert answer(OP, BUFFERS) == 3


def test_numbers_that_an_op_of_the_hardware_has_as_constants_tell_ops_apart() -> None:
    """softplus has beta and threshold in its SuperDSC: another beta is another op. A factor comes with the launch."""
    x = Buffer("x", "float16", (4, 64), (64, 1), Role.INPUT)
    dims, read = (Dim("i", 4), Dim("j", 64)), Access("x", 0, (64, 1), "float16")

    def of(row: str, *words: int | None) -> Hashable:
        numbers = [Scalar(f"n{place}", "float16", word) for place, word in enumerate(words)]
        return structure_of(Op(row, row, dims, (read, *numbers), (read,)), {"x": x})

    one, two = 0x3F800000, 0x40000000
    assert len({of("softplus", one, two), of("softplus", two, two), of("softplus", None, None)}) == 3
    assert of("mul", one) == of("mul", two)
