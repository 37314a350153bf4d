"""Turns ops under hints of tiles into counted loops, before layouts are chosen: those are then of tiles.

Rules as the documents have them: `openspyre/compiler/tiling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openspyre.compiler.hints import tile_levels
from openspyre.compiler.ir import Program
from openspyre.compiler.passes.choose_layouts import ChooseLayouts
from openspyre.compiler.tiling.groups import Member, Tile, Untileable
from openspyre.compiler.tiling.programs import tiled
from openspyre.compiler.tiling.span_overflow import SpanTiles


@dataclass(frozen=True, slots=True)
class TileOps:
    """`reductions`: whether dims that are reduced may be tiled. `span_limit`: bytes of a tensor that a core may reach, where ops are
    to be tiled that would reach further; None where they are not."""

    reductions: bool = True
    span_limit: int | None = None

    def run(self, program: Program) -> Program:
        if self.span_limit is None and not any(op.hints for op in program.ops):
            return program
        members = [Member(op, tuple(Tile(a.hint, a.dim, a.count) for a in tile_levels(op))) for op in program.ops]
        if self.span_limit is not None:
            members = self._within(self.span_limit, program, members)
        if not any(member.tiles for member in members):
            return program
        return tiled(program, members, reductions=self.reductions)

    def _within(self, limit: int, program: Program, members: list[Member]) -> list[Member]:
        """With levels for ops that reach too far, as they would lie without any."""
        laid_out = {buffer.name: buffer for buffer in ChooseLayouts().run(program).buffers}
        sizes = (b.layout.device_bytes for b in laid_out.values() if b.layout is not None)
        if all(size <= limit for size in sizes):
            return members

        def can_share(run: Sequence[Member]) -> bool:
            own = {member.op.name: member for member in run}
            try:
                tiled(program, [own.get(m.op.name, Member(m.op)) for m in members], reductions=self.reductions)
            except Untileable:
                return False
            return True

        return SpanTiles(limit, laid_out).members(members, can_share)
