"""Reductions whose dim is tiled: every tile gives a partial result, which an accumulator takes up.

It begins as what changes nothing: 0 of a sum, 1 of a product, the lowest of a maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from openspyre.compiler.ir import Access, Constant, Dim, Iota, Op, Operand
from openspyre.compiler.tiling.groups import Member, Untileable
from openspyre.spec.ops import TABLE, Fold, Kind

_LOWEST, _HIGHEST = -(2**31), 2**31 - 1  # of the card's integers


@dataclass(frozen=True, slots=True)
class Combine:
    """The row that takes a partial result up, and the number that it leaves as it is: of floats, integers, truth values."""

    row: str
    of_floats: float
    of_integers: int
    of_truths: int


_OF_FOLDS = {
    Fold.SUM: Combine("add", 0.0, 0, 0),
    Fold.PROD: Combine("mul", 1.0, 1, 1),
    Fold.MAX: Combine("maximum", -inf, _LOWEST, 0),
    Fold.MIN: Combine("minimum", inf, _HIGHEST, 1),
    Fold.ANY: Combine("bitwise_or", 0.0, 0, 0),
    Fold.ALL: Combine("bitwise_and", 1.0, -1, 1),
}


def reducing_levels(member: Member) -> tuple[int, ...]:
    """Levels that tile a dim which the op folds."""
    pairs = enumerate(member.tiles)
    return tuple(level for level, tile in pairs if tile.dim is not None and member.op.dims[tile.dim].reduced)


def combine_of(member: Member) -> Combine:
    """How partial results of an op are put together; Untileable if they cannot be."""
    row = TABLE[member.op.row]
    if row.kind is Kind.CONTRACTION:
        return _OF_FOLDS[Fold.SUM]
    found = None if row.fold is None or row.finish is not None else _OF_FOLDS.get(row.fold)
    if row.kind is not Kind.REDUCTION or found is None or len(member.op.outputs) != 1:
        raise Untileable(
            f"{_tiled(member)}: partial results of {row.name} cannot be put together; of sums, products, maxima, minima, any and "
            "matmul they can: write it with those (a mean as a sum, and the division outside the scope), or tile another dim"
        )
    return found


def check_levels(member: Member, *, allowed: bool) -> None:
    """Levels that fold are the innermost ones: what has been summed up is complete when the next tile of the result begins."""
    if not allowed:
        raise Untileable(
            f"{_tiled(member)}: reductions are not tiled, SPYRE_INDUCTOR_ENABLE_REDUCTION_TILING is 0; set it to 1, or tile a "
            "dim that is not reduced"
        )
    levels = reducing_levels(member)
    inner = next((level for level in range(levels[0], len(member.tiles)) if level not in levels), None)
    if inner is not None:
        tile = member.tiles[inner]
        raise Untileable(
            f"{_tiled(member)}: inside that loop there is one of {tile.count} tiles along {member.dim_of(tile)}; "
            "nest the scope of the reduced dim innermost"
        )
    if len({member.tiles[level].dim for level in levels}) > 1:
        dims = ", ".join(member.dim_of(member.tiles[level]) for level in levels)
        raise Untileable(f"{_tiled(member)}: {dims} are reduced, of those one can be tiled")


def _tiled(member: Member) -> str:
    tile = member.tiles[reducing_levels(member)[0]]
    return f"{member.title}: {tile.count} tiles along reduced {member.dim_of(tile)}"


def kept_dims(op: Op, access: Access) -> list[int]:
    """Dims of an op that one of its accesses moves along."""
    return [d for d, dim in enumerate(op.dims) if access.strides[d] and dim.size > 1]


def filled(op: Op, accumulator: Access, combine: Combine) -> Op:
    """The accumulator at its beginning."""
    dims, (target,) = _dims(op, (accumulator,))
    number: Operand
    if "float" in target.dtype:
        number = Constant.of(combine.of_floats, target.dtype)
    else:
        number = Iota(combine.of_truths if target.dtype == "bool" else combine.of_integers, (0,) * len(dims))
    row = "fill" if isinstance(number, Constant) else "iota"
    origin = op.origin.changed("decomposition", "TileOps", "tiles add up to its result")
    return Op(f"{op.name}.begin", row, dims, (number,), (target,), origin=origin)


def taken_up(op: Op, accumulator: Access, part: Access, combine: Combine) -> Op:
    dims, (total, more) = _dims(op, (accumulator, part))
    origin = op.origin.changed("decomposition", "TileOps", "tiles add up to its result")
    return Op(f"{op.name}.take_up", combine.row, dims, (total, more), (total,), origin=origin)


def _dims(op: Op, accesses: tuple[Access, ...]) -> tuple[tuple[Dim, ...], tuple[Access, ...]]:
    kept = kept_dims(op, accesses[0])
    dims = tuple(Dim(op.dims[d].name, op.dims[d].size) for d in kept)
    return dims, tuple(
        Access(a.buffer, a.offset, tuple(a.strides[d] for d in kept), a.dtype, a.advance) for a in accesses
    )
