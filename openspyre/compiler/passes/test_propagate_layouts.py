"""Layouts by the documents' rules: sticks go from operands to results, and what differs is restickified where it costs least."""

from __future__ import annotations

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.propagate_layouts import PropagateLayouts, restickified
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout


def buffer(name: str, role: Role, *size: int, stride: tuple[int, ...] | None = None, dtype: str = "float16") -> Buffer:
    layout = SpyreTensorLayout(list(size), dtype) if role is Role.INPUT else None
    return Buffer(name, dtype, size, stride or row_major(size), role, layout)


def access(name: str, *strides: int, offset: int = 0, dtype: str = "float16") -> Access:
    return Access(name, offset, strides, dtype)


def op(name: str, row: str, sizes: dict[str, int], *accesses: Access, reduced: str = "") -> Op:
    dims = tuple(Dim(label, size, reduced=label in reduced) for label, size in sizes.items())
    return Op(name, row, dims, accesses[:-1], accesses[-1:])


def chosen(buffers: tuple[Buffer, ...], *ops: Op) -> Program:
    return PropagateLayouts().run(Program("p", buffers, ops))


def device(program: Program, name: str) -> tuple[list[int], list[int]]:
    layout = program.buffer(name).layout
    assert layout is not None
    return list(layout.device_size), list(layout.stride_map)


def test_where_two_operands_cost_the_same_the_first_dim_has_the_sticks() -> None:
    """x.t() + y, (128, 192) and (192, 128): the reference turns y, and walks the result as it lies on the host."""
    x, y = buffer("x", Role.INPUT, 128, 192), buffer("y", Role.INPUT, 192, 128)
    out = buffer("out", Role.OUTPUT, 192, 128, stride=(1, 192))
    add = op("add", "add", {"a": 192, "b": 128}, access("x", 1, 192), access("y", 128, 1), access("out", 1, 192))
    done = chosen((x, y, out), add)
    assert device(done, "out") == ([3, 128, 64], [64, 192, 1])
    assert [dim.name for dim in done.ops[0].dims] == ["b", "a"]
    assert restickified(done.ops[0], {b.name: b for b in done.buffers}) == 192 * 128


def test_the_cheaper_operand_is_turned() -> None:
    """The cost is the whole operand, not what is read of it."""
    x, y = buffer("x", Role.INPUT, 128, 192), buffer("y", Role.INPUT, 4, 192, 128)
    out = buffer("out", Role.OUTPUT, 192, 128)
    add = op("add", "add", {"a": 192, "b": 128}, access("x", 1, 192), access("y", 128, 1), access("out", 128, 1))
    assert device(chosen((x, y, out), add), "out") == ([2, 192, 64], [64, 128, 1])


def test_a_later_product_decides_between_equals() -> None:
    """(x.t() + y) @ w: the product reads along y's sticks, so x is turned."""
    x, y, w = (
        buffer("x", Role.INPUT, 128, 192),
        buffer("y", Role.INPUT, 192, 128),
        buffer("w", Role.INPUT, 128, 64),
    )
    sums, out = buffer("sums", Role.TEMP, 192, 128), buffer("out", Role.OUTPUT, 192, 64)
    add = op("add", "add", {"a": 192, "b": 128}, access("x", 1, 192), access("y", 128, 1), access("sums", 128, 1))
    sizes = {"m": 192, "n": 64, "k": 128}
    mm = op(
        "mm",
        "batchmatmul",
        sizes,
        access("sums", 128, 0, 1),
        access("w", 0, 1, 64),
        access("out", 64, 1, 0),
        reduced="k",
    )
    assert device(chosen((x, y, w, sums, out), add, mm), "sums") == ([2, 192, 64], [64, 128, 1])


def test_what_is_folded_along_sticks_has_one_value_a_stick_and_so_has_what_is_made_of_it() -> None:
    x, total, out = buffer("x", Role.INPUT, 48, 200), buffer("total", Role.TEMP, 48), buffer("out", Role.OUTPUT, 48)
    fold = op("sum", "sum", {"a": 48, "b": 200}, access("x", 200, 1), access("total", 1, 0), reduced="b")
    done = chosen((x, total, out), fold, op("neg", "neg", {"a": 48}, access("total", 1), access("out", 1)))
    assert device(done, "total") == device(done, "out") == ([1, 48, 64], [-1, 1, -1])


def test_what_is_folded_across_sticks_keeps_them() -> None:
    x, out = buffer("x", Role.INPUT, 48, 256), buffer("out", Role.OUTPUT, 256)
    fold = op("sum", "sum", {"b": 256, "a": 48}, access("x", 1, 256), access("out", 1, 0), reduced="a")
    assert device(chosen((x, out), fold), "out") == ([4, 64], [64, 1])


def test_dims_of_one_lie_behind_the_others() -> None:
    x, out = buffer("x", Role.INPUT, 1, 4, 64, 64), buffer("out", Role.OUTPUT, 1, 4, 64)
    sizes = {"a": 1, "b": 4, "c": 64, "d": 64}
    fold = op("max", "amax", sizes, access("x", 16384, 4096, 64, 1), access("out", 256, 64, 1, 0), reduced="d")
    assert device(chosen((x, out), fold), "out")[0] == [64, 1, 1, 4, 64]


def test_a_copy_lies_row_by_row_whatever_it_copies() -> None:
    x, out = buffer("x", Role.INPUT, 128, 192), buffer("out", Role.OUTPUT, 192, 128)
    copy = op("copy", "relayout", {"a": 192, "b": 128}, access("x", 1, 192), access("out", 128, 1))
    assert device(chosen((x, out), copy), "out") == ([2, 192, 64], [64, 128, 1])


def test_a_part_that_begins_within_a_stick_is_laid_out_along_another_dim() -> None:
    x, out = buffer("x", Role.INPUT, 64, 128), buffer("out", Role.OUTPUT, 64, 64)
    part = op("neg", "neg", {"a": 64, "b": 64}, access("x", 128, 1, offset=10), access("out", 64, 1))
    assert device(chosen((x, out), part), "out") == ([1, 64, 64], [4096, 1, 64])
