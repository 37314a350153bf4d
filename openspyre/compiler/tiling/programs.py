"""A whole program with its groups of tiled ops as loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from openspyre.compiler.ir import Node, Op, Program
from openspyre.compiler.tiling.groups import Group, Member, grouped
from openspyre.compiler.tiling.nest import Nest, Outside


def tiled(program: Program, members: Sequence[Member], *, reductions: bool, copy_reads: bool = True) -> Program:
    """`members`: the program's ops, in order. `copy_reads`: tiles of what a group reads are copied first."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    users = Counter(_names(member.op for member in members))
    nests: list[Nest] = []
    body: list[Node] = []
    for node in grouped(members):
        if isinstance(node, Op):
            body.append(node)
            continue
        outside = Outside(buffers, _used_elsewhere(node, users))
        nests.append(Nest(node, len(nests), outside, reductions=reductions, copy_reads=copy_reads))
        body += nests[-1].nodes()
    for nest in nests:
        buffers |= nest.buffers
    return replace(program, buffers=tuple(buffers.values()), body=tuple(body))


def _names(ops: Iterable[Op]) -> list[str]:
    """Buffers of each op, once an op."""
    return [name for op in ops for name in {access.buffer for access in op.accesses}]


def _used_elsewhere(group: Group, users: Counter[str]) -> frozenset[str]:
    own = Counter(_names(member.op for member in group.members))
    return frozenset(name for name, count in own.items() if users[name] > count)
