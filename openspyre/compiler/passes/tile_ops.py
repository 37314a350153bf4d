"""Turns ops under hints of tiles into counted loops, before layouts are chosen: those are then of tiles.

Rules as the documents have them: `openspyre/compiler/tiling`.
"""

from __future__ import annotations

from dataclasses import dataclass

from openspyre.compiler.hints import tile_levels
from openspyre.compiler.ir import Op, Program
from openspyre.compiler.tiling.groups import Member, Tile
from openspyre.compiler.tiling.programs import tiled


@dataclass(frozen=True, slots=True)
class TileOps:
    """`reductions`: whether dims that are reduced may be tiled."""

    reductions: bool = True

    def run(self, program: Program) -> Program:
        if not any(isinstance(node, Op) and tile_levels(node) for node in program.body):
            return program
        members = [Member(op, tuple(Tile(a.hint, a.dim, a.count) for a in tile_levels(op))) for op in program.ops]
        return tiled(program, members, reductions=self.reductions)
