"""Small programs through our compiler, at least one for every kind of step: bundles that fuzzing mutates and tests start from."""

from __future__ import annotations

from functools import cache

import numpy as np

from openspyre.artifact.emitted import Emitted
from openspyre.compiler import ir, pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.origin import Origin
from openspyre.spec.planning import Planning

IN_MEMORY = Planning(scratchpads=False)  # so that every kind of step has operands in memory
OUTPUT, TEMP, UPDATE = ir.Role.OUTPUT, ir.Role.TEMP, ir.Role.UPDATE


def buffer(
    name: str, size: tuple[int, ...], role: ir.Role = ir.Role.INPUT, dtype: str = "float16", *, sparse: bool = False
) -> ir.Buffer:
    """A dense tensor, its last dim on the stick; `sparse`: one value per stick. Layouts of temps are the compiler's."""
    order = [*range(len(size)), *([-1] if sparse else [])]
    layout = None if role is TEMP else SpyreTensorLayout(size, dtype, order)
    return ir.Buffer(name, dtype, size, row_major(size), role, layout)


def at(of: ir.Buffer, *strides: int, offset: int = 0) -> ir.Access:
    """A buffer by host strides; all of it, row by row, if none are given."""
    return ir.Access(of.name, offset, strides or of.stride, of.dtype)


def dims(*sizes: int, reduced: tuple[int, ...] = ()) -> tuple[ir.Dim, ...]:
    return tuple(ir.Dim(f"d{i}", size, reduced=i in reduced) for i, size in enumerate(sizes))


def compiled(program: ir.Program) -> Emitted:
    return emit_bundle(pipeline.run(program, planning=IN_MEMORY, verify=True))


def pointwise() -> Emitted:
    """(x + s) twice, s a row, then times a number of the launch's."""
    x, s, out = buffer("x", (96, 320)), buffer("s", (320,)), buffer("out", (96, 320), OUTPUT)
    first, second = (buffer(name, (96, 320), TEMP) for name in ("t0", "t1"))
    slope, space = ir.Scalar("slope", "float16"), dims(96, 320)
    ops = (
        ir.Op("add_0", "add", space, (at(x), at(s, 0, 1)), (at(first),)),
        ir.Op("add_1", "add", space, (at(first), at(s, 0, 1)), (at(second),), origin=Origin("model.py", 7)),
        ir.Op("scaled", "mul", space, (at(second), slope), (at(out),)),
    )
    return compiled(ir.Program("pointwise", (x, s, out, first, second), ops, (slope,)))


def ramp() -> Emitted:
    """x + a row that the bundle brings."""
    x, out = buffer("x", (96, 320)), buffer("out", (96, 320), OUTPUT)
    values = np.arange(320, dtype=np.float16).tobytes()
    row = ir.Buffer(
        "row", "float16", (320,), (1,), ir.Role.CONSTANT, SpyreTensorLayout([320], "float16"), values=values
    )
    add = ir.Op("add_0", "add", dims(96, 320), (at(x), at(row, 0, 1)), (at(out),))
    return compiled(ir.Program("ramp", (x, out, row), (add,)))


def row_sums() -> Emitted:
    """A sum along the stick, over an unaligned dim, into one value per stick."""
    x, out = buffer("x", (128, 200)), buffer("out", (128,), OUTPUT, sparse=True)
    op = ir.Op("sum_0", "sum", dims(128, 200, reduced=(1,)), (at(x),), (at(out, 1, 0),))
    return compiled(ir.Program("row_sums", (x, out), (op,)))


def _product(name: str, m: int, n: int, k: int, *, along_k: bool = False, dtype: str = "float16") -> Emitted:
    b_size = (n, k) if along_k else (k, n)
    a, b, out = buffer("a", (m, k), dtype=dtype), buffer("b", b_size, dtype=dtype), buffer("out", (m, n), OUTPUT, dtype)
    right = at(b, 0, k, 1) if along_k else at(b, 0, 1, n)
    op = ir.Op("mm_0", "batchmatmul", dims(m, n, k, reduced=(2,)), (at(a, k, 0, 1), right), (at(out, n, 1, 0),))
    return compiled(ir.Program(name, (a, b, out), (op,)))


def matmul() -> Emitted:
    return _product("matmul", 64, 128, 192)


def scores() -> Emitted:
    """a @ b.t(): the second operand's sticks run along k too, so it is turned first."""
    return _product("scores", 64, 100, 192, along_k=True)


def unaligned_product() -> Emitted:
    """Rows of zeros behind the second operand, and a mask where k ends."""
    return _product("unaligned_product", 5, 9, 70)


def wide_product() -> Emitted:
    """In float32, which the matrix unit does not take: an extension."""
    return _product("wide_product", 32, 64, 256, dtype="float32")


def transposed(dtype: str = "float16") -> Emitted:
    """A relayout: the transpose of a matrix, written densely."""
    x, out = buffer("x", (64, 128), dtype=dtype), buffer("out", (128, 64), OUTPUT, dtype)
    op = ir.Op("move_0", "relayout", dims(128, 64), (at(x, 1, 128),), (at(out),))
    return compiled(ir.Program("transposed", (x, out), (op,)))


def turned() -> Emitted:
    """The same from integers to halves: the hardware moves or converts, the DMA does both."""
    x, out = buffer("x", (64, 128), dtype="int64"), buffer("out", (128, 64), OUTPUT)
    op = ir.Op("move_0", "relayout", dims(128, 64), (at(x, 1, 128),), (at(out),))
    return compiled(ir.Program("turned", (x, out), (op,)))


def normalised() -> Emitted:
    """Mean and mean of squares along the stick, side by side in one, and what scales by them: its eps is a constant."""
    x, scale = buffer("x", (96, 200)), buffer("scale", (96,), OUTPUT, "float32", sparse=True)
    layout = SpyreTensorLayout([96, 2], [2, 1], "float32", [0, 1], ElementArrangement.EXX2)
    pair = ir.Buffer("pair", "float32", (96, 2), (2, 1), OUTPUT, layout)
    sides = at(pair, 2, 0), at(pair, 2, 0, offset=1)
    alone = at(pair, 2), at(pair, 2, offset=1)
    ops = (
        ir.Op("moments_0", "exx2", dims(96, 200, reduced=(1,)), (at(x),), sides),
        ir.Op("scale_0", "layernormscale", dims(96), (*alone, ir.Constant.of(1e-5, "float32")), (at(scale),)),
    )
    return compiled(ir.Program("normalised", (x, pair, scale), ops))


def gathered() -> Emitted:
    """Rows of a table by an index: the last dim is the one the index counts along."""
    table, index, out = (
        buffer("table", (40, 200)),
        buffer("index", (96,), dtype="int64"),
        buffer("out", (96, 200), OUTPUT),
    )
    inputs = at(table, 0, 1, 200), at(index, 1, 0, 0)
    op = ir.Op("gather_0", "gather", dims(96, 200, 40, reduced=(2,)), inputs, (at(out, 200, 1, 0),))
    return compiled(ir.Program("gathered", (table, index, out), (op,)))


def counted() -> Emitted:
    """start + place * step: an iota and two numbers of the launch, no tensor read."""
    out, numbers = (
        buffer("out", (300,), OUTPUT, "float32"),
        (ir.Scalar("start", "float32"), ir.Scalar("step", "float32")),
    )
    op = ir.Op("arange_0", "arange", dims(300), (ir.Iota(0, (1,)), *numbers), (at(out),))
    return compiled(ir.Program("counted", (out,), (op,), numbers))


def drawn() -> Emitted:
    """Random numbers, from a seed and an offset that the launch brings."""
    words = [ir.Scalar(name, "int32") for name in ("seed_low", "seed_high", "offset_low", "offset_high")]
    numbers = (*words, ir.Scalar("from", "float32"), ir.Scalar("to", "float32"))
    out = buffer("out", (3, 50), OUTPUT, "float32")
    op = ir.Op("draw", "uniform", dims(3, 50), (ir.Iota(0, (50, 1)), *numbers), (at(out),))
    return compiled(ir.Program("drawn", (out,), (op,), numbers))


def chosen() -> Emitted:
    """Truth values and integers: a comparison, a selection by it, the place of the largest, alone and with its value."""
    x, y = buffer("x", (8, 100), dtype="int64"), buffer("y", (8, 100), dtype="int64")
    less, small = buffer("less", (8, 100), TEMP, "bool"), buffer("small", (8, 100), OUTPUT, "int64")
    best, most, where = (buffer(name, (8,), OUTPUT, "int64", sparse=True) for name in ("best", "most", "where"))
    space, folded = dims(8, 100), dims(8, 100, reduced=(1,))
    ops = (
        ir.Op("lt_0", "lt", space, (at(x), at(y)), (at(less),)),
        ir.Op("where_0", "where", space, (at(less), at(x), at(y)), (at(small),)),
        ir.Op("argmax_0", "argmax", folded, (at(small),), (at(best, 1, 0),)),
        ir.Op("max_0", "max_index", folded, (at(small),), (at(most, 1, 0), at(where, 1, 0))),
    )
    return compiled(ir.Program("chosen", (x, y, small, best, most, where, less), ops))


def picked() -> Emitted:
    """Elements along a table's sticks: every lane has an index of its own."""
    table, index, out = buffer("table", (300,)), buffer("index", (500,), dtype="int32"), buffer("out", (500,), OUTPUT)
    inputs = at(table, 0, 1), at(index, 1, 0)
    op = ir.Op("gather_0", "gather", dims(500, 300, reduced=(1,)), inputs, (at(out, 1, 0),))
    return compiled(ir.Program("picked", (table, index, out), (op,)))


def scattered() -> Emitted:
    """Rows set and then added to through an index, in a tensor that is updated."""
    target, values = buffer("target", (40, 200), UPDATE), buffer("values", (16, 200))
    index = buffer("index", (16,), dtype="int64")
    inputs, rows = (at(values, 200, 1, 0), at(index, 1, 0, 0)), (at(target, 0, 1, 200),)
    space = dims(16, 200, 40, reduced=(2,))
    ops = tuple(ir.Op(f"{row}_0", row, space, inputs, rows) for row in ("scatter", "scatter_add"))
    return compiled(ir.Program("scattered", (target, values, index), ops))


def added_elements() -> Emitted:
    """Elements of a flat tensor, added to one by one."""
    target, values = buffer("target", (700,), UPDATE, "float32"), buffer("values", (300,), dtype="float32")
    index = buffer("index", (300,), dtype="int64")
    inputs = at(values, 1, 0), at(index, 1, 0)
    op = ir.Op("add_0", "scatter_add_elements", dims(300, 700, reduced=(1,)), inputs, (at(target, 0, 1),))
    return compiled(ir.Program("added_elements", (target, values, index), (op,)))


def running() -> Emitted:
    """Running sums of rows, then the rows in order: the first ten of each and where they were."""
    x, sums = buffer("x", (4 * 150,)), buffer("sums", (4 * 150,), OUTPUT)
    first, places = buffer("first", (4 * 10,), OUTPUT), buffer("places", (4 * 10,), OUTPUT, "int64")
    ops = (
        ir.Op("cumsum_0", "cumsum", dims(4, 150), (at(x, 150, 1),), (at(sums, 150, 1),)),
        ir.Op("sort_0", "largest_first", dims(4, 150, 10), (at(sums, 150, 1, 0),), (at(first, 10, 0, 1), at(places, 10, 0, 1))),
    )  # fmt: skip
    return compiled(ir.Program("running", (x, sums, first, places), ops))


def chained() -> Emitted:
    """What fusion takes together: a map, a maximum of its rows, taken off, its copy in another dtype, read as other bits."""
    x, out = buffer("x", (24, 130)), buffer("out", (24, 130), OUTPUT)
    copy, codes = buffer("copy", (24, 130), OUTPUT, "float32"), buffer("codes", (24, 130), OUTPUT, "int32")
    scaled, top = buffer("scaled", (24, 130), TEMP), buffer("top", (24,), TEMP)
    space = dims(24, 130)
    bits = ir.Access("copy", 0, (130, 1), "int32")
    ops = (
        ir.Op("mul_0", "mul", space, (at(x), at(x)), (at(scaled),)),
        ir.Op("amax_0", "amax", dims(24, 130, reduced=(1,)), (at(scaled),), (at(top, 1, 0),)),
        ir.Op("sub_0", "sub", space, (at(scaled), at(top, 1, 0)), (at(out),)),
        ir.Op("move_0", "relayout", space, (at(out),), (at(copy),)),
        ir.Op("move_1", "relayout", space, (bits,), (at(codes),)),
    )
    return compiled(ir.Program("chained", (x, out, copy, codes, scaled, top), ops))


def functions() -> Emitted:
    """A slice that begins within a stick, a number, a fold with a mask, a function that the hardware has not."""
    x, y, z = buffer("x", (8, 200)), buffer("y", (4, 100), OUTPUT), buffer("z", (4,), OUTPUT)
    t, number, space = buffer("t", (4, 100), TEMP), ir.Scalar("s", "float16"), dims(4, 100)
    ops = (
        ir.Op("mul", "mul", space, (at(x, 200, 1, offset=203), number), (at(t),)),
        ir.Op("sin", "sin", space, (at(t),), (at(y),)),
        ir.Op("max", "amax", dims(4, 100, reduced=(1,)), (at(t),), (at(z, 1, 0),)),
    )
    return compiled(ir.Program("functions", (x, y, z, t), ops, (number,)))


SAMPLES = (
    pointwise, ramp, row_sums, matmul, scores, unaligned_product, wide_product, transposed, turned, normalised, gathered,
    counted, drawn, chosen, picked, scattered, added_elements, running, chained, functions,
)  # fmt: skip


@cache
def samples() -> tuple[Emitted, ...]:
    """One or more for every kind of step and of record."""
    return tuple(make() for make in SAMPLES)
