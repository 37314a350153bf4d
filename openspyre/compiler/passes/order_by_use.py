"""Puts every op right before the first one that needs its result, for the strategy `documented`: so torch's scheduler orders them.

From the results back: behind an op come those that made its operands, the last operand's first, each once all its readers have come.
Ops that write into one buffer stay together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Op, Program, Role
from openspyre.spec.ops import TABLE, Kind


@dataclass(frozen=True, slots=True)
class OrderByUse:
    """No options."""

    def run(self, program: Program) -> Program:
        if any(b.role is Role.UPDATE for b in program.buffers) or any(map(_draws, program.ops)):
            return program  # what is changed in place, and random numbers, have an order of their own
        groups = _groups(program.ops)
        results = [buffer.name for buffer in program.buffers if buffer.role is Role.OUTPUT]
        body = [op for number in _ordered(groups, results) for op in groups[number]]
        return replace(program, body=tuple(body)) if len(body) == len(program.ops) else program


def _draws(op: Op) -> bool:
    return TABLE[op.row].kind is Kind.RANDOM


def _groups(ops: Sequence[Op]) -> list[list[Op]]:
    """Ops that have to stay together: those that write into the same buffer."""
    groups: list[list[Op]] = []
    of_buffer: dict[str, int] = {}
    for op in ops:
        known = [of_buffer[output.buffer] for output in op.outputs if output.buffer in of_buffer]
        place = known[0] if known else len(groups)
        if place == len(groups):
            groups.append([])
        groups[place].append(op)
        of_buffer |= {output.buffer: place for output in op.outputs}
    return groups


def _ordered(groups: Sequence[Sequence[Op]], results: Sequence[str]) -> list[int]:
    maker = {output.buffer: number for number, group in enumerate(groups) for op in group for output in op.outputs}
    needs = [
        [maker[name] for name in _read(group) if name in maker and maker[name] != number]
        for number, group in enumerate(groups)
    ]
    wanted = [maker[name] for name in results if name in maker]
    used = {number for others in (*needs, wanted) for number in others}
    wanted += [number for number in range(len(groups)) if number not in used]
    waits = Counter(number for others in (*needs, wanted) for number in set(others))
    order: list[int] = []
    pending: list[int] = []

    def seen(others: Sequence[int]) -> None:
        for other in reversed(dict.fromkeys(reversed(others))):
            waits[other] -= 1
            if not waits[other]:
                pending.append(other)

    seen(wanted)
    while pending:
        order.append(pending.pop())
        seen(needs[order[-1]])
    return order[::-1]


def _read(group: Sequence[Op]) -> Iterator[str]:
    for op in group:
        yield from (operand.buffer for operand in op.inputs if isinstance(operand, Access))
