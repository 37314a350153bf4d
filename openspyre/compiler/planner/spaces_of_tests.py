"""Spaces of usual ops, written down by hand for the tests of the rules: default layouts, 64 elements a stick."""

from __future__ import annotations

from collections.abc import Sequence

from openspyre.compiler.planner.space import Coordinate, Space, SpaceKind, Symbol, Tensor, Term

LANES = 64
LIMIT = 65535 * 4096


def tensor(name: str, symbols: Sequence[Symbol], dims: Sequence[int], stick: int | None) -> Tensor:
    """Dims from the outermost to the innermost, the sticks of `stick` outside all but the first of three."""
    outside = [d for d in dims if d != stick]
    order = outside if stick is None else [*outside[:-1], stick, *outside[-1:]] if outside else [stick]
    found = []
    for d in order:
        places = symbols[d].units if d == stick else symbols[d].size
        found.append(Coordinate(places, (Term(d, places),) if places > 1 else ()))
    return Tensor(name, tuple(found), frozenset(dims))


def pointwise(*size: int) -> Space:
    """Sizes of 1 are squeezed; sticks run along the last dim."""
    symbols = [Symbol(f"d{d}", n, LANES if d == len(size) - 1 else 1) for d, n in enumerate(size)]
    dims = [d for d, n in enumerate(size) if n > 1]
    symbols = [symbols[d] for d in dims]
    last = len(symbols) - 1
    symbols[last] = Symbol(symbols[last].name, size[-1], LANES, reduces=symbols[last].units == 1)
    every = range(len(symbols))
    return Space("op", tuple(symbols), (tensor("x", symbols, every, last),), (tensor("y", symbols, every, last),))


def summed(rows: int, columns: int, dim: int) -> Space:
    """The sum of a matrix along one of its dims."""
    if dim == 1:
        symbols = [Symbol("d0", rows), Symbol("d1", columns, LANES, reduces=True)]
        return Space("sum", tuple(symbols), (tensor("x", symbols, (0, 1), 1),), (tensor("y", symbols, (0,), None),))
    symbols = [Symbol("d1", columns, LANES, reduces=columns <= LANES), Symbol("d0", rows, reduces=True)]
    return Space("sum", tuple(symbols), (tensor("x", symbols, (1, 0), 0),), (tensor("y", symbols, (0,), 0),))


def product(m: int, n: int, k: int, batch: int = 1, *, shared: bool = False) -> Space:
    """m x k times k x n; `shared`: one second operand for the whole batch."""
    sizes = {"b": batch, "m": m, "n": n, "k": k}
    names = [name for name, size in sizes.items() if size > 1]
    symbols = [
        Symbol(
            name,
            sizes[name],
            LANES if name in "nk" else 1,
            reduces=name == "k" or (name == "n" and n <= LANES),
            named=(name,),
        )
        for name in names
    ]

    def of(name: str, dims: str) -> Tensor:
        return tensor(name, symbols, [names.index(d) for d in dims if d in names], names.index(dims[-1]))

    strides = {"b": m * n, "m": n, "n": 1, "k": 0}
    return Space(
        "mm", tuple(symbols), (of("a", "bmk"), of("w", "kn" if shared else "bkn")), (of("c", "bmn"),), SpaceKind.MATMUL,
        tuple(strides[name] for name in names),
    )  # fmt: skip


def topk(rows: int, columns: int, k: int) -> Space:
    """The k largest of every column."""
    symbols = [Symbol("k", k), Symbol("d1", columns, LANES), Symbol("d0", rows, reduces=True)]
    reads, writes = (tensor("x", symbols, (2, 1), 1),), (tensor("y", symbols, (0, 1), 1),)
    return Space("topk", tuple(symbols), reads, writes, SpaceKind.TOPK, searched=2, ranks=0)
