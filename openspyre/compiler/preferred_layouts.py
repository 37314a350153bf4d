"""How inputs should lie: for those that a caller may tile anew, once, instead of having them moved by every run.

A weight is such an input. The layout is the one with which the whole program moves least.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Access, Program
from openspyre.compiler.legality import turned
from openspyre.compiler.loops import listed
from openspyre.compiler.passes.choose_layouts import ChooseLayouts
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Kind


def preferred_layouts(program: Program, lowered: Program, movable: Collection[str]) -> dict[str, SpyreTensorLayout]:
    """Layouts for the movable inputs that every reader in `lowered`, made of `program`, moves or turns first.

    One that somebody reads as it lies stays: a table whose rows are looked up, say.
    """
    moved = _moved_by_all(lowered) & frozenset(movable)
    if not moved:
        return {}
    asked = program
    for step in pipeline.passes():
        if isinstance(step, ChooseLayouts):
            asked = replace(step, movable=tuple(sorted(moved))).run(asked)
            break
        asked = step.run(asked)
    present = {buffer.name: buffer.layout for buffer in program.buffers}
    chosen = {buffer.name: buffer.layout for buffer in asked.buffers if buffer.name in moved}
    return {name: layout for name, layout in chosen.items() if layout is not None and layout != present[name]}


def _moved_by_all(lowered: Program) -> frozenset[str]:
    """What only relayouts read, and contractions that turn it block by block."""
    buffers = {buffer.name: buffer for buffer in lowered.buffers}
    moved, read = set(), set()
    for op, _ in listed(lowered.body):
        source = op.inputs[0] if TABLE[op.row].kind is Kind.MOVEMENT else turned(op, buffers)
        aside = source.buffer if isinstance(source, Access) else None
        moved |= {aside}
        read |= {access.buffer for access in op.accesses if access.buffer != aside}
    return frozenset(name for name in moved if name is not None and name not in read)
