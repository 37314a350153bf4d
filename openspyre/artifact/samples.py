"""Small valid bundles, written by hand: what fuzzing mutates and tests start from."""

from __future__ import annotations

from openspyre.artifact.model import (
    Buffer,
    Bundle,
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
    """A layer norm with weight and bias along the stick, whose eps is an attribute."""
    x, out = buffer("x", (96, 200), Role.INPUT), buffer("out", (96, 200), Role.OUTPUT)
    weight, bias = (buffer(name, (200,), Role.INPUT) for name in ("weight", "bias"))
    sizes = (96, 200)
    dims = (Dim("i", 96, 32), Dim("j", 200, reduced=True))
    whole, along = walk(x, (200, 1), sizes), walk(weight, (0, 1), sizes)
    op = Description("layer_norm", dims, (whole, along, along), (whole,), (("eps", 1e-5), ("affine", "wb")))
    return Bundle("normalised", (x, weight, bias, out), (op,), (Execution("norm_0", 0, _at(x, weight, bias, out)),))


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


def samples() -> tuple[Bundle, ...]:
    return pointwise(), row_sums(), matmul(), scores(), transposed(), normalised(), gathered(), counted()
