"""A whole program with its groups of tiled ops as loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from openspyre.compiler.ir import Node, Op, Program
from openspyre.compiler.tiling.groups import Group, Member, grouped
from openspyre.compiler.tiling.nest import Copies, Nest, Outside
from openspyre.compiler.tiling.span_overflow import FIRST_HINT

FIRST_CLOCK_HINT = 1 << 20  # levels that the clock asked for are numbered from here on


def tiled(program: Program, members: Sequence[Member], *, reductions: bool) -> Program:
    """`members`: the program's ops, in order. Tiles that a hint asked for are copied before they are read; those of the clock where several ops read them."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    users = Counter(_names(member.op for member in members))
    nests: list[Nest] = []
    body: list[Node] = []
    for node in grouped(members):
        if isinstance(node, Op):
            body.append(node)
            continue
        outside = Outside(buffers, _used_elsewhere(node, users))
        nests.append(Nest(node, len(nests), outside, reductions=reductions, copies=_copies(node.members[0].hints[0])))
        body += nests[-1].nodes()
    for nest in nests:
        buffers |= nest.buffers
    return replace(program, buffers=tuple(buffers.values()), body=tuple(body))


def _copies(hint: int) -> Copies:
    if hint >= FIRST_CLOCK_HINT:
        return Copies.FEWEST
    return Copies.ALL if hint < FIRST_HINT else Copies.RESULTS


def _names(ops: Iterable[Op]) -> list[str]:
    """Buffers of each op, once an op."""
    return [name for op in ops for name in {access.buffer for access in op.accesses}]


def _used_elsewhere(group: Group, users: Counter[str]) -> frozenset[str]:
    own = Counter(_names(member.op for member in group.members))
    return frozenset(name for name, count in own.items() if users[name] > count)
