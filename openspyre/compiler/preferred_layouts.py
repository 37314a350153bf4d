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
from openspyre.spec.ops import TABLE, Indexing, Kind


def preferred_layouts(program: Program, lowered: Program, movable: Collection[str]) -> dict[str, SpyreTensorLayout]:
    """Layouts for the movable inputs that every reader in `lowered`, made of `program`, moves or turns first.

    One that somebody reads as it lies stays. A table whose rows are looked up, and no more, lies as its copies would.
    """
    tables = {name: layout for name, layout in _tables(lowered).items() if name in movable}
    moved = _moved_by_all(lowered) & frozenset(movable)
    if not moved:
        return tables
    asked = program
    for step in pipeline.passes():
        if isinstance(step, ChooseLayouts):
            asked = replace(step, movable=tuple(sorted(moved))).run(asked)
            break
        asked = step.run(asked)
    present = {buffer.name: buffer.layout for buffer in program.buffers}
    chosen = {buffer.name: buffer.layout for buffer in asked.buffers if buffer.name in moved}
    return tables | {n: layout for n, layout in chosen.items() if layout is not None and layout != present[n]}


def _tables(lowered: Program) -> dict[str, SpyreTensorLayout]:
    """What nobody reads but to copy the whole of it for gathers, all in one layout."""
    buffers = {buffer.name: buffer for buffer in lowered.buffers}
    gathered = {op.accesses[0].buffer for op, _ in listed(lowered.body) if TABLE[op.row].indexing is Indexing.READ}
    found: dict[str, set[SpyreTensorLayout | None]] = {}
    for op, _ in listed(lowered.body):
        for access in op.accesses:
            own, target = buffers[access.buffer], buffers[op.outputs[0].buffer]
            whole = (own.size, own.stride) == (target.size, target.stride) and access.offset == 0
            copies = op.row == "identity" and target.name in gathered and whole and access.strides == own.stride
            found.setdefault(own.name, set()).add(target.layout if copies else None)
    return {name: layout for name, (layout, *others) in found.items() if layout is not None and not others}


def _moved_by_all(lowered: Program) -> frozenset[str]:
    """What only relayouts read, and contractions that turn it block by block. A copy for a gather leaves rows in their sticks."""
    buffers = {buffer.name: buffer for buffer in lowered.buffers}
    tables = {op.accesses[0].buffer for op, _ in listed(lowered.body) if TABLE[op.row].indexing is Indexing.READ}
    moved, read = set(), set()
    for op, _ in listed(lowered.body):
        moves = TABLE[op.row].kind is Kind.MOVEMENT and not (op.row == "identity" and op.outputs[0].buffer in tables)
        source = op.inputs[0] if moves else turned(op, buffers)
        aside = source.buffer if isinstance(source, Access) else None
        moved |= {aside}
        read |= {access.buffer for access in op.accesses if access.buffer != aside}
    return frozenset(name for name in moved if name is not None and name not in read)
