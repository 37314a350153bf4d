"""Tiles of ops that reach too far: the documents' worked examples, which ops share a loop, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.compiler import ir
from openspyre.compiler.loops import listed
from openspyre.compiler.passes.tile_ops import TileOps
from openspyre.compiler.tiling.groups import Untileable
from openspyre.compiler.tiling.span_overflow import Cuts, SpanTiles
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.machine import SPYRE

LIMIT = SPYRE.max_span_bytes_per_core_and_tensor


def buffer(name: str, size: tuple[int, ...], role: ir.Role) -> ir.Buffer:
    layout = SpyreTensorLayout(list(size), "float16")
    return ir.Buffer(name, "float16", size, row_major(size), role, layout)


def op(name: str, row: str, size: tuple[int, ...], *inputs: str, reduced: int | None = None) -> ir.Op:
    dims = tuple(ir.Dim(f"d{d}", n, reduced=d == reduced) for d, n in enumerate(size))
    kept = iter(row_major([n for d, n in enumerate(size) if d != reduced]))
    strides = tuple(0 if d == reduced else next(kept) for d in range(len(size)))
    reads = tuple(ir.Access(one, 0, row_major(size), "float16") for one in inputs)
    return ir.Op(name, row, dims, reads, (ir.Access(name, 0, strides, "float16"),))


def cuts(given: ir.Op, buffers: tuple[ir.Buffer, ...], limit: int) -> Cuts | None:
    return SpanTiles(limit, {one.name: one for one in buffers}).cuts(given)


def test_the_sum_of_two_tensors_of_the_documents() -> None:
    size = (1, 8195, 256, 64)
    buffers = tuple(buffer(name, size, ir.Role.INPUT) for name in "xyz")
    assert cuts(op("z", "add", size, "x", "y"), buffers, LIMIT) == ((1, 5),)
    within = tuple(buffer(name, (1, 8190, 256, 64), ir.Role.INPUT) for name in "xyz")
    assert cuts(op("z", "add", (1, 8190, 256, 64), "x", "y"), within, LIMIT) is None


def test_the_reduction_of_the_documents() -> None:
    """Its result lies as its operand does, without the dim that is gone. A tile keeps two rows: 20 tiles of one would also do."""
    size = (2, 20, 16, 64)
    lies = SpyreTensorLayout([20, 16, 1, 64], [1024, 64, 64, 1], buffer("z", size, ir.Role.INPUT).layout.device_dtype)  # type: ignore[union-attr]
    z = replace(buffer("z", size[1:], ir.Role.OUTPUT), layout=lies)
    total = op("z", "sum", size, "x", reduced=0)
    assert cuts(total, (buffer("x", size, ir.Role.INPUT), z), 10_000) == ((1, 10),)
    assert cuts(total, (buffer("x", size, ir.Role.INPUT), z), 16_384) == ((1, 5),)


def test_a_product_that_reaches_too_far_along_k_is_cut_there() -> None:
    m, n, k = 16, 64, 1 << 10
    dims = (ir.Dim("m", m), ir.Dim("n", n), ir.Dim("k", k, reduced=True))
    a, b = ir.Access("a", 0, (k, 0, 1), "float16"), ir.Access("b", 0, (0, 1, n), "float16")
    product = ir.Op("z", "batchmatmul", dims, (a, b), (ir.Access("z", 0, (n, 1, 0), "float16"),))
    sizes = {"a": (m, k), "b": (k, n), "z": (m, n)}
    buffers = tuple(buffer(name, size, ir.Role.INPUT) for name, size in sizes.items())
    assert cuts(product, buffers, k * 128 - 1) == ((2, 2),)
    assert cuts(product, buffers, k * 128 // 4) == ((2, 4),)


SIZE = (8, 64, 64)  # 64 KiB, d1 outside
CHAIN = ir.Program(
    "chain",
    (
        buffer("x", SIZE, ir.Role.INPUT),
        replace(buffer("t", SIZE, ir.Role.TEMP), layout=None),
        replace(buffer("z", SIZE, ir.Role.OUTPUT), layout=None),
    ),
    (op("t", "exp", SIZE, "x"), op("z", "neg", SIZE, "t")),
)


def shown(program: ir.Program) -> list[object]:
    assert Verifier().problems(program) == []
    found: list[object] = []
    for node in program.body:
        names = [each.name for each, _ in listed((node,))]
        found.append((node.count, *names) if isinstance(node, ir.Loop) else names[0])
    return found


def test_neighbours_that_are_cut_alike_share_a_loop() -> None:
    """Tiles are read where they are; what leaves the loop is copied out."""
    found = TileOps(span_limit=1 << 15).run(CHAIN)
    assert shown(found) == [(2, "t", "z", "z.copy_out2")]
    assert found.buffer("t").size == (8, 32, 64)
    assert TileOps(span_limit=1 << 16).run(CHAIN) is CHAIN


def test_a_sum_joins_the_loop_and_closes_it() -> None:
    y = ir.Buffer("y", "float16", SIZE[1:], row_major(SIZE[1:]), ir.Role.OUTPUT)
    total = op("y", "sum", SIZE, "t", reduced=0)
    program = replace(CHAIN, buffers=(*CHAIN.buffers, y), body=(CHAIN.ops[0], total, CHAIN.ops[1]))
    assert shown(TileOps(span_limit=1 << 15).run(program)) == [
        (2, "t", "t.copy_out1", "y", "y.copy_out3"), (2, "z", "z.copy_out1"),
    ]  # fmt: skip


def test_what_reads_other_tiles_has_a_loop_of_its_own() -> None:
    """The second op reads the first one's result backwards along the dim that is cut."""
    back = replace(CHAIN.ops[1], inputs=(ir.Access("t", 63 * 64, (4096, -64, 1), "float16"),))
    found = TileOps(span_limit=1 << 15).run(replace(CHAIN, body=(CHAIN.ops[0], back)))
    assert shown(found) == [(2, "t", "t.copy_out1"), (2, "z", "z.copy_out1")]


def test_hints_of_the_user_win() -> None:
    hint = ir.Hint(0, tiles=("D", 4))
    named = tuple(replace(dim, named=("D",) if d == 0 else ()) for d, dim in enumerate(CHAIN.ops[0].dims))
    first = replace(CHAIN.ops[0], dims=named, hints=(hint,))
    found = TileOps(span_limit=1 << 15).run(replace(CHAIN, body=(first, CHAIN.ops[1])))
    assert shown(found)[0] == (4, "x.read_copy0_0", "t", "t.copy_out2") and shown(found)[1] == (2, "z", "z.copy_out1")


def test_what_no_tiles_help_is_refused_with_a_way_out() -> None:
    size = (8, 67, 64)
    sizes = tuple(buffer(name, size, ir.Role.INPUT) for name in "xz")
    with pytest.raises(
        Untileable, match=r"z \(neg\): a core would reach 68608 bytes of 'z'.*d1 67.*IGNORE_SPAN_OVERFLOW"
    ) as error:
        cuts(op("z", "neg", size, "x"), sizes, 1 << 9)
    assert "limit is 512" in str(error.value)
