"""Takes moves out of loops that are the same in every iteration: a weight turned for a product, say, is turned once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Loop, Node, Op, Program, Role
from openspyre.compiler.loops import listed
from openspyre.spec.ops import TABLE, Kind


@dataclass(frozen=True, slots=True)
class HoistMoves:
    """No options."""

    def run(self, program: Program) -> Program:
        if not any(isinstance(node, Loop) for node in program.body):
            return program
        temps = frozenset(buffer.name for buffer in program.buffers if buffer.role is Role.TEMP and not buffer.unset)
        return replace(program, body=tuple(_nodes(program.body, temps)))


def _nodes(body: Iterable[Node], temps: frozenset[str]) -> list[Node]:
    found: list[Node] = []
    for node in body:
        if isinstance(node, Op):
            found.append(node)
            continue
        inner = _nodes(node.body, temps)  # what leaves an inner loop may leave this one too
        out = _constant_moves(inner, temps)
        found += [each for each in inner if id(each) in out]
        found.append(Loop(node.count, tuple(each for each in inner if id(each) not in out)))
    return found


def _constant_moves(body: list[Node], temps: frozenset[str]) -> set[int]:
    """Ids of ops of a loop that read nothing which it changes, and are alone in writing what they write."""
    candidates = [node for node in body if isinstance(node, Op) and _moves(node)]
    written = Counter(access.buffer for op, _ in listed(body) for access in op.outputs)
    while True:
        own = Counter(access.buffer for op in candidates for access in op.outputs)
        kept = [
            op
            for op in candidates
            if all(own[a.buffer] == written[a.buffer] and a.buffer in temps for a in op.outputs)
            and all(written[a.buffer] == own[a.buffer] for a in op.inputs if isinstance(a, Access))
        ]
        if len(kept) == len(candidates):
            return {id(op) for op in kept} if len(kept) < len(body) else set()
        candidates = kept


def _moves(op: Op) -> bool:
    kind = TABLE[op.row].kind
    return kind in (Kind.MOVEMENT, Kind.CREATION) and not any(any(access.advance) for access in op.accesses)
