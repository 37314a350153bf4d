"""Pieces of one tensor that meet within its sticks: put together where another dim runs along them, and moved once, as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from math import prod

from openspyre.compiler.emit.walk import fills_sticks
from openspyre.compiler.ir import Access, Buffer, Dim, Loop, Op, Program, Role
from openspyre.compiler.moves import layout_along
from openspyre.compiler.sticks import Misfit, stick_access, walks_of

Cost = Callable[[Op, Mapping[str, Buffer], bool], int | None]  # of a relayout, whose target holds something or not


def put_together(program: Program, moves: Callable[[Op], bool], cost: Cost) -> Program:
    """The program with such pieces in a temp, and a relayout behind the last of them. `moves`: whether an op may be a piece.

    A program with loops stays as it is: pieces of an iteration may be written in the next one.
    """
    if any(isinstance(node, Loop) for node in program.body):
        return program
    buffers = {buffer.name: buffer for buffer in program.buffers}
    ops = list(program.ops)
    behind: dict[int, Op] = {}  # the relayout of a whole, by the place of its last piece
    read: dict[str, int] = {}  # first
    written: dict[str, list[int]] = {}
    for place, op in enumerate(ops):
        for operand in op.inputs:
            if isinstance(operand, Access):
                read.setdefault(operand.buffer, place)
        for name in {access.buffer for access in op.outputs}:
            written.setdefault(name, []).append(place)
    for buffer in program.buffers:
        found = written.get(buffer.name, [])
        if len(found) < 2 or not all(moves(ops[place]) for place in found):
            continue
        early = read.get(buffer.name, len(ops)) <= found[-1]
        if early or buffer.role not in (Role.TEMP, Role.OUTPUT) or buffer.unset or 0 in buffer.size:
            continue
        if any(_shares_a_stick(ops[place], buffer) for place in found) and _cover(buffer, ops, found):
            temp = _temp(buffer, [ops[place] for place in found], buffers, cost)
            if temp is not None:
                buffers[temp.name] = temp
                behind[found[-1]] = _whole(buffer, temp, ops[found[-1]])
                for place in found:
                    ops[place] = _into(ops[place], temp)
    body = tuple(op for place, own in enumerate(ops) for op in (own, behind.get(place)) if op is not None)
    return replace(program, buffers=tuple(buffers.values()), body=body)


def _shares_a_stick(op: Op, buffer: Buffer) -> bool:
    found = stick_access(op.outputs[0], op.dims, buffer)
    if isinstance(found, Misfit):
        return True
    return not fills_sticks(op.outputs[0], buffer, 1 if found.lane_dim is None else op.dims[found.lane_dim].size)


def _cover(buffer: Buffer, ops: list[Op], found: list[int]) -> bool:
    """Whether the pieces are all of the buffer, and lie apart."""
    ranges = [_ranges(ops[place], buffer) for place in found]
    known = [each for each in ranges if each is not None]
    apart = all(
        any(a.stop <= b.start or b.stop <= a.start for a, b in zip(*pair, strict=True))
        for pair in combinations(known, 2)
    )
    moved = sum(prod(dim.size for dim in ops[place].dims) for place in found)
    return len(known) == len(found) and apart and moved == prod(buffer.size)


def _ranges(op: Op, buffer: Buffer) -> list[range] | None:
    """What a piece touches of each dim that the layout tiles apart; None if it is not written along these."""
    assert buffer.layout is not None
    walks = walks_of(op.outputs[0], op.dims, buffer)
    groups = buffer.layout.addressing(buffer.size, buffer.stride).groups
    steps = [step for step, dim in zip(op.outputs[0].strides, op.dims, strict=True) if dim.size > 1]
    if walks is None or len(walks) != len(groups) or any(step <= 0 for step in steps):
        return None
    return [
        range(walk.start, walk.start + sum(s * (d.size - 1) for s, d in zip(walk.steps, op.dims, strict=True)) + 1)
        for walk in walks
    ]


def _temp(buffer: Buffer, pieces: list[Op], buffers: Mapping[str, Buffer], cost: Cost) -> Buffer | None:
    """The temp that makes all of it cheapest; none if a part could not be done."""
    own = {access.buffer: buffers[access.buffer] for op in pieces for access in op.accesses}
    best: tuple[int, Buffer] | None = None
    for temp in _temps(buffer):
        there = own | {temp.name: temp}
        costs = [cost(_into(op, temp), there, number > 0) for number, op in enumerate(pieces)]
        costs.append(cost(_whole(buffer, temp, pieces[-1]), there, False))
        costs.append(temp.layout.device_bytes if temp.layout is not None else 0)
        known = [each for each in costs if each is not None]
        if len(known) == len(costs) and (best is None or sum(known) < best[0]):
            best = sum(known), temp
    return None if best is None else best[1]


def _temps(buffer: Buffer) -> Iterator[Buffer]:
    assert buffer.layout is not None
    for stick in (*range(len(buffer.size)), None):
        if stick is None or buffer.size[stick] > 1:
            layout = layout_along(buffer.size, buffer.stride, stick, buffer.layout.device_dtype)
            yield replace(buffer, name=f"{buffer.name}.pieces", role=Role.TEMP, layout=layout)


def _into(op: Op, temp: Buffer) -> Op:
    return replace(op, row="relayout", outputs=(op.outputs[0].on(temp.name),))


def _whole(buffer: Buffer, temp: Buffer, like: Op) -> Op:
    kept = [d for d, size in enumerate(buffer.size) if size > 1]
    dims = tuple(Dim(f"d{d}", buffer.size[d]) for d in kept)
    there = Access(buffer.name, 0, tuple(buffer.stride[d] for d in kept), buffer.dtype)
    origin = like.origin.changed("decomposition", "DecomposeRelayouts", "its pieces meet outside of the sticks")
    return Op(f"{buffer.name}.whole", "relayout", dims, (there.on(temp.name),), (there,), origin=origin)
