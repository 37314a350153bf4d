"""The dims of an op that count, padded to whole sticks, and how each of its tensors is walked along them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

from openspyre.artifact.superdsc import Constant
from openspyre.compiler import ir
from openspyre.compiler.emit.hardware_form import NoSuchOp
from openspyre.compiler.emit.operation import MOST_DIMS, Extent, Operand
from openspyre.compiler.emit.walk import Walk, fills_sticks, walk_of
from openspyre.compiler.sticks import StickAccess
from openspyre.spec.encodings import encode_constant
from openspyre.spec.formats import DataFormats

if TYPE_CHECKING:
    from openspyre.compiler.emit.lowering import Lowering


class Nest:
    """The dims of an op that count, outputs' first, and its accesses along them."""

    def __init__(
        self,
        lowering: Lowering,
        op: ir.Op,
        sources: Sequence[ir.Access],
        target: ir.Access,
        *,
        lanes: dict[ir.Access, int] | None = None,
        rows: bool = False,
        lane_size: int = 1,
        unit: bool = False,
    ) -> None:
        """`lane_size`: elements of a stick that a target without a lane dim has. `unit`: such tensors have a lane dim of size 1."""
        self.lowering, self.op, self.target, self.rows, self.lane_size = lowering, op, target, rows, lane_size
        wanted = set((lanes or {}).values())
        order = sorted(range(len(op.dims)), key=lambda d: op.dims[d].reduced)
        self.kept = [d for d in order if op.dims[d].size != 1 or d in wanted]
        self.unit = len(self.kept) if unit else None
        if len(self.kept) + unit > MOST_DIMS - 1:
            raise NoSuchOp(f"the documents have names for {MOST_DIMS - 1} dims, it has {len(self.kept) + unit}")
        self.found = {access: self._along(access, (lanes or {}).get(access)) for access in (*sources, target)}
        chosen = self.found[target].lane_dim
        if chosen is None:
            chosen = next((f.lane_dim for f in self.found.values() if f.lane_dim is not None), None)
        self.lane = chosen
        if lanes is None and not rows:
            self._check_one_lane()
        self.extents = self._extents(max)
        try:
            self.walks = {access: self._walk(access) for access in self.found}
        except NoSuchOp:
            self.extents = self._extents(min)  # as far as the smaller sticks reach: memory may end there
            self.walks = {access: self._walk(access) for access in self.found}

    def operand(self, access: ir.Access) -> Operand:
        number = self.op.accesses.index(access)
        base = self.lowering.place(access.buffer)
        return Operand(self.lowering.format(access), base, self.walks[access], access=number)

    def is_padded(self, d: int) -> bool:
        return self.extents[d].valid != self.extents[d].size

    def _along(self, access: ir.Access, lane: int | None) -> StickAccess:
        found = self.lowering.sticks(self.op, access)
        if lane is not None and found.lane_dim != lane:
            if found.lane_dim is not None or self.op.dims[lane].size != 1:
                raise NoSuchOp(f"a tensor of it runs along another dim than {self.op.dims[lane].name}")
            found = replace(found, lane_dim=lane)
        along = self.unit if found.lane_dim is None else self.kept.index(found.lane_dim)
        still = () if self.unit is None else (0,)
        return replace(found, lane_dim=along, strides=(*(found.strides[d] for d in self.kept), *still))

    def _check_one_lane(self) -> None:
        for found in self.found.values():
            if found.lane_dim not in (None, self.lane) or (
                self.lane is not None and found.lane_dim is None and found.strides[self.lane]
            ):
                raise NoSuchOp("a tensor of it runs along another dim than the others")

    def _extents(self, choose: Callable[[list[int]], int]) -> tuple[Extent, ...]:
        extents = []
        for place, d in enumerate(self.kept):
            dim = self.op.dims[d]
            lanes = [self._stick(access) for access, found in self.found.items() if found.lane_dim == place]
            stick = choose(lanes) if lanes else 1
            size = -(-dim.size // stick) * stick
            # Where formats differ, work was divided by the smaller sticks.
            extents.append(Extent(dim.size, size, gcd(dim.split, size // stick)))
        if self.unit is not None:
            extents.append(Extent(1, self._stick(self.target)))
        return tuple(extents)

    def _stick(self, access: ir.Access) -> int:
        layout = self.lowering.buffers[access.buffer].layout
        assert layout is not None
        return layout.elems_per_stick()

    def _walk(self, access: ir.Access) -> Walk:
        found, buffer = self.found[access], self.lowering.buffers[access.buffer]
        assert buffer.layout is not None
        valid = [extent.valid for extent in self.extents]
        rows = valid if self.rows and not buffer.spare_rows else None
        if access == self.target:
            lane_size = self.lane_size if found.lane_dim is None else valid[found.lane_dim]
            if not fills_sticks(access, buffer, lane_size):
                raise NoSuchOp("it writes a part of a stick whose other elements are somebody's")
        walk = walk_of(found, [extent.size for extent in self.extents], buffer.layout, rows=rows)
        if isinstance(walk, str):
            raise NoSuchOp(walk)
        if self.unit is None or found.lane_dim == self.unit:
            return walk
        absent = self.extents[self.unit].size - 1
        return replace(walk, order=(*walk.order, self.unit), gaps=(*walk.gaps, (self.unit, absent)))


def mask_value(value: float, form: DataFormats) -> Constant:
    return Constant("samv-maskvalue", form, encode_constant(value, form))
