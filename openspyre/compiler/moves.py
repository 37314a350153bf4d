"""Moves that the hardware has, and the temps between them: `identity` along the same sticks, `ReStickifyOpHBM` to sticks along
another dim. A dim of size 1 may run along the sticks as well: then they have one value each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod

from openspyre.artifact.bundle_function import Address
from openspyre.compiler.emit.lowering import Lowering
from openspyre.compiler.ir import Access, Buffer, Dim, Op, Role
from openspyre.compiler.sticks import Misfit, stick_access
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.origin import Origin

_COST_OF_AN_OP = 1 << 14  # in bytes of temps
_MOST_WINDOWS = 64


@dataclass(frozen=True, slots=True)
class Chain:
    """Ops that follow each other, and the temps they need."""

    ops: tuple[Op, ...] = ()
    temps: tuple[Buffer, ...] = ()

    def __add__(self, other: Chain) -> Chain:
        return Chain((*self.ops, *other.ops), (*self.temps, *other.temps))

    @property
    def cost(self) -> int:
        """In bytes of temps."""
        taken = sum(temp.layout.device_bytes for temp in self.temps if temp.layout is not None)
        return taken + _COST_OF_AN_OP * len(self.ops)


class Moves:
    """Finds chains of moves between buffers; makes temps, and numbers them."""

    def __init__(self, buffers: Sequence[Buffer], largest: int) -> None:
        """`largest`: bytes a temp may have."""
        self.buffers = {buffer.name: buffer for buffer in buffers}
        self.largest = largest
        self._lowering = Lowering(self.buffers, lambda name: Address(0), lambda number, form: Address(0))

    def lane(self, dims: tuple[Dim, ...], access: Access) -> int | Misfit | None:
        """The dim along the sticks of an access; None if it has one value a stick."""
        found = stick_access(access, dims, self.buffers[access.buffer])
        return found if isinstance(found, Misfit) else found.lane_dim

    def temp(self, sizes: Sequence[int], stick: int | None, like: Buffer) -> Buffer | None:
        """A buffer with sticks along one dim, or a value a stick; all other dims lie outside, in their order, so that they can be counted through."""
        assert like.layout is not None
        stride = row_major(sizes)
        layout = layout_along(sizes, stride, stick, like.layout.device_dtype)
        if layout.device_bytes > self.largest:
            return None
        made = Buffer(f"t{len(self.buffers)}", like.dtype, tuple(sizes), stride, Role.TEMP, layout)
        self.buffers[made.name] = made
        return made

    def direct(self, dims: tuple[Dim, ...], source: Access, target: Access) -> Chain | None:
        """One op of the hardware, if there is one."""
        here, there = self.lane(dims, source), self.lane(dims, target)
        if isinstance(here, Misfit) or isinstance(there, Misfit):
            return None
        same = here == there or (here is None and there is not None and not source.strides[there])
        op = Op("", "identity", dims, (source,), (target,)) if same else _restickify(dims, source, target)
        return None if isinstance(self._lowering.operation(op), str) else Chain((op,))

    def copied(self, dims: tuple[Dim, ...], source: Access, target: Access) -> Chain | None:
        """One op, or one for each index of dims that step through what others step through: windows."""
        found = self.direct(dims, source, target)
        here, there = self.lane(dims, source), self.lane(dims, target)
        if found is not None or isinstance(here, Misfit) or here != there:
            return found
        unrolled = self._meeting(dims, source)
        if not unrolled or prod(dims[d].size for d in unrolled) > _MOST_WINDOWS:
            return None
        chain = Chain()
        for index in product(*(range(dims[d].size) for d in unrolled)):
            sides = [_at(access, dict(zip(unrolled, index, strict=True))) for access in (source, target)]
            part = self.direct(tuple(dim for d, dim in enumerate(dims) if d not in unrolled), *sides)
            if part is None:
                return None
            chain += part
        return chain

    def _meeting(self, dims: tuple[Dim, ...], access: Access) -> list[int]:
        """Dims without which all others of an access step further than those inside them reach."""
        found = stick_access(access, dims, self.buffers[access.buffer])
        gone: list[int] = []
        while not isinstance(found, Misfit):
            moving = sorted((s, d) for d, s in enumerate(found.strides) if s and d not in gone and d != found.lane_dim)
            pairs = pairwise(moving)
            bad = next(((i, o) for (s, i), (t, o) in pairs if t < s * dims[i].size), None)
            if bad is None:
                break
            gone.append(min(bad, key=lambda d: dims[d].size))
        return sorted(gone)

    def between(self, dims: tuple[Dim, ...], source: Access, target: Access) -> Chain | None:
        """The shortest way: directly, or with dense copies before or behind a restickify, or both."""
        if (found := self.copied(dims, source, target)) is not None:
            return found
        lanes = [self.lane(dims, access) for access in (source, target)]
        for ways in _SUBSETS:
            chain, at = Chain(), source
            for place in ways:
                copied = self._step(dims, at, lanes[place])
                if copied is None:
                    break
                chain, at = chain + copied[0], copied[1]
            else:
                last = self.copied(dims, at, target)
                if last is not None:
                    return chain + last
        return None

    def _step(self, dims: tuple[Dim, ...], source: Access, lane: int | Misfit | None) -> tuple[Chain, Access] | None:
        """A move into a temp of its own."""
        if isinstance(lane, Misfit):
            return None
        temp = self.temp([dim.size for dim in dims], lane, self.buffers[source.buffer])
        if temp is None:
            return None
        access = Access(temp.name, 0, temp.stride, source.dtype)
        move = self.copied(dims, source, access)
        return None if move is None else (Chain(move.ops, (temp,)), access)


def _restickify(dims: tuple[Dim, ...], source: Access, target: Access) -> Op:
    """Its dims are the source's, in the order of its strides: the tensor stays the same for its host."""
    order = sorted(range(len(dims)), key=lambda d: -source.strides[d])
    sides = [replace(access, strides=tuple(access.strides[d] for d in order)) for access in (source, target)]
    return Op("", "restickify", tuple(dims[d] for d in order), (sides[0],), (sides[1],))


def layout_along(
    sizes: Sequence[int], strides: Sequence[int], stick: int | None, form: DataFormats
) -> SpyreTensorLayout:
    """Sticks along one dim, or a value a stick; all other dims outside, by their strides."""
    lanes = form.elems_per_stick()
    outside = sorted((d for d in range(len(sizes)) if d != stick and sizes[d] > 1), key=lambda d: -strides[d])
    size, steps = [*(sizes[d] for d in outside), lanes], [*(strides[d] for d in outside), -1]
    if stick is not None:
        size = [-(-sizes[stick] // lanes), *size]
        steps = [lanes * strides[stick], *steps[:-1], strides[stick]]
    elif not outside:
        size, steps = [1, lanes], [-1, -1]
    return SpyreTensorLayout(size, steps, form)


_SUBSETS = ((0,), (1,), (0, 1))


def _at(access: Access, index: dict[int, int]) -> Access:
    """The access at an index of some dims, along the others."""
    offset = access.offset + sum(access.strides[d] * place for d, place in index.items())
    strides = tuple(stride for d, stride in enumerate(access.strides) if d not in index)
    return replace(access, offset=offset, strides=strides)


def named(chain: Chain, prefix: str, origin: Origin, names: dict[str, str]) -> Chain:
    """The chain with the names of a program: its buffers' as given, ops and temps by a prefix."""
    known = names | {temp.name: f"{prefix}.t{number}" for number, temp in enumerate(chain.temps)}

    def placed(number: int, op: Op) -> Op:
        (source,) = op.inputs
        assert isinstance(source, Access)
        target = op.outputs[0]
        return replace(
            op,
            name=prefix if number + 1 == len(chain.ops) else f"{prefix}.move{number}",
            inputs=(source.on(known[source.buffer]),),
            outputs=(target.on(known[target.buffer]),),
            origin=origin,
        )

    ops = tuple(placed(number, op) for number, op in enumerate(chain.ops))
    return Chain(ops, tuple(replace(temp, name=known[temp.name]) for temp in chain.temps))


def refined(dims: tuple[Dim, ...], sides: Sequence[tuple[Access, Buffer]]) -> tuple[tuple[Dim, ...], list[Access]]:
    """Dims cut where they run on from one dim of a tensor into the next, as far as both tensors agree; size 1 is left out."""
    cuts = {d: _cuts(d, dims, sides) for d, dim in enumerate(dims) if dim.size > 1}
    found: list[Dim] = []
    steps: list[list[int]] = [[] for _ in sides]
    for d, units in cuts.items():
        ends = [*units[1:], dims[d].size]
        for unit, end in sorted(zip(units, ends, strict=True), reverse=True):
            name = dims[d].name if len(units) == 1 else f"{dims[d].name}.{unit}"
            found.append(Dim(name, end // unit))
            for own, (access, _) in zip(steps, sides, strict=True):
                own.append(access.strides[d] * unit)
    return tuple(found), [replace(access, strides=tuple(own)) for own, (access, _) in zip(steps, sides, strict=True)]


def _cuts(d: int, dims: tuple[Dim, ...], sides: Sequence[tuple[Access, Buffer]]) -> list[int]:
    """Steps of the parts of a dim, smallest first."""
    units = [1]
    for unit in sorted({unit for access, buffer in sides for unit in _ends(d, dims, access, buffer)}):
        if unit % units[-1] == 0 and dims[d].size % unit == 0:
            units.append(unit)
    return units


def _ends(d: int, dims: tuple[Dim, ...], access: Access, buffer: Buffer) -> Iterator[int]:
    if buffer.layout is None or not isinstance(stick_access(access, dims, buffer), Misfit) or access.strides[d] <= 0:
        return
    for group in buffer.layout.addressing(buffer.size, buffer.stride).groups:
        unit, rest = divmod(group.base_stride, access.strides[d])
        if not rest and 1 < unit < dims[d].size:
            yield unit
