"""A sum's lanes run where they would in eager mode, whatever later passes would like better."""

from dataclasses import replace

import pytest

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.choose_layouts import default_layout
from openspyre.compiler.passes.order_sums import OrderSums
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout

SIZE = (50, 70)


def summed(along: int, dtype: str = "float32", order: tuple[int, ...] = (0, 1), row: str = "sum") -> Program:
    """A tensor doubled, copied the other way round, and the copy added up along one of its dims."""
    layout = SpyreTensorLayout(list(SIZE), list(row_major(SIZE)), dtype, list(order))
    turned = SIZE[::-1]
    left = turned[1 - along]
    buffers = (
        Buffer("x", dtype, SIZE, row_major(SIZE), Role.INPUT, layout),
        Buffer("doubled", dtype, SIZE, row_major(SIZE), Role.TEMP),
        Buffer("copy", dtype, turned, row_major(turned), Role.TEMP),
        Buffer("out", dtype, (left,), (1,), Role.OUTPUT),
    )
    plain = tuple(Dim(f"d{d}", n) for d, n in enumerate(SIZE))
    x, doubled = (Access(name, 0, row_major(SIZE), dtype) for name in ("x", "doubled"))
    across = Access("copy", 0, (1, turned[1]), dtype)
    dims = tuple(Dim(f"d{d}", n, reduced=d == along) for d, n in enumerate(turned))
    kept = tuple(0 if d == along else 1 for d in range(2))
    ops = (
        Op("double", "add", plain, (x, x), (doubled,)),
        Op("turn", "relayout", plain, (doubled,), (across,)),
        Op("total", row, dims, (Access("copy", 0, row_major(turned), dtype),), (Access("out", 0, kept, dtype),)),
    )
    return Program("summed", buffers, ops)


def lanes(program: Program) -> list[bool]:
    return [dim.lanes for op in program.ops if op.name == "total" for dim in op.dims]


@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_copy_that_is_left_out_leaves_its_order(along: int, dtype: str) -> None:
    program = pipeline.run(summed(along, dtype), verify=True)
    assert lanes(program) == [False, True]  # eager's copy has its last dim on the stick
    (total,) = [op for op in program.ops if op.name == "total"]
    found = stick_access(total.accesses[0], total.dims, program.buffer(total.accesses[0].buffer))
    assert isinstance(found, StickAccess) and found.lane_dim == 1


def test_a_layout_that_was_given_is_followed() -> None:
    """The result of a tensor in another layout lies as that does (D6), and its own sum goes with it."""
    program = summed(1, order=(1, 0))
    ops = (program.ops[0], replace(program.ops[2], inputs=(Access("doubled", 0, (1, SIZE[1]), "float32"),)))
    assert lanes(OrderSums().run(replace(program, body=ops))) == [False, True]
    ops = (ops[0], replace(ops[1], inputs=(Access("doubled", 0, (SIZE[1], 1), "float32"),)))
    program = replace(summed(1), body=ops)
    assert lanes(OrderSums().run(program)) == [False, True]


@pytest.mark.parametrize(("row", "dtype"), [("amax", "float32"), ("sum", "int32")])
def test_what_has_no_order_is_left_alone(row: str, dtype: str) -> None:
    assert lanes(OrderSums().run(summed(1, dtype, row=row))) == [False, False]


def test_a_view_across_dims_keeps_its_neighbours() -> None:
    """(4, 3, 6) of a (4, 3, 2, 3) tensor meets no stick: it is moved so that the last dim, which is added up, lies along them."""
    size = (4, 3, 2, 3)
    buffers = (
        Buffer("x", "float32", size, row_major(size), Role.INPUT),
        Buffer("out", "float32", (4, 3), (3, 1), Role.OUTPUT),
    )
    buffers = (replace(buffers[0], layout=default_layout(buffers[0])), buffers[1])
    dims = (Dim("n", 4), Dim("c", 3), Dim("k", 6, reduced=True))
    op = Op("total", "sum", dims, (Access("x", 0, (18, 6, 1), "float32"),), (Access("out", 0, (3, 1, 0), "float32"),))
    assert lanes(OrderSums().run(Program("view", buffers, (op,)))) == [False, False, True]
