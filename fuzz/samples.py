"""Small valid bundles, written by hand: what fuzzing mutates and tests start from."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from openspyre.artifact.model import (
    Buffer,
    Bundle,
    Constant,
    Description,
    Dim,
    Execution,
    HostView,
    Iota,
    Lanes,
    Place,
    Role,
    Scalar,
    ScalarSlot,
    Tensor,
)
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout


def buffer(
    name: str,
    size: tuple[int, ...],
    role: Role,
    dtype: str = "float16",
    place: int | None = None,
    *,
    sparse: bool = False,
) -> Buffer:
    """A dense tensor, its last dim on the stick; `sparse`: one value per stick."""
    order = [*range(len(size)), *([-1] if sparse else [])]
    return Buffer(name, dtype, size, row_major(size), role, SpyreTensorLayout(size, dtype, order), place)


def walk(of: Buffer, host_strides: tuple[int, ...], sizes: tuple[int, ...], *, view: bool = False) -> Tensor:
    """The tensor an op sees that walks a buffer by these host strides; the dim of stride 1 runs along the sticks."""
    addressing = of.layout.addressing(of.size, of.stride)
    lanes = of.layout.elems_per_stick()
    sparse = of.layout.stride_map[-1] == -1
    strides, lane_dim = [], None
    for dim, (stride, size) in enumerate(zip(host_strides, sizes, strict=True)):
        if stride == 1 and not sparse:
            lane_dim = dim
            strides.append(addressing.device_offset(lanes) if size > lanes else 0)
        else:
            strides.append(addressing.device_offset(stride) if stride and size > 1 else 0)
    host = HostView(of.dtype, of.size, of.stride, 0, host_strides) if view else None
    kind = Lanes.SPLAT if lane_dim is None else Lanes.VECTOR
    return Tensor(of.dtype, of.layout, kind, lane_dim, tuple(strides), host)


def _at(*buffers: Buffer) -> tuple[Place, ...]:
    return tuple(Place(buffer.name, 0) for buffer in buffers)


def pointwise() -> Bundle:
    """(x + s) twice, s a row, then leaky_relu with a slope of the launch's: two of three ops share a description."""
    x, s = buffer("x", (96, 320), Role.INPUT), buffer("s", (320,), Role.INPUT)
    out = buffer("out", (96, 320), Role.OUTPUT)
    first, second = (buffer(n, (96, 320), Role.TEMP, place=p) for n, p in (("t0", 0), ("t1", 61440)))
    sizes = (96, 320)
    dims = (Dim("i", 96, 24), Dim("j", 320))
    whole, row = walk(x, (320, 1), sizes), walk(s, (0, 1), sizes)
    add = Description("add", dims, (whole, row), (whole,))
    leaky = Description("leaky_relu", dims, (whole, ScalarSlot("float16")), (whole,))
    return Bundle(
        "pointwise",
        (x, s, out, first, second),
        (add, leaky),
        (
            Execution("add_0", 0, _at(x, s, first)),
            Execution("add_1", 0, _at(first, s, second), origin="model.py:7"),
            Execution("leaky", 1, _at(second, out), ("slope",)),
        ),
        (Scalar("slope", "float16"),),
        2 * 61440,
    )


def row_sums() -> Bundle:
    """A sum along the stick, over an unaligned dim, into one value per stick."""
    x, out = buffer("x", (128, 200), Role.INPUT), buffer("out", (128,), Role.OUTPUT, sparse=True)
    sizes = (128, 200)
    dims = (Dim("i", 128, 32), Dim("j", 200, reduced=True))
    op = Description("sum", dims, (walk(x, (200, 1), sizes),), (walk(out, (1, 0), sizes),))
    return Bundle("row_sums", (x, out), (op,), (Execution("sum_0", 0, _at(x, out)),))


def matmul() -> Bundle:
    """a @ b, both dense, over 8 cores."""
    a, b = buffer("a", (64, 192), Role.INPUT), buffer("b", (192, 128), Role.INPUT)
    out = buffer("out", (64, 128), Role.OUTPUT)
    sizes = (64, 128, 192)
    dims = (Dim("m", 64, 4), Dim("n", 128, 2), Dim("k", 192, reduced=True))
    tensors = walk(a, (192, 0, 1), sizes), walk(b, (0, 1, 128), sizes), walk(out, (128, 1, 0), sizes)
    op = Description("batchmatmul", dims, tensors[:2], tensors[2:])
    return Bundle("matmul", (a, b, out), (op,), (Execution("mm_0", 0, _at(a, b, out)),))


def scores() -> Bundle:
    """a @ b.t(): the second operand's sticks run along k too."""
    a, b = buffer("a", (64, 192), Role.INPUT), buffer("b", (100, 192), Role.INPUT)
    out = buffer("out", (64, 100), Role.OUTPUT)
    sizes = (64, 100, 192)
    dims = (Dim("m", 64, 4), Dim("n", 100, 2), Dim("k", 192, reduced=True))
    tensors = walk(a, (192, 0, 1), sizes), walk(b, (0, 192, 1), sizes), walk(out, (100, 1, 0), sizes)
    op = Description("batchmatmul", dims, tensors[:2], tensors[2:])
    return Bundle("scores", (a, b, out), (op,), (Execution("scores_0", 0, _at(a, b, out)),))


def transposed() -> Bundle:
    """A relayout: the transpose of a matrix, written densely."""
    x, out = buffer("x", (64, 128), Role.INPUT), buffer("out", (128, 64), Role.OUTPUT)
    sizes = (128, 64)
    source, target = walk(x, (1, 128), sizes, view=True), walk(out, (64, 1), sizes, view=True)
    op = Description("relayout", (Dim("i", 128), Dim("j", 64)), (source,), (target,))
    return Bundle("transposed", (x, out), (op,), (Execution("move_0", 0, _at(x, out)),))


def normalised() -> Bundle:
    """Mean and mean of squares along the stick, side by side in one, and what scales by them: its eps is a constant."""
    x, scale = buffer("x", (96, 200), Role.INPUT), buffer("scale", (96,), Role.OUTPUT, "float32", sparse=True)
    layout = SpyreTensorLayout([96, 2], [2, 1], "float32", [0, 1], ElementArrangement.EXX2)
    pair = Buffer("pair", "float32", (96, 2), (2, 1), Role.OUTPUT, layout)
    dims = (Dim("i", 96, 32), Dim("j", 200, reduced=True))
    each = Tensor("float32", layout, Lanes.SPLAT, None, (32, 0))
    moments = Description("exx2", dims, (walk(x, (200, 1), (96, 200)),), (each, each))
    alone = replace(each, strides=(32,))
    eps = Constant(0x3727C5AC, "float32")
    scaling = Description("layernormscale", dims[:1], (alone, alone, eps), (walk(scale, (1,), (96,)),))
    sides = Place("pair", 0), Place("pair", 4)
    executions = (
        Execution("moments_0", 0, (*_at(x), *sides)),
        Execution("scale_0", 1, (*sides, *_at(scale))),
    )
    return Bundle("normalised", (x, pair, scale), (moments, scaling), executions)


def gathered() -> Bundle:
    """Rows of a table by an index: the last dim is the one the index counts along."""
    table, out = buffer("table", (40, 200), Role.INPUT), buffer("out", (96, 200), Role.OUTPUT)
    index = buffer("index", (96,), Role.INPUT, "int64", sparse=True)
    sizes = (96, 200, 40)
    dims = (Dim("i", 96, 24), Dim("j", 200), Dim("row", 40, reduced=True))
    inputs = walk(table, (0, 1, 200), sizes), walk(index, (1, 0, 0), sizes)
    op = Description("gather", dims, inputs, (walk(out, (200, 1, 0), sizes),))
    return Bundle("gathered", (table, index, out), (op,), (Execution("gather_0", 0, _at(table, index, out)),))


def counted() -> Bundle:
    """start + place * step: an iota and two launch scalars, no tensor read."""
    out = buffer("out", (300,), Role.OUTPUT, "float32")
    slots = (ScalarSlot("float32"), ScalarSlot("float32"))
    op = Description("arange", (Dim("i", 300),), (Iota(0, (1,)), *slots), (walk(out, (1,), (300,)),))
    scalars = (Scalar("start", "float32"), Scalar("step", "float32"))
    return Bundle("counted", (out,), (op,), (Execution("arange_0", 0, _at(out), ("start", "step")),), scalars)


def split_reduction() -> Bundle:
    """A matmul whose k is divided over cores, in float32, and the mean of what it gives, divided too."""
    a, b = buffer("a", (32, 256), Role.INPUT, "float32"), buffer("b", (256, 64), Role.INPUT, "float32")
    product, out = buffer("product", (32, 64), Role.TEMP, "float32", 0), buffer("out", (64,), Role.OUTPUT, "float32")
    sizes = (32, 64, 256)
    dims = (Dim("m", 32, 2), Dim("n", 64, 2), Dim("k", 256, 4, reduced=True))
    tensors = walk(a, (256, 0, 1), sizes), walk(b, (0, 1, 64), sizes), walk(product, (64, 1, 0), sizes)
    contraction = Description("batchmatmul", dims, tensors[:2], tensors[2:])
    folded = (Dim("m", 32, 4, reduced=True), Dim("n", 64, 2))
    mean = Description("mean", folded, (walk(product, (64, 1), (32, 64)),), (walk(out, (0, 1), (32, 64)),))
    executions = Execution("mm_0", 0, _at(a, b, product)), Execution("mean_0", 1, _at(product, out))
    return Bundle("split_reduction", (a, b, out, product), (contraction, mean), executions, pool_bytes=8192)


def chosen() -> Bundle:
    """Truth values and integers: a comparison, a selection by it, the place of the largest, alone and with its value."""
    x, y = buffer("x", (8, 100), Role.INPUT, "int64"), buffer("y", (8, 100), Role.INPUT, "int64")
    less = buffer("less", (8, 100), Role.TEMP, "bool", 0)
    small, best = (
        buffer("small", (8, 100), Role.OUTPUT, "int64"),
        buffer("best", (8,), Role.OUTPUT, "int64", sparse=True),
    )
    most, where = (buffer(name, (8,), Role.OUTPUT, "int64", sparse=True) for name in ("most", "where"))
    sizes = (8, 100)
    dims = (Dim("i", 8, 4), Dim("j", 100))
    of = {b.name: walk(b, (100, 1), sizes) for b in (x, y, less, small)}
    folded, each = (dims[0], Dim("j", 100, reduced=True)), walk(best, (1, 0), sizes)
    ops = (
        Description("lt", dims, (of["x"], of["y"]), (of["less"],)),
        Description("where", dims, (of["less"], of["x"], of["y"]), (of["small"],)),
        Description("argmax", folded, (of["small"],), (each,)),
        Description("max_index", folded, (of["small"],), (each, each)),
    )
    executions = (
        Execution("lt_0", 0, _at(x, y, less)),
        Execution("where_0", 1, _at(less, x, y, small)),
        Execution("argmax_0", 2, _at(small, best)),
        Execution("max_0", 3, _at(small, most, where)),
    )
    return Bundle("chosen", (x, y, small, best, most, where, less), ops, executions, pool_bytes=4096)


def picked() -> Bundle:
    """Elements along a table's sticks: every lane has an index of its own."""
    table, out = buffer("table", (300,), Role.INPUT), buffer("out", (500,), Role.OUTPUT)
    index = buffer("index", (500,), Role.INPUT, "int32")
    sizes = (500, 300)
    inputs = walk(table, (0, 1), sizes), walk(index, (1, 0), sizes)
    op = Description("gather", (Dim("i", 500, 2), Dim("at", 300, reduced=True)), inputs, (walk(out, (1, 0), sizes),))
    return Bundle("picked", (table, index, out), (op,), (Execution("gather_0", 0, _at(table, index, out)),))


def scattered() -> Bundle:
    """Rows set and then added to through an index, in a tensor that is updated."""
    target, values = buffer("target", (40, 200), Role.UPDATE), buffer("values", (16, 200), Role.INPUT)
    index = buffer("index", (16,), Role.INPUT, "int64", sparse=True)
    sizes = (16, 200, 40)
    dims = (Dim("i", 16), Dim("j", 200, 2), Dim("row", 40, reduced=True))
    inputs = walk(values, (200, 1, 0), sizes), walk(index, (1, 0, 0), sizes)
    rows = (walk(target, (0, 1, 200), sizes),)
    executions = tuple(
        Execution(f"{row}_0", n, _at(values, index, target)) for n, row in enumerate(("scatter", "scatter_add"))
    )
    ops = tuple(Description(row, dims, inputs, rows) for row in ("scatter", "scatter_add"))
    return Bundle("scattered", (target, values, index), ops, executions)


def _flat(of: Buffer, strides: tuple[int, ...]) -> Tensor:
    """A tensor of an op by elements."""
    view = HostView(of.dtype, of.size, of.stride, 0, strides)
    return Tensor(of.dtype, of.layout, Lanes.VIEW, None, (0,) * len(strides), view)


def added_elements() -> Bundle:
    """Elements of a flat tensor, added to one by one."""
    target, values = buffer("target", (700,), Role.UPDATE, "float32"), buffer("values", (300,), Role.INPUT, "float32")
    index = buffer("index", (300,), Role.INPUT, "int64")
    inputs = _flat(values, (1, 0)), _flat(index, (1, 0))
    dims = (Dim("i", 300), Dim("at", 700, reduced=True))
    op = Description("scatter_add_elements", dims, inputs, (_flat(target, (0, 1)),))
    return Bundle(
        "added_elements", (target, values, index), (op,), (Execution("add_0", 0, _at(values, index, target)),)
    )


def running() -> Bundle:
    """Running sums of rows, then the rows in order: the first ten of each and where they were."""
    x, sums = buffer("x", (4 * 150,), Role.INPUT), buffer("sums", (4 * 150,), Role.OUTPUT)
    first, places = buffer("first", (4 * 10,), Role.OUTPUT), buffer("places", (4 * 10,), Role.OUTPUT, "int64")
    scan = Description("cumsum", (Dim("i", 4), Dim("j", 150)), (_flat(x, (150, 1)),), (_flat(sums, (150, 1)),))
    dims = (Dim("i", 4), Dim("j", 150), Dim("kept", 10))
    kept = _flat(first, (10, 0, 1)), _flat(places, (10, 0, 1))
    sort = Description("largest_first", dims, (_flat(sums, (150, 1, 0)),), kept)
    executions = Execution("cumsum_0", 0, _at(x, sums)), Execution("sort_0", 1, _at(sums, first, places))
    return Bundle("running", (x, sums, first, places), (scan, sort), executions)


def chained() -> Bundle:
    """What fusion takes together: a map, a maximum of its rows, taken off, its copy in another dtype, read as other bits."""
    x, out = buffer("x", (24, 130), Role.INPUT), buffer("out", (24, 130), Role.OUTPUT)
    copy, codes = buffer("copy", (24, 130), Role.OUTPUT, "float32"), buffer("codes", (24, 130), Role.OUTPUT, "int32")
    scaled = buffer("scaled", (24, 130), Role.TEMP, place=0)
    top = buffer("top", (24,), Role.TEMP, place=24 * 3 * 128, sparse=True)
    sizes = (24, 130)
    of = {b.name: walk(b, (130, 1), sizes) for b in (x, out, scaled)}
    moved = {b.name: walk(b, (130, 1), sizes, view=True) for b in (out, copy, codes)}
    dims = (Dim("i", 24, 8), Dim("j", 130))
    bits = replace(moved["copy"], dtype="int32", bits_as=DataFormats.IEEE_INT32)
    ops = (
        Description("mul", dims, (of["x"], of["x"]), (of["scaled"],)),
        Description("amax", (dims[0], Dim("j", 130, reduced=True)), (of["scaled"],), (walk(top, (1, 0), sizes),)),
        Description("sub", dims, (of["scaled"], walk(top, (1, 0), sizes)), (of["out"],)),
        Description("relayout", (Dim("i", 24), Dim("j", 130)), (moved["out"],), (moved["copy"],)),
        Description("relayout", (Dim("i", 24), Dim("j", 130)), (bits,), (moved["codes"],)),
    )
    executions = (
        Execution("mul_0", 0, _at(x, x, scaled)),
        Execution("amax_0", 1, _at(scaled, top)),
        Execution("sub_0", 2, _at(scaled, top, out)),
        Execution("move_0", 3, _at(out, copy)),
        Execution("move_1", 4, _at(copy, codes)),
    )
    return Bundle("chained", (x, out, copy, codes, scaled, top), ops, executions, pool_bytes=24 * 4 * 128)


def ramp() -> Bundle:
    """x + a row that the bundle brings."""
    x, out = buffer("x", (96, 320), Role.INPUT), buffer("out", (96, 320), Role.OUTPUT)
    row = replace(buffer("row", (320,), Role.CONSTANT), values=np.arange(320, dtype=np.float16).tobytes())
    sizes, dims = (96, 320), (Dim("i", 96, 24), Dim("j", 320))
    whole = walk(x, (320, 1), sizes)
    add = Description("add", dims, (whole, walk(row, (0, 1), sizes)), (whole,))
    return Bundle("ramp", (x, out, row), (add,), (Execution("add_0", 0, _at(x, row, out)),))


@cache
def samples() -> tuple[Bundle, ...]:
    """One or more for every kind of step."""
    single = pointwise(), ramp(), row_sums(), matmul(), scores(), transposed(), normalised(), gathered(), counted()
    return *single, split_reduction(), chosen(), picked(), scattered(), added_elements(), running(), chained()
