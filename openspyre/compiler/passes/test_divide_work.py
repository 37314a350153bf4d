"""Work division: even, whole sticks, never more cores than there are, reduced dims only when asked."""

from __future__ import annotations

from math import prod

from hypothesis import assume, given
from hypothesis import strategies as st

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.divide_work import DivideWork
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


def splits(program: Program, **options: int) -> list[int]:
    (op,) = DivideWork(options.get("cores", 32), bool(options.get("split_reductions"))).run(program).ops
    return [dim.split for dim in op.dims]


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
    found = splits(pointwise(size))
    counts = [*size[:-1], -(-size[-1] // 64)]
    left = 32 // prod(found)
    assert not any(
        (count // split) % n == 0 for count, split in zip(counts, found, strict=True) for n in range(2, left + 1)
    )


@given(SIZES.filter(lambda size: len(size) <= 3))
def test_reduced_dims_are_whole_unless_asked_for(size: tuple[int, ...]) -> None:
    """Or unless a core would reach too far into the tensor otherwise."""
    assume(all(b.layout and b.layout.device_bytes <= DivideWork().limit for b in summed(size).buffers))
    assert splits(summed(size))[-1] == 1
    with_reduction = splits(summed(size), split_reductions=True)
    assert prod(with_reduction) <= 32 and -(-size[-1] // 64) % with_reduction[-1] == 0


def test_examples_worked_out_by_hand() -> None:
    assert splits(pointwise((4096, 4096))) == [32, 1]
    assert splits(pointwise((4, 4096))) == [1, 32]  # 64 sticks are more than 4 rows
    assert splits(pointwise((12, 128))) == [12, 2]
    assert splits(pointwise((7, 70))) == [7, 2]
    assert splits(pointwise((1, 1))) == [1, 1]
    assert splits(pointwise((64, 64)), cores=7) == [4, 1]
    assert splits(summed((1, 4096)), split_reductions=True) == [1, 32]


def product(m: int, k: int, n: int) -> Program:
    sizes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    buffers = tuple(
        Buffer(name, "float16", size, row_major(size), Role.OUTPUT if name == "c" else Role.INPUT, SpyreTensorLayout(list(size), "float16"))
        for name, size in sizes.items()
    )  # fmt: skip
    dims = (Dim("m", m), Dim("n", n), Dim("k", k, reduced=True))
    factors = Access("a", 0, (k, 0, 1), "float16"), Access("b", 0, (0, 1, n), "float16")
    return Program("p", buffers, (Op("op", "batchmatmul", dims, factors, (Access("c", 0, (n, 1, 0), "float16"),)),))


def test_a_product_no_core_could_reach_over_is_split_along_k() -> None:
    """Contract N9: its operands have 512 and 256 MiB, sticks along k and n, and neither m nor n bounds a core's reach of the first."""
    assert splits(product(8192, 32768, 4096)) == [1, 1, 32]
    assert splits(product(4096, 4096, 4096)) == [32, 1, 1]


def test_moves_are_not_divided() -> None:
    size = (64, 128)
    program = pointwise(size)
    move = Op("move", "relayout", program.ops[0].dims, program.ops[0].inputs, program.ops[0].outputs)
    assert splits(Program("p", program.buffers, (move,))) == [1, 1]


def test_a_core_stays_within_its_reach_of_a_tensor() -> None:
    # 512 MiB, whose sticks of one row lie 4096 rows apart: rows alone would let every core reach over all of it.
    assert splits(pointwise((4096, 65536))) == [1, 32]
    assert splits(pointwise((4096, 16384))) == [32, 1]
    assert splits(summed((4096, 65536))) == [1, 32]
    assert splits(summed((4096, 16384))) == [32, 1]
