"""Tables of gathers: the dim that is chosen along lies outermost, by another layout or in a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.outer_tables import OuterTables
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout


def buffer(name: str, size: Sequence[int], role: Role = Role.INPUT, dtype: str = "float16") -> Buffer:
    return Buffer(name, dtype, tuple(size), row_major(size), role, SpyreTensorLayout(list(size), dtype))


INDEX, OUT = buffer("i", (4,), dtype="int64"), buffer("y", (4, 128), Role.OUTPUT)


def rows_of(table: str, rows: int, *, offset: int = 0, width: int = 128, name: str = "g") -> Op:
    dims = (Dim("d0", 4), Dim("d1", 128), Dim("index", rows, reduced=True))
    inputs = (Access(table, offset, (0, 1, width), "float16"), Access("i", 0, (1, 0, 0), "int64"))
    return Op(name, "gather", dims, inputs, (Access("y", 0, (128, 1, 0), "float16"),))


def after(*ops: Op, buffers: Sequence[Buffer]) -> Program:
    program = Program("p", (*buffers, INDEX, OUT), ops)
    assert not emit_bundle(pipeline.run(program, verify=True)).extensions
    return OuterTables().run(program)


def device_size(program: Program, name: str) -> list[int]:
    (layout,) = [buffer.layout for buffer in program.buffers if buffer.name == name]
    assert layout is not None
    return list(layout.device_size)


def test_an_argument_is_copied() -> None:
    """As the reference does: [100, 128] lies as [2, 100, 64], and is gathered from [100, 2, 64]."""
    made = after(rows_of("x", 100), buffers=[buffer("x", (100, 128))])
    assert [op.row for op in made.ops] == ["identity", "gather"]
    assert [(dim.size, dim.reduced) for dim in made.ops[0].dims] == [(100, False), (128, False)]
    assert device_size(made, made.ops[1].accesses[0].buffer) == [100, 2, 64]


def test_what_lies_so_already_stays() -> None:
    outer = SpyreTensorLayout([100, 2, 64], [128, 64, 1], buffer("x", (1,)).layout.device_dtype)  # type: ignore[union-attr]
    for table in (replace(buffer("x", (100, 128)), layout=outer), buffer("x", (100, 64))):
        width = table.size[1]
        gather = rows_of("x", 100, width=width)
        gather = replace(gather, dims=(Dim("d0", 4), Dim("d1", width), gather.dims[2]))
        assert OuterTables().run(program := Program("p", (table, INDEX, OUT), (gather,))) == program


def test_a_copy_serves_all_gathers_until_its_table_changes() -> None:
    x, change = buffer("x", (100, 128), Role.UPDATE), buffer("z", (100, 128))
    whole = (Dim("i", 100), Dim("j", 128))
    write = Op("w", "abs", whole, (Access("z", 0, (128, 1), "float16"),), (Access("x", 0, (128, 1), "float16"),))
    gathers = [rows_of("x", 100, name=name) for name in ("a", "b", "c")]
    made = after(*gathers[:2], write, gathers[2], buffers=[x, change])
    assert [op.row for op in made.ops] == ["identity", "gather", "gather", "abs", "identity", "gather"]


def test_a_temp_gets_another_layout() -> None:
    x, t = buffer("x", (100, 128)), buffer("t", (100, 128), Role.TEMP)
    whole = (Dim("i", 100), Dim("j", 128))
    make = Op("m", "abs", whole, (Access("x", 0, (128, 1), "float16"),), (Access("t", 0, (128, 1), "float16"),))
    made = after(make, rows_of("t", 100), buffers=[x, t])
    assert [op.row for op in made.ops] == ["abs", "gather"]
    assert device_size(made, "t") == [100, 2, 64]


@pytest.mark.parametrize("halves", [False, True])
def test_a_table_whose_length_nothing_tells_is_copied(halves: bool) -> None:
    """Rows 20 to 59 of 100; or a temp that two ops fill."""
    if not halves:
        made = after(rows_of("x", 40, offset=20 * 128), buffers=[buffer("x", (100, 128))])
        assert [op.row for op in made.ops] == ["identity", "gather"]
        assert device_size(made, made.ops[1].accesses[0].buffer) == [40, 2, 64]
        return
    x, t, half = buffer("x", (50, 128)), buffer("t", (100, 128), Role.TEMP), (Dim("i", 50), Dim("j", 128))
    parts = [
        Op(f"m{n}", "abs", half, (Access("x", 0, (128, 1), "float16"),), (Access("t", 6400 * n, (128, 1), "float16"),))
        for n in range(2)
    ]
    made = after(*parts, rows_of("t", 100), buffers=[x, t])
    assert [op.row for op in made.ops] == ["abs", "abs", "identity", "gather"]
