"""Where a tile lies in its tensor, and where an access to the tensor finds its elements in the tile.

An offset is a number whose digits count along dims. Loops count some of them; the tile has the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Dim, Op
from openspyre.compiler.tiling.groups import Member, Untileable
from openspyre.spec.addressing import row_major


@dataclass(frozen=True, slots=True)
class Digit:
    """`size` steps of `stride` elements of the tensor; `held`: elements of the tile, None if a loop counts them."""

    stride: int
    size: int
    held: int | None


@dataclass(frozen=True, slots=True)
class Places:
    """`advance`: elements of the tensor that each loop moves by. `size` and `stride` are the tile's."""

    advance: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    digits: tuple[Digit, ...]  # outermost first

    def within(self, access: Access, dims: Sequence[Dim], counts: Sequence[int]) -> Access | None:
        """An access to the tensor as one to the tile; None if it leaves the tile of its iteration."""
        advance = access.advance or (0,) * len(counts)
        own = [step for step, loop in zip(advance, self.advance, strict=True) if not loop]
        if any(step != loop for step, loop in zip(advance, self.advance, strict=True) if loop):
            return None
        lengths = [dim.size for dim in dims]
        lengths += [count for count, loop in zip(counts, self.advance, strict=True) if not loop]
        left = [0 if n == 1 else step for step, n in zip((*access.strides, *own), lengths, strict=True)]
        rest, offset, found = access.offset, 0, [0] * len(left)
        for digit in self.digits:
            start, rest = divmod(rest, digit.stride)
            steps = [_whole(step, digit.stride) for step in left]
            left = [step - taken * digit.stride for step, taken in zip(left, steps, strict=True)]
            ends = [step * (n - 1) for step, n in zip(steps, lengths, strict=True)]
            if start + sum(min(end, 0) for end in ends) < 0 or start + sum(max(end, 0) for end in ends) >= digit.size:
                return None
            if digit.held is None and (start or any(steps)):
                return None
            offset += start * (digit.held or 0)
            found = [at + step * (digit.held or 0) for at, step in zip(found, steps, strict=True)]
        if rest or any(left):
            return None
        rest_of_loops = iter(found[len(dims) :])
        moves = tuple(0 if loop else next(rest_of_loops) for loop in self.advance)
        return replace(access, offset=offset, strides=tuple(found[: len(dims)]), advance=moves if any(moves) else ())


def _whole(step: int, unit: int) -> int:
    """Units in a step, towards 0."""
    return step // unit if step >= 0 else -(-step // unit)


def places_of(
    size: Sequence[int], stride: Sequence[int], advance: tuple[int, ...], counts: Sequence[int]
) -> Places | None:
    """The tiles of a tensor with these dims; None if the loops do not cut its dims evenly."""
    left = list(size)
    loops: list[Digit] = []
    for step, count in zip(advance, counts, strict=True):
        if not step:
            continue
        dim = next((d for d, n in enumerate(left) if n % count == 0 and n // count * stride[d] == step), None)
        if dim is None:
            return None
        left[dim] //= count
        loops.append(Digit(step, count, None))
    order = sorted(range(len(left)), key=lambda d: (-stride[d], d))
    dense = dict(zip(order, row_major([left[d] for d in order]), strict=True))
    own = [Digit(stride[d], left[d], dense[d]) for d in order if left[d] > 1]
    digits = sorted([*loops, *own], key=lambda digit: -digit.stride)
    if any(digit.stride <= 0 for digit in digits):
        return None
    return Places(advance, tuple(left), tuple(dense[d] for d in range(len(left))), tuple(_joined(digits)))


def _joined(digits: Sequence[Digit]) -> list[Digit]:
    """Digits of the tile that count on into each other are one: an access may run through both."""
    found: list[Digit] = []
    for digit in digits:
        outer = found[-1] if found else None
        runs_on = outer is not None and outer.stride == digit.stride * digit.size
        if outer is not None and runs_on and outer.held is not None and digit.held is not None:
            found[-1] = Digit(digit.stride, outer.size * digit.size, digit.held)
        else:
            found.append(digit)
    return found


def in_tiles(member: Member) -> Op:
    """One tile of an op; its accesses are to whole tensors still, and move through them with every iteration."""
    op = member.op
    sizes = [dim.size for dim in op.dims]
    steps: list[int] = []
    for tile in member.tiles:
        if tile.dim is not None:
            if sizes[tile.dim] % tile.count:
                raise Untileable(
                    f"{member.title}: {member.dim_of(tile)} of size {sizes[tile.dim]} has no {tile.count} tiles of equal size; "
                    "choose a count that divides it"
                )
            sizes[tile.dim] //= tile.count
        steps.append(0 if tile.dim is None else sizes[tile.dim])

    def moving(access: Access) -> Access:
        levels = zip(member.tiles, steps, strict=True)
        return replace(
            access, advance=tuple(0 if t.dim is None else access.strides[t.dim] * step for t, step in levels)
        )

    return replace(
        op,
        dims=tuple(replace(dim, size=size) for dim, size in zip(op.dims, sizes, strict=True)),
        inputs=tuple(moving(operand) if isinstance(operand, Access) else operand for operand in op.inputs),
        outputs=tuple(map(moving, op.outputs)),
    )
