"""Which ops share a nest of loops: runs of ops under the same hints. Others that stand between them are moved out of the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from openspyre.compiler.ir import Iota, Op
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops import TABLE, Kind


class Untileable(InvalidArgument):
    """Tiles were asked for that cannot be had."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A level of tiles: dim `dim` of an op in `count` tiles; None if it has no such dim. Levels nest by the numbers of their hints."""

    hint: int
    dim: int | None
    count: int


@dataclass(frozen=True, slots=True)
class Member:
    """An op with its levels of tiles, the outermost first."""

    op: Op
    tiles: tuple[Tile, ...] = ()

    @property
    def hints(self) -> tuple[int, ...]:
        return tuple(tile.hint for tile in self.tiles)

    @property
    def title(self) -> str:
        return f"{self.op.name} ({self.op.row})"

    def dim_of(self, tile: Tile) -> str:
        """The dim of a level as the user calls it."""
        if tile.dim is None:
            return "no dim of it"
        dim = self.op.dims[tile.dim]
        return f"dim {' '.join(dim.named) or dim.name!r}"


@dataclass(frozen=True, slots=True)
class Group:
    """Ops of one nest: all have the same levels."""

    members: tuple[Member, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(tile.count for tile in self.members[0].tiles)


def grouped(members: Sequence[Member]) -> list[Op | Group]:
    """The ops in order, those that share a nest together."""
    useful = _useful(members)
    todo = [_with_levels(member, useful) for member in members]
    _check_scopes(todo)
    found: list[Op | Group] = []
    while todo:
        if not todo[0].tiles:
            found.append(todo.pop(0).op)
            continue
        hints = todo[0].hints
        end = max(place for place, member in enumerate(todo) if member.hints == hints) + 1
        before, own, after = _sorted_out(todo[:end], hints)
        found += [*(member.op for member in before), Group(tuple(own))]
        todo = [*after, *todo[end:]]
    return found


def _useful(members: Iterable[Member]) -> frozenset[int]:
    """Hints of more than one tile, along a dim that some op has."""
    return frozenset(
        tile.hint for member in members for tile in member.tiles if tile.count > 1 and _moves(member, tile)
    )


def _moves(member: Member, tile: Tile) -> bool:
    return tile.dim is not None and member.op.dims[tile.dim].size > 1


def _with_levels(member: Member, useful: frozenset[int]) -> Member:
    """The op with a tile for each level that is left, outermost first."""
    op = member.op
    tiles = sorted((tile for tile in member.tiles if tile.hint in useful), key=lambda tile: tile.hint)
    for one, other in pairwise(tiles):
        if one.hint == other.hint:
            raise Untileable(
                f"{member.title}: a hint of {one.count} tiles is for both {member.dim_of(one)} and {member.dim_of(other)}; "
                "give them different names and nest a scope for each"
            )
    if not tiles or _stays_whole(op, tiles):
        return Member(op)
    if len(tiles) > SPYRE.max_loop_depth:
        raise Untileable(
            f"{member.title}: {len(tiles)} loops around it, {SPYRE.max_loop_depth} may stand in each other"
        )
    return Member(op, tuple(tile if _moves(member, tile) else replace(tile, dim=None) for tile in tiles))


def _stays_whole(op: Op, tiles: Iterable[Tile]) -> bool:
    """What follows from an element's own place is made as a whole, outside the loops; so is what is empty."""
    along = [tile.dim for tile in tiles if tile.dim is not None and op.dims[tile.dim].size > 1]
    counts = any(isinstance(operand, Iota) and any(operand.strides[d] for d in along) for operand in op.inputs)
    return counts or TABLE[op.row].kind is Kind.RANDOM or any(dim.size == 0 for dim in op.dims)


def _check_scopes(members: Iterable[Member]) -> None:
    """A hint is of one group: scopes in each other hold the same ops."""
    first: dict[int, Member] = {}
    for member in members:
        for tile in member.tiles:
            other = first.setdefault(tile.hint, member)
            if other.hints != member.hints:
                raise Untileable(
                    f"{member.title}: its {tile.count} tiles along {member.dim_of(tile)} are of the same scope as those of "
                    f"{other.title}, which is under {len(other.tiles)} hints of tiles where this is under {len(member.tiles)}: "
                    "scopes of tiles in each other must hold the same lines, so move this one into the inner scope or out of the "
                    "outer one"
                )


def _sorted_out(run: Sequence[Member], hints: tuple[int, ...]) -> tuple[list[Member], list[Member], list[Member]]:
    """Ops to go before a group, its own, and ops to go behind it."""
    before: list[Member] = []
    own: list[Member] = []
    after: list[Member] = []
    for place, member in enumerate(run):
        if member.hints == hints:
            own.append(member)
        elif member.tiles:
            raise Untileable(
                f"{member.title}: it stands between ops of another scope of tiles, that of {run[0].title}; "
                "close one scope before the next begins"
            )
        elif not any(_meet(other.op, member.op) for other in (*own, *after)):
            before.append(member)
        else:
            _check_behind(member, run[0], [*own, *after], [other for other in run[place + 1 :] if other.hints == hints])
            after.append(member)
    return before, own, after


def _check_behind(member: Member, like: Member, before: Sequence[Member], rest: Sequence[Member]) -> None:
    later = next((other for other in rest if _meet(member.op, other.op)), None)
    if later is not None:
        earlier = next(other for other in before if _meet(other.op, member.op))
        counts = ", ".join(str(tile.count) for tile in like.tiles)
        raise Untileable(
            f"{member.title}: it has no tiles, needs what {earlier.title} leaves, and {later.title} needs what it leaves; those "
            f"two are tiled in one loop ({counts} tiles): put it into their scope, or end the scope before it"
        )


def _meet(first: Op, second: Op) -> bool:
    """Whether two ops must stay in their order."""
    written = {access.buffer for access in first.outputs}
    writes = {access.buffer for access in second.outputs}
    return bool(written & {access.buffer for access in second.accesses}) or bool(
        writes & {access.buffer for access in first.accesses}
    )
