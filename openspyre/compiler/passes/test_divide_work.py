"""Work division of ops in their layouts: even, whole sticks, never more cores than there are, no core beyond its reach."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.planner.constraints import Undividable
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout

SIZES = st.lists(st.sampled_from([1, 2, 3, 7, 12, 32, 64, 70, 128, 4096, 11008]), min_size=1, max_size=4).map(tuple)


def pointwise(size: tuple[int, ...], dtype: str = "float16") -> Program:
    layout = SpyreTensorLayout(list(size), dtype)
    buffers = (
        Buffer("x", dtype, size, row_major(size), Role.INPUT, layout),
        Buffer("y", dtype, size, row_major(size), Role.OUTPUT, layout),
    )
    dims = tuple(Dim(f"d{i}", n) for i, n in enumerate(size))
    return Program("p", buffers, (Op("op", "neg", dims, (at("x", size, dtype),), (at("y", size, dtype),)),))


def at(name: str, size: tuple[int, ...], dtype: str = "float16") -> Access:
    return Access(name, 0, row_major(size), dtype)


def summed(size: tuple[int, ...]) -> Program:
    """The sum along the last dim."""
    kept = size[:-1]
    buffers = (
        Buffer("x", "float16", size, row_major(size), Role.INPUT, SpyreTensorLayout(list(size), "float16")),
        Buffer("y", "float16", kept, row_major(kept), Role.OUTPUT, SpyreTensorLayout([*kept], [*row_major(kept)], "float16", [*range(len(kept)), -1])),
    )  # fmt: skip
    dims = (*(Dim(f"d{i}", n) for i, n in enumerate(kept)), Dim("r", size[-1], reduced=True))
    return Program(
        "p", buffers, (Op("op", "sum", dims, (at("x", size),), (Access("y", 0, (*row_major(kept), 0), "float16"),)),)
    )


def splits(program: Program, cores: int = 32) -> list[int]:
    (op,) = program.ops
    return DivideWork(cores).splits(op, {buffer.name: buffer for buffer in program.buffers})


@given(SIZES, st.sampled_from(["float16", "float32", "int8"]), st.sampled_from([1, 2, 7, 32]))
def test_splits_are_even_in_whole_sticks_and_fit_the_cores(size: tuple[int, ...], dtype: str, cores: int) -> None:
    program = pointwise(size, dtype)
    layout = program.buffers[0].layout
    assert layout is not None
    found = splits(program, cores=cores)
    counts = [*size[:-1], -(-size[-1] // layout.elems_per_stick())]
    assert prod(found) <= cores
    assert all(count % split == 0 for count, split in zip(counts, found, strict=True))


@given(SIZES)
def test_no_core_is_left_idle_that_one_more_even_split_could_use(size: tuple[int, ...]) -> None:
    assume(all(b.layout and b.layout.device_bytes <= DivideWork().limit for b in pointwise(size).buffers))
    found = splits(pointwise(size))
    counts = [*size[:-1], -(-size[-1] // 64)]
    left = 32 // prod(found)
    assert not any(
        (count // split) % n == 0 for count, split in zip(counts, found, strict=True) for n in range(2, left + 1)
    )


@given(SIZES.filter(lambda size: len(size) <= 3))
def test_sums_take_the_cores_that_rows_leave_in_whole_sticks(size: tuple[int, ...]) -> None:
    found = splits(summed(size))
    assert prod(found) <= 32 and -(-size[-1] // 64) % found[-1] == 0
    within = all(b.layout and b.layout.device_bytes <= DivideWork().limit for b in summed(size).buffers)
    assert found[-1] == 1 or not within or size[-1] % 64 == 0


def test_examples_worked_out_by_hand() -> None:
    assert splits(pointwise((128, 256))) == [32, 1]
    assert splits(pointwise((4096, 4096))) == [32, 1]
    assert splits(pointwise((4, 4096))) == [1, 32]  # 64 sticks are more than 4 rows
    assert splits(pointwise((12, 128))) == [12, 2]
    assert splits(pointwise((7, 70))) == [7, 2]
    assert splits(pointwise((1, 1))) == [1, 1]
    assert splits(pointwise((64, 64)), cores=7) == [4, 1]
    assert splits(summed((1, 4096))) == [1, 32]
    assert splits(summed((4, 8192))) == [4, 8]
    assert splits(summed((4, 8200))) == [4, 1]


def test_dims_of_size_1_change_nothing() -> None:
    """So that a product in a graph is divided as it is alone, however many such dims its views have."""
    assert splits(pointwise((1, 4, 1, 64, 320))) == [1, 1, 1, 32, 1]
    assert splits(summed((1, 4, 1, 8192))) == [1, 4, 1, 8]


def product(m: int, k: int, n: int, dtype: str = "float16") -> Program:
    sizes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    buffers = tuple(
        Buffer(name, dtype, size, row_major(size), Role.OUTPUT if name == "c" else Role.INPUT, SpyreTensorLayout(list(size), dtype))
        for name, size in sizes.items()
    )  # fmt: skip
    dims = (Dim("m", m), Dim("n", n), Dim("k", k, reduced=True))
    factors = Access("a", 0, (k, 0, 1), dtype), Access("b", 0, (0, 1, n), dtype)
    return Program("p", buffers, (Op("op", "batchmatmul", dims, factors, (Access("c", 0, (n, 1, 0), dtype),)),))


def test_products_of_the_reference() -> None:
    """By m, k, n: slices of m, n, k."""
    known = {
        (128, 256, 192): [8, 1, 4], (33, 70, 130): [3, 3, 2], (16, 256, 512): [1, 8, 4], (32, 128, 256): [4, 4, 2],
        (64, 704, 256): [8, 4, 1], (512, 1024, 256): [16, 2, 1], (64, 4096, 12800): [4, 8, 1], (1, 4096, 4096): [1, 32, 1],
        (512, 4096, 14336): [4, 8, 1],
    }  # fmt: skip
    assert {size: splits(product(*size)) for size in known} == known


def test_products_the_matrix_unit_does_not_take_keep_their_order() -> None:
    """In 32 bits a product is this card's own: k is one sum."""
    assert splits(product(4, 4096, 64, "float32")) == [4, 2, 1]


def test_a_product_no_core_could_reach_over_is_split_along_k() -> None:
    """Contract N9: its operands have 512 and 256 MiB, sticks along k and n, and neither m nor n bounds a core's reach of the first."""
    assert splits(product(8192, 32768, 4096)) == [4, 2, 4]
    assert splits(product(8192, 16384, 512, "float32"))[2] > 1


def test_moves_are_not_divided() -> None:
    size = (64, 128)
    program = pointwise(size)
    move = Op("move", "relayout", program.ops[0].dims, program.ops[0].inputs, program.ops[0].outputs)
    assert splits(Program("p", program.buffers, (move,))) == [1, 1]


def test_a_core_stays_within_its_reach_of_a_tensor() -> None:
    # 512 MiB, whose sticks of one row lie 4096 rows apart: rows alone would let every core reach over all of it.
    assert splits(pointwise((4096, 65536))) == [8, 4]
    assert splits(pointwise((4096, 16384))) == [32, 1]
    assert splits(summed((4096, 65536))) == [8, 4]
    assert splits(summed((4096, 16384))) == [32, 1]


def test_what_cannot_be_kept_within_reach_says_so() -> None:
    with pytest.raises(Undividable, match="op: a core would reach 33554432 bytes of tensor 'y'"):
        DivideWork(1, limit=1 << 20).run(pointwise((4096, 4096)))
