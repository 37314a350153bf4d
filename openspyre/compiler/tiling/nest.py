"""The loops of a group. Every iteration copies tiles of what it reads, works on tiles, and copies out what others need.

What only the group needs is never larger than a tile. Partial results of reductions are taken up by accumulators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from math import prod

from openspyre.compiler.ir import Access, Buffer, Dim, Loop, Node, Op, Operand, Role
from openspyre.compiler.tiling.asides import aside_of, whole_copy
from openspyre.compiler.tiling.groups import Group, Member, Untileable
from openspyre.compiler.tiling.partial_results import (
    check_levels,
    combine_of,
    filled,
    kept_dims,
    reducing_levels,
    taken_up,
)
from openspyre.compiler.tiling.places import Places, in_tiles, places_of
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Indexing, Kind

_TILEABLE = (Kind.POINTWISE, Kind.REDUCTION, Kind.CONTRACTION, Kind.MOVEMENT, Kind.MOMENTS, Kind.CREATION, Kind.INDEXED)


@dataclass(frozen=True, slots=True)
class Outside:
    """What is known of the program around a group: its buffers, and which of them others use."""

    buffers: Mapping[str, Buffer]
    used: frozenset[str]

    def is_internal(self, name: str) -> bool:
        buffer = self.buffers[name]
        return buffer.role is Role.TEMP and not buffer.unset and name not in self.used


class Copies(Enum):
    """Which tiles are copied: all that come from outside or are needed there; only the latter; or only where it saves going to memory."""

    ALL = auto()
    RESULTS = auto()
    FEWEST = auto()


class Nest:
    """Builds the loops of one group; `buffers` are those that it adds or makes smaller."""

    def __init__(self, group: Group, number: int, outside: Outside, *, reductions: bool, copies: Copies) -> None:
        self.counts, self.number, self.outside = group.counts, number, outside
        self.reductions, self.copying = reductions, copies
        for member in group.members:
            _check(member)
        self.members = group.members
        self.ops = [in_tiles(member) for member in group.members]
        self.folding = {member.op.outputs[0].buffer: member for member in group.members if reducing_levels(member)}
        self.readers = Counter(
            read for op in self.ops for read in {_tile_read(a) for a in op.inputs if isinstance(a, Access)}
        )
        self.buffers: dict[str, Buffer] = {}
        self.places = self._places()
        self.body: list[Op] = []
        self.before: list[list[Op]] = [[] for _ in self.counts]
        self.after: list[list[Op]] = [[] for _ in self.counts]
        self.copies: dict[tuple[object, ...], Access] = {}
        self.written: dict[str, list[tuple[Op, Access]]] = {}
        self.asides_before: list[Op] = []
        self.asides_after: list[Op] = []

    def nodes(self) -> tuple[Node, ...]:
        for member, op in zip(self.members, self.ops, strict=True):
            self._add(member, op)
        inner: tuple[Node, ...] = tuple(self.body)
        for level in reversed(range(len(self.counts))):
            inner = (*self.before[level], Loop(self.counts[level], inner), *self.after[level])
        return (*self.asides_before, *inner, *self.asides_after)

    # --- buffers that the group writes
    def _places(self) -> dict[str, Places]:
        """Tiles of what the group writes, but for reductions of a tiled dim."""
        writes: dict[str, list[tuple[Op, Access]]] = {}
        for op in self.ops:
            for access in op.outputs:
                writes.setdefault(access.buffer, []).append((op, access))
        found: dict[str, Places] = {}
        for name, own in writes.items():
            if name in self.folding:
                self._check_folding(name, own)
                continue
            places = self._places_of(name, own)
            self._check_accesses(name, places)
            found[name] = places
            self._add_tile(name, places)
        return found

    def _places_of(self, name: str, writes: Sequence[tuple[Op, Access]]) -> Places:
        buffer, (op, first) = self.outside.buffers[name], writes[0]
        places = None
        if all(access.advance == first.advance for _, access in writes):
            places = places_of(buffer.size, buffer.stride, first.advance, self.counts)
            if places is None and len(writes) == 1 and first.offset == 0:
                places = self._as_written(op, first)
        if places is None:
            raise self._untileable(op, f"the parts of {name!r} that it writes are no even tiles of it")
        return places

    def _as_written(self, op: Op, access: Access) -> Places | None:
        """Tiles along the dims of the op that writes a tensor, where those are not the tensor's own."""
        whole = self._member(op).op
        kept = [d for d, dim in enumerate(whole.dims) if dim.size > 1 and access.strides[d]]
        size = tuple(whole.dims[d].size for d in kept)
        if prod(size) != prod(self.outside.buffers[access.buffer].size):
            return None
        return places_of(size, tuple(access.strides[d] for d in kept), access.advance, self.counts)

    def _add_tile(self, name: str, places: Places) -> None:
        buffer = self.outside.buffers[name]
        internal = self.outside.is_internal(name)
        layout = None
        if buffer.layout is not None and buffer.layout.element_arrangement is ElementArrangement.EXX2:
            order = list(range(len(places.size)))
            layout = SpyreTensorLayout(
                list(places.size), list(places.stride), buffer.dtype, order, ElementArrangement.EXX2
            )
        if not self._goes_straight_out(name):
            self._new(name if internal else f"{name}.tile", buffer.dtype, places.size, places.stride, layout)

    def _new(
        self,
        name: str,
        dtype: str,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        layout: SpyreTensorLayout | None = None,
    ) -> None:
        self.buffers[name] = Buffer(name, dtype, size, stride, Role.TEMP, layout)

    def _check_accesses(self, name: str, places: Places) -> None:
        """In each iteration everybody stays in the tile of that iteration, so that no iteration sees another's."""
        first = True
        for op in self.ops:
            for number, access in enumerate(op.accesses):
                if access.buffer != name:
                    continue
                reads = number < len(op.accesses) - len(op.outputs)
                if places.within(access, op.dims, self.counts) is None:
                    verb = "reads" if reads else "writes"
                    raise self._untileable(
                        op, f"it {verb} more of {name!r} than the tile that is there in its iteration"
                    )
                if first and reads and not all(places.advance):
                    raise self._untileable(
                        op, f"it would see in every iteration what the one before has left in {name!r}"
                    )
                first = False

    def _check_folding(self, name: str, writes: Sequence[tuple[Op, Access]]) -> None:
        folding = self.folding[name]
        for op in self.ops:
            if any(isinstance(operand, Access) and operand.buffer == name for operand in op.inputs):
                raise self._untileable(
                    op,
                    f"it reads {name!r}, of which {folding.title} has a part in each iteration, and all behind the loop",
                )
        if len(writes) > 1:
            raise self._untileable(writes[-1][0], f"{name!r} is written by a reduction in the same loop")

    # --- ops
    def _add(self, member: Member, op: Op) -> None:
        inputs = tuple([self._input(op, operand) for operand in op.inputs])
        op = replace(op, inputs=inputs, hints=tuple(replace(hint, tiles=None) for hint in op.hints))
        if reducing_levels(member):
            self._fold(member, op)
            return
        outputs = []
        for access in op.outputs:
            held = self.places[access.buffer].within(access, op.dims, self.counts)
            assert held is not None
            internal = self.outside.is_internal(access.buffer)
            if self._goes_straight_out(access.buffer):
                outputs.append(self._out(member, op, access))
            else:
                outputs.append(held if internal else held.on(f"{access.buffer}.tile"))
        self.body.append(replace(op, outputs=tuple(outputs)))
        for access, held in zip(op.outputs, outputs, strict=True):
            self.written.setdefault(access.buffer, []).append((op, held))
            if not self.outside.is_internal(access.buffer) and not self._goes_straight_out(access.buffer):
                target = self._out(member, op, access)
                self.body.append(_copy(f"{access.buffer}.copy_out{len(self.body)}", op, held, target))

    def _input(self, op: Op, operand: Operand) -> Operand:
        if not isinstance(operand, Access):
            return operand
        if operand.buffer in self.written:
            return self._held(op, operand)
        if not any(operand.advance):
            return replace(operand, advance=())
        shared = self.copying is Copies.FEWEST and self.readers[_tile_read(operand)] > 1
        if self.copying is Copies.ALL or shared:
            return self._read_copy(op, operand)
        return operand if self.copying is Copies.RESULTS else self._in(op, operand)

    def _goes_straight_out(self, name: str) -> bool:
        """What nobody in the loop reads need not lie in a tile first."""
        read = any(isinstance(a, Access) and a.buffer == name for op in self.ops for a in op.inputs)
        return self.copying is Copies.FEWEST and not self.outside.is_internal(name) and not read

    def _held(self, op: Op, access: Access) -> Access:
        """Of what the group has written in this iteration."""
        found = self.places[access.buffer].within(access, op.dims, self.counts)
        assert found is not None
        if self.outside.is_internal(access.buffer):
            return found
        tile = prod(self.places[access.buffer].size)
        for writer, written in self.written[access.buffer]:
            everything = prod(dim.size for dim, s in zip(writer.dims, written.strides, strict=True) if s) == tile
            if everything or _elements(writer, written) == _elements(op, found):
                return found.on(f"{access.buffer}.tile")
        raise self._untileable(
            op, f"of {access.buffer!r}, a part of which is written in the same iteration, it reads more"
        )

    def _read_copy(self, op: Op, access: Access) -> Access:
        """A copy of the tile, shared by those who read the same one."""
        kept = _in_the_order_of(self.outside.buffers[access.buffer], kept_dims(op, access), access)
        size = tuple(op.dims[d].size for d in kept)
        steps = tuple(access.strides[d] for d in kept)
        key = (access.buffer, access.offset, access.dtype, access.advance, size, steps)
        order = sorted(range(len(kept)), key=lambda place: (-abs(steps[place]), place))
        dense = dict(zip(order, row_major([size[place] for place in order]), strict=True))
        stride = tuple(dense[place] for place in range(len(kept)))
        if key not in self.copies:
            access = self._in(op, access)
            name = f"{key[0]}.read_copy{self.number}_{len(self.copies)}"
            self._new(name, access.dtype, size, stride)
            dims = tuple(Dim(op.dims[d].name, op.dims[d].size) for d in kept)
            source = replace(access, strides=steps)
            target = Access(name, 0, stride, access.dtype)
            origin = op.origin.changed("clone", "TileOps", "a tile that several ops of the loop read")
            self.body.append(Op(name, "relayout", dims, (source,), (target,), origin=origin))
            self.copies[key] = target
        by_dim = dict(zip(kept, stride, strict=True))
        strides = tuple(by_dim.get(d, 0) for d in range(len(op.dims)))
        return Access(self.copies[key].buffer, 0, strides, access.dtype)

    def _in(self, op: Op, access: Access) -> Access:
        """What is read tile by tile, from where tiles are whole sticks."""
        buffer = self.outside.buffers[access.buffer]
        aside = aside_of(buffer, access, op.dims, self.counts)
        if aside is None or access.buffer in self.places:
            return access
        aside = replace(aside, name=f"{aside.name}{self.number}")
        if aside.name not in self.buffers:
            self.buffers[aside.name] = aside
            self.asides_before.append(whole_copy(aside.name, buffer, aside, op.origin))
        return access.on(aside.name)

    def _out(self, member: Member, op: Op, access: Access) -> Access:
        """Where a result of tiles goes: its tensor, or, if they would cut its sticks, what is moved there as a whole behind the loops."""
        buffer = self.outside.buffers[access.buffer]
        aside = aside_of(buffer, access, op.dims, self.counts)
        written = sum(other.buffer == buffer.name for each in self.ops for other in each.outputs)
        moving = [dim.size for dim, stride in zip(member.op.dims, access.strides, strict=True) if stride]
        plain = buffer.role in (Role.TEMP, Role.OUTPUT) and not buffer.unset
        if aside is None or not plain or written > 1 or prod(moving) != prod(buffer.size):
            return access
        self.buffers[aside.name] = aside
        self.asides_after.append(whole_copy(f"{buffer.name}.back", aside, buffer, op.origin))
        return access.on(aside.name)

    def _fold(self, member: Member, op: Op) -> None:
        """A partial result, and what takes it up: the tensor itself, or a tile of it that is copied out when it is complete."""
        check_levels(member, allowed=self.reductions)
        combine = combine_of(member)
        level = reducing_levels(member)[0]
        (target,) = op.outputs
        outer = target.advance[:level]
        part = self._like(op, target, f"{op.name}.part")
        total = replace(target, advance=())
        if any(outer):
            total = self._like(op, target, f"{op.name}.total")
            out = self._out(member, op, replace(target, advance=outer))
            self.after[level].append(_copy(f"{target.buffer}.copy_out", op, total, out))
        self.before[level].append(filled(op, total, combine))
        self.body += [replace(op, outputs=(part,)), taken_up(op, total, part, combine)]

    def _like(self, op: Op, access: Access, name: str) -> Access:
        """A temp for one tile of what an access writes."""
        kept = _in_the_order_of(self.outside.buffers[access.buffer], kept_dims(op, access), access)
        size = tuple(op.dims[d].size for d in kept)
        self._new(name, access.dtype, size, row_major(size))
        by_dim = dict(zip(kept, row_major(size), strict=True))
        return Access(name, 0, tuple(by_dim.get(d, 0) for d in range(len(op.dims))), access.dtype)

    def _member(self, op: Op) -> Member:
        return next(member for member in self.members if member.op.name == op.name)

    def _untileable(self, op: Op, why: str) -> Untileable:
        member = self._member(op)
        levels = ", ".join(f"{tile.count} along {member.dim_of(tile)}" for tile in member.tiles)
        return Untileable(
            f"{member.title}: tiles ({levels}) cannot be had: {why}. End the scope before it, or tile other dims"
        )


def works_in_tiles(op: Op) -> bool:
    row = TABLE[op.row]
    return row.kind in _TILEABLE and not row.by_element and row.indexing in (None, Indexing.READ)


def _check(member: Member) -> None:
    for tile in member.tiles:
        if tile.dim is not None and not works_in_tiles(member.op):
            raise Untileable(
                f"{member.title}: it does not work tile by tile, {tile.count} tiles along {member.dim_of(tile)} were asked for; "
                "leave it out of the scope"
            )


def _tile_read(access: Access) -> tuple[str, int, tuple[int, ...]]:
    """What ops of a loop that read the same tile have in common."""
    return access.buffer, access.offset, access.advance


def _elements(op: Op, access: Access) -> tuple[int, frozenset[tuple[int, int]]]:
    """Which elements an access touches: where it begins, and its steps."""
    steps = zip(access.strides, op.dims, strict=True)
    return access.offset, frozenset((stride, dim.size) for stride, dim in steps if stride and dim.size > 1)


def _in_the_order_of(buffer: Buffer, dims: Sequence[int], access: Access) -> list[int]:
    """Dims of an op in the order in which a tensor has them, where an access moves along the tensor's own."""
    order = {stride: place for place, (stride, n) in enumerate(zip(buffer.stride, buffer.size, strict=True)) if n > 1}
    own = all(access.strides[d] in order for d in dims)
    return sorted(dims, key=lambda d: order[access.strides[d]]) if own else list(dims)


def _copy(name: str, op: Op, source: Access, target: Access) -> Op:
    kept = kept_dims(op, target)
    dims = tuple(Dim(op.dims[d].name, op.dims[d].size) for d in kept)
    sides = [replace(access, strides=tuple(access.strides[d] for d in kept)) for access in (source, target)]
    origin = op.origin.changed("clone", "TileOps", "a tile on its way into or out of the loop")
    return Op(name, "relayout", dims, (sides[0],), (sides[1],), origin=origin)
