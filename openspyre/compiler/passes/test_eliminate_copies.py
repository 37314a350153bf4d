"""Copies that a program can do without, pass by pass; that what remains means the same is test_meaning's to say."""

from dataclasses import replace

import pytest

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.eliminate_copies import EliminateCopies

SIZE = 8
WHOLE = Access("empty", 0, (1,), "float16")
COPY = Op("copy", "relayout", (Dim("i", SIZE),), (WHOLE,), (WHOLE.on("out"),))
WRITE = Op("write", "neg", (Dim("i", SIZE // 2),), (WHOLE.on("x"),), (WHOLE.on("out"),))


def buffer(name: str, role: Role) -> Buffer:
    return Buffer(name, "float16", (SIZE,), (1,), role)


@pytest.mark.parametrize("role", [Role.OUTPUT, Role.TEMP])
def test_a_copy_of_what_nobody_wrote_is_left_out(role: Role) -> None:
    """torch.empty that a graph fills in parts: its copy begins as whatever lies there, and says so."""
    empty = replace(buffer("empty", Role.TEMP), unset=True)
    read = Op("read", "neg", (Dim("i", SIZE),), (WHOLE.on("out"),), (WHOLE.on("result"),))
    also = Op("also", "neg", (Dim("i", SIZE),), (WHOLE,), (WHOLE.on("other"),))
    others = tuple(buffer(name, Role.OUTPUT) for name in ("result", "other"))
    buffers = (buffer("x", Role.INPUT), empty, buffer("out", role), *others)
    done = EliminateCopies().run(Program("filled", buffers, (COPY, WRITE, read, also)))
    assert [op.name for op in done.ops] == ["write", "read", "also"]
    assert done.buffer("out").unset and done.buffer("empty").unset


def test_a_copy_of_what_somebody_wrote_stays() -> None:
    empty = replace(buffer("empty", Role.TEMP), unset=True)
    first = replace(WRITE, name="first", outputs=(WHOLE,))
    also = Op("also", "neg", (Dim("i", SIZE),), (WHOLE,), (WHOLE.on("other"),))
    buffers = (buffer("x", Role.INPUT), empty, buffer("out", Role.OUTPUT), buffer("other", Role.OUTPUT))
    done = EliminateCopies().run(Program("filled", buffers, (first, COPY, WRITE, also)))
    assert "copy" in [op.name for op in done.ops]
