"""What lies how: over the whole program, and for inputs that may be tiled anew."""

from __future__ import annotations

from dataclasses import replace

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.choose_layouts import ChooseLayouts, default_layout
from openspyre.compiler.preferred_layouts import preferred_layouts
from openspyre.spec.layout import SpyreTensorLayout


def buffer(name: str, role: Role, *size: int, order: list[int] | None = None) -> Buffer:
    stride = [1] * len(size)
    for dim in reversed(range(len(size) - 1)):
        stride[dim] = stride[dim + 1] * size[dim + 1]
    made = Buffer(name, "float16", size, tuple(stride), role)
    laid = default_layout(made) if order is None else SpyreTensorLayout(list(size), stride, "float16", order)
    return Buffer(name, "float16", size, tuple(stride), role, laid if role is Role.INPUT else None)


def product(name: str, m: int, n: int, k: int, x: str, w: Access, out: str) -> Op:
    dims = (Dim("m", m), Dim("n", n), Dim("k", k, reduced=True))
    inputs = (Access(x, 0, (k, 0, 1), "float16"), w)
    return Op(name, "batchmatmul", dims, inputs, (Access(out, 0, (n, 1, 0), "float16"),))


def preferred(program: Program, *names: str) -> dict[str, SpyreTensorLayout]:
    return preferred_layouts(program, pipeline.run(program, verify=True), names)


def test_a_square_product_does_not_lie_as_its_weight() -> None:
    x, w = buffer("x", Role.INPUT, 128, 128), buffer("w", Role.INPUT, 128, 128, order=[1, 0])
    op = product("mm", 128, 128, 128, "x", Access("w", 0, (0, 128, 1), "float16"), "out")
    chosen = ChooseLayouts().run(Program("square", (x, w, buffer("out", Role.OUTPUT, 128, 128)), (op,)))
    assert chosen.buffer("out").layout == default_layout(chosen.buffer("out"))


def test_a_weight_that_is_read_turned_should_lie_turned() -> None:
    x, w = buffer("x", Role.INPUT, 5, 192), buffer("w", Role.INPUT, 320, 192)
    op = product("mm", 5, 320, 192, "x", Access("w", 0, (0, 192, 1), "float16"), "out")
    program = Program("linear", (x, w, buffer("out", Role.OUTPUT, 5, 320)), (op,))
    assert preferred(program, "w") == {"w": SpyreTensorLayout([320, 192], [192, 1], "float16", [1, 0])}
    assert preferred(program, "x") == {}  # it lies as it should
    assert preferred(program) == {}  # nobody may be moved


def test_a_weight_whose_dims_are_read_as_one_is_tiled_as_one() -> None:
    """An einsum over heads: the second dim of the product is two dims of the weight."""
    x, w = buffer("x", Role.INPUT, 5, 128), buffer("w", Role.INPUT, 128, 4, 32)
    op = product("mm", 5, 128, 128, "x", Access("w", 0, (0, 1, 128), "float16"), "out")
    program = Program("einsum", (x, w, buffer("out", Role.OUTPUT, 5, 128)), (op,))
    (layout,) = preferred(program, "w").values()
    assert layout == SpyreTensorLayout([128, 128], [128, 1], "float16", [0, 1])


def test_a_weight_that_is_looked_up_as_well_stays() -> None:
    index = Buffer("index", "int64", (5,), (1,), Role.INPUT, SpyreTensorLayout([5], "int64"))
    w = buffer("w", Role.INPUT, 320, 128)
    rows = Op("rows", "gather", (Dim("i", 5), Dim("d", 128), Dim("index", 320)),
              (Access("w", 0, (0, 1, 128), "float16"), Access("index", 0, (1, 0, 0), "int64")),
              (Access("x", 0, (128, 1, 0), "float16"),))  # fmt: skip
    head = product("head", 5, 320, 128, "x", Access("w", 0, (0, 128, 1), "float16"), "out")
    buffers = (index, w, buffer("x", Role.TEMP, 5, 128), buffer("out", Role.OUTPUT, 5, 320))
    assert preferred(Program("tied", buffers, (rows, head)), "w") == {}


def test_a_table_that_is_looked_up_alone_lies_row_by_row() -> None:
    index = Buffer("index", "int64", (5,), (1,), Role.INPUT, SpyreTensorLayout([5], "int64"))
    rows = Op("rows", "gather", (Dim("i", 5), Dim("d", 128), Dim("index", 320, reduced=True)),
              (Access("w", 0, (0, 1, 128), "float16"), Access("index", 0, (1, 0, 0), "int64")),
              (Access("x", 0, (128, 1, 0), "float16"),))  # fmt: skip
    table, out = buffer("w", Role.INPUT, 320, 128), buffer("x", Role.OUTPUT, 5, 128)
    (layout,) = preferred(Program("lookup", (index, table, out), (rows,)), "w").values()
    assert list(layout.device_size) == [320, 2, 64]
    laid = replace(table, layout=layout)
    lowered = pipeline.run(Program("lookup", (index, laid, out), (rows,)), verify=True)
    assert [op.row for op in lowered.ops] == ["gather"]


def test_a_large_weight_is_not_tiled_into_padding() -> None:
    x, w = buffer("x", Role.INPUT, 5, 1 << 16), buffer("w", Role.INPUT, 9, 1 << 16)
    op = product("mm", 5, 9, 1 << 16, "x", Access("w", 0, (0, 1 << 16, 1), "float16"), "out")
    assert preferred(Program("narrow", (x, w, buffer("out", Role.OUTPUT, 5, 9)), (op,)), "w") == {}


def test_what_is_read_and_never_written_lies_by_the_rule() -> None:
    """torch.empty that somebody computes with."""
    empty = replace(buffer("empty", Role.TEMP, 3, 70), unset=True)
    whole = Access("empty", 0, (70, 1), "float16")
    op = Op("neg", "neg", (Dim("i", 3), Dim("j", 70)), (whole,), (whole.on("out"),))
    chosen = ChooseLayouts().run(Program("unset", (empty, buffer("out", Role.OUTPUT, 3, 70)), (op,)))
    assert chosen.buffer("empty").layout == default_layout(empty)


def test_what_an_op_by_element_reads_is_flat_even_if_sums_fill_it() -> None:
    """Sums along sticks lie one to a stick otherwise."""
    x, total, running = buffer("x", Role.INPUT, 70, 64), buffer("total", Role.TEMP, 70), buffer("out", Role.OUTPUT, 70)
    sums = Op("sum", "sum", (Dim("i", 70), Dim("j", 64, reduced=True)), (Access("x", 0, (64, 1), "float16"),),
              (Access("total", 0, (1, 0), "float16"),))  # fmt: skip
    scan = Op("scan", "cumsum", (Dim("rows", 1), Dim("row", 70)), (Access("total", 0, (70, 1), "float16"),),
              (Access("out", 0, (70, 1), "float16"),))  # fmt: skip
    chosen = ChooseLayouts().run(Program("running", (x, total, running), (sums, scan)))
    assert chosen.buffer("total").layout == default_layout(total)


def test_a_result_that_nobody_writes_lies_by_the_rule() -> None:
    """torch.empty that a later launch fills: it is an argument of the bundle, so it has to lie somehow."""
    empty = replace(buffer("empty", Role.OUTPUT, 3, 70), unset=True)
    whole = Access("x", 0, (70, 1), "float16")
    op = Op("neg", "neg", (Dim("i", 3), Dim("j", 70)), (whole,), (whole.on("out"),))
    buffers = (buffer("x", Role.INPUT, 3, 70), buffer("out", Role.OUTPUT, 3, 70), empty)
    lowered = pipeline.run(Program("unset", buffers, (op,)), verify=True)
    assert lowered.buffer("empty").layout == default_layout(empty)
