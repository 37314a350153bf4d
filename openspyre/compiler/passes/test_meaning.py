"""Passes before layouts keep a program's meaning: random programs of copies, updates and sums, computed by numpy before and after.

numpy's flat arrays are the oracle: an access is an index array into one, and nothing of the passes is used to compute it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.drop_dead import DropDead
from openspyre.compiler.passes.eliminate_copies import EliminateCopies
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import row_major

SHAPE = (4, 6)
Memory = dict[str, np.ndarray[Any, np.dtype[np.float64]]]


def places(access: Access, dims: tuple[Dim, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    index = [range(dim.size) for dim in dims]
    return np.array(
        [access.offset + sum(i * s for i, s in zip(at, access.strides, strict=True)) for at in product(*index)]
    )


def compute(program: Program, memory: Memory) -> Memory:
    """Each op goes element by element, as the cores do: one that reads what it has changed already computes with that."""
    memory = {name: array.copy() for name, array in memory.items()}
    for op in program.ops:
        inputs = [(memory[a.buffer], places(a, op.dims)) for a in op.inputs if isinstance(a, Access)]
        target = memory[op.outputs[0].buffer]
        for at, place in enumerate(places(op.outputs[0], op.dims)):
            values = [array[where[at]] for array, where in inputs]
            target[place] = {"relayout": values[0], "neg": -values[0], "add": sum(values)}[op.row]
    return memory


@st.composite
def views(draw: st.DrawFn, size: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """(offset, strides) of a view of that size inside SHAPE: a slice, or the transpose of one."""
    turned = draw(st.booleans()) and max(size) <= min(SHAPE)
    inner = size[::-1] if turned else size
    start = [draw(st.integers(0, whole - part)) for whole, part in zip(SHAPE, inner, strict=True)]
    stride = row_major(SHAPE)
    offset = sum(a * b for a, b in zip(start, stride, strict=True))
    return offset, stride[::-1] if turned else stride  # type: ignore[return-value]


TEMPS = ("s", "t", "w", "e")
ROLES = {"x": Role.INPUT, "u": Role.UPDATE, "y": Role.OUTPUT} | dict.fromkeys(TEMPS, Role.TEMP)
BUFFERS = tuple(
    Buffer(name, "float16", SHAPE, row_major(SHAPE), role, unset=name == "e") for name, role in ROLES.items()
)


def of_whole_buffers(*steps: tuple[str, str, str]) -> Program:
    """A program of steps (target, row, source), each over all of SHAPE."""
    at = {name: Access(name, 0, row_major(SHAPE), "float16") for name in ROLES}
    dims = (Dim("a", SHAPE[0]), Dim("b", SHAPE[1]))
    ops = (Op(f"op{n}", row, dims, (at[source],), (at[target],)) for n, (target, row, source) in enumerate(steps))
    return Program("steps", BUFFERS, tuple(ops))


# t is written twice before it is copied to y, and its second writer reads y: t's first value must not land there.
SECOND_WRITER_READS_THE_TARGET = of_whole_buffers(
    ("y", "relayout", "x"), ("t", "relayout", "u"), ("t", "neg", "y"), ("y", "relayout", "t")
)

# s is copied to t, which then changes by what s is elsewhere: if t were s's memory, it would meet its own changes.
CHANGED_BY_ANOTHER_PART = replace(
    of_whole_buffers(("s", "neg", "x"), ("t", "relayout", "s"), ("t", "neg", "s"), ("y", "relayout", "t")),
    body=(
        *of_whole_buffers(("s", "neg", "x"), ("t", "relayout", "s")).ops,
        Op("shift", "neg", (Dim("a", 3), Dim("b", 6)), (Access("s", 0, (6, 1), "float16"),), (Access("t", 6, (6, 1), "float16"),)),
        *of_whole_buffers(("y", "relayout", "t")).ops,
    ),
)  # fmt: skip


# e is read as whatever lies there, and only then a copy of s: the first read is none of s.
READ_BEFORE_IT_WAS_COPIED = of_whole_buffers(
    ("u", "relayout", "e"), ("s", "neg", "u"), ("y", "relayout", "x"), ("e", "relayout", "s"), ("e", "neg", "x")
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    ops: list[Op] = []
    written = ["x", "u", "e"]
    for number in range(draw(st.integers(2, 9))):
        row = draw(st.sampled_from(["relayout", "relayout", "relayout", "neg", "add"]))
        target = draw(st.sampled_from(["u", "y", *TEMPS]))
        whole = target not in written or draw(st.booleans())
        size = SHAPE if whole else (draw(st.integers(1, 4)), draw(st.integers(1, 6)))
        sources = [draw(st.sampled_from(written)) for _ in range(2 if row == "add" else 1)]
        if target in sources and row == "relayout":
            continue  # a copy inside one buffer may meet itself
        out = (0, row_major(SHAPE)) if whole else draw(views(size))
        same = [
            Access(name, *out, "float16") if name == target else Access(name, *draw(views(size)), "float16")
            for name in sources
        ]
        dims = (Dim("a", size[0]), Dim("b", size[1]))
        ops.append(Op(f"op{number}", row, dims, tuple(same), (Access(target, *out, "float16"),)))
        if target not in written:
            written.append(target)
    if "y" not in written:
        ops.append(Op("last", "relayout", (Dim("a", SHAPE[0]), Dim("b", SHAPE[1])),
                      (Access(draw(st.sampled_from(written)), 0, row_major(SHAPE), "float16"),),
                      (Access("y", 0, row_major(SHAPE), "float16"),)))  # fmt: skip
    return Program("random", BUFFERS, tuple(ops))


@settings(max_examples=400, deadline=None)
@given(programs())
@example(READ_BEFORE_IT_WAS_COPIED)
@example(SECOND_WRITER_READS_THE_TARGET)
@example(CHANGED_BY_ANOTHER_PART)
def test_eliminating_copies_and_dead_ops_keeps_what_callers_see(program: Program) -> None:
    count = int(np.prod(SHAPE))
    memory: Memory = {
        b.name: np.full(count, np.nan) if b.unset else np.arange(count, dtype=np.float64) + 100.0 * number
        for number, b in enumerate(program.buffers)
    }
    changed = DropDead().run(EliminateCopies().run(program))
    assert not Verifier().problems(changed)
    assert len(changed.ops) <= len(program.ops)
    before, after = compute(program, memory), compute(changed, memory)
    for buffer in program.buffers:
        if buffer.role is not Role.TEMP:  # what comes of elements that nobody wrote may be anything
            known = ~np.isnan(before[buffer.name])
            np.testing.assert_array_equal(after[buffer.name][known], before[buffer.name][known], err_msg=buffer.name)


def test_an_update_by_way_of_a_copy_happens_in_place() -> None:
    """What a cache update in a functional graph looks like: copy, write a slice, read the whole, copy back."""
    stride = row_major(SHAPE)
    whole, row = (Dim("a", 4), Dim("b", 6)), (Dim("b", 6),)
    buffers = (
        Buffer("cache", "float16", SHAPE, stride, Role.UPDATE),
        Buffer("new", "float16", (6,), (1,), Role.INPUT),
        Buffer("t", "float16", SHAPE, stride, Role.TEMP),
        Buffer("y", "float16", SHAPE, stride, Role.OUTPUT),
    )
    at = {name: Access(name, 0, stride, "float16") for name in ("cache", "t", "y")}
    ops = (
        Op("copy", "relayout", whole, (at["cache"],), (at["t"],)),
        Op("write", "relayout", row, (Access("new", 0, (1,), "float16"),), (Access("t", 12, (1,), "float16"),)),
        Op("use", "neg", whole, (at["t"],), (at["y"],)),
        Op("back", "relayout", whole, (at["t"],), (at["cache"],)),
    )
    changed = DropDead().run(EliminateCopies().run(Program("update", buffers, ops)))
    assert [op.name for op in changed.ops] == ["write", "use"]
    assert changed.ops[0].outputs[0].buffer == "cache"
    assert all(buffer.name != "t" for buffer in changed.buffers)
