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


def test_windows_of_windows_are_made_in_two_steps() -> None:
    """Three places within sticks, each read from three rows: what moves elements across sticks is done three times, not nine."""
    x = Buffer("x", "float16", (20, 130), (130, 1), Role.INPUT)
    shifted = Buffer("shifted", "float16", (3, 20, 128), (2560, 128, 1), Role.TEMP)
    out = Buffer("out", "float16", (3, 3, 18, 128), (6912, 2304, 128, 1), Role.OUTPUT)
    first = Op(
        "first",
        "relayout",
        (Dim("j", 3), Dim("y", 20), Dim("x", 128)),
        (Access("x", 0, (1, 130, 1), "float16"),),
        (Access("shifted", 0, (2560, 128, 1), "float16"),),
    )
    second = Op(
        "second",
        "relayout",
        (Dim("i", 3), Dim("j", 3), Dim("y", 18), Dim("x", 128)),
        (Access("shifted", 0, (128, 2560, 128, 1), "float16"),),
        (Access("out", 0, (6912, 2304, 128, 1), "float16"),),
    )
    program = Program("windows", (x, shifted, out), (first, second))
    assert EliminateCopies().run(program).ops == program.ops
    plain = replace(first, inputs=(Access("x", 0, (0, 130, 1), "float16"),))  # the same place three times: no windows
    assert len(EliminateCopies().run(replace(program, body=(plain, second))).ops) == 1
