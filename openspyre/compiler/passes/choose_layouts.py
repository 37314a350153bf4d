"""Gives every buffer without a layout the one with which the fewest bytes must be moved, over the whole program.

A first choice follows the flow of data. Where that leaves relayouts, the buffers around them are chosen again together: all
combinations where these are few, the best `width` of them at every step where they are many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Buffer, Op, Program
from openspyre.compiler.legality import relayout_bytes
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.formats import require_supported
from openspyre.spec.layout import SpyreTensorLayout


@dataclass(frozen=True, slots=True)
class ChooseLayouts:
    """`width`: combinations of layouts kept from one buffer to the next."""

    width: int = 32

    def run(self, program: Program) -> Program:
        open_choices = {buffer.name for buffer in program.buffers if buffer.layout is None}
        chosen = _follow_the_flow(program)
        if len(program.ops) > 1:
            _improve(program, chosen, open_choices, self.width)
        return replace(program, buffers=tuple(chosen.values()))


def _follow_the_flow(program: Program) -> dict[str, Buffer]:
    """A result lies as the first operand of its shape does, else by the documented rule."""
    chosen = {buffer.name: buffer for buffer in program.buffers}
    for op in program.ops:
        for output in op.outputs:
            buffer = chosen[output.buffer]
            if buffer.layout is None:
                operands = [chosen[a.buffer] for a in op.inputs if isinstance(a, Access)]
                chosen[buffer.name] = replace(buffer, layout=_layout_for(buffer, operands))
    return chosen


def _layout_for(buffer: Buffer, operands: list[Buffer]) -> SpyreTensorLayout:
    for operand in operands:
        same_shape = (operand.size, operand.stride) == (buffer.size, buffer.stride)
        if same_shape and operand.layout and operand.layout.device_dtype == require_supported(buffer.dtype).device:
            return operand.layout
    return default_layout(buffer)


def default_layout(buffer: Buffer) -> SpyreTensorLayout:
    """The documented rule: the last dim on the stick."""
    return SpyreTensorLayout(list(buffer.size), list(buffer.stride), buffer.dtype, list(range(len(buffer.size))))


# --- choosing again ------------------------------------------------------------------------------------------------------


def _improve(program: Program, chosen: dict[str, Buffer], open_choices: set[str], width: int) -> None:
    touching: dict[str, list[Op]] = {}
    for op in program.ops:
        for name in {access.buffer for access in op.accesses}:
            touching.setdefault(name, []).append(op)
    costly = [op for op in program.ops if relayout_bytes(op, chosen)]
    decided: set[str] = set()
    for op in costly:
        around = [name for name in _around(op, touching, open_choices) if name not in decided]
        decided |= set(around)
        _choose_together(around, touching, chosen, width)


def _around(op: Op, touching: dict[str, list[Op]], open_choices: set[str]) -> list[str]:
    """The open buffers of an op, and those of the ops next to it."""
    own = [access.buffer for access in op.accesses if access.buffer in open_choices]
    next_to = [access.buffer for name in own for other in touching[name] for access in other.accesses]
    return list(dict.fromkeys([*own, *(name for name in next_to if name in open_choices)]))


def _choose_together(names: list[str], touching: dict[str, list[Op]], chosen: dict[str, Buffer], width: int) -> None:
    """Beam search; `chosen` keeps its layouts unless something is strictly better."""
    affected = list({op.name: op for name in names for op in touching[name]}.values())
    last_of = {op.name: max(names.index(a.buffer) for a in op.accesses if a.buffer in names) for op in affected}
    states: list[tuple[int, dict[str, Buffer]]] = [(0, {})]
    for place, name in enumerate(names):
        decidable = [op for op in affected if last_of[op.name] == place]
        grown = []
        for cost, picked in states:
            for layout in _candidates(chosen[name]):
                now = {**picked, name: replace(chosen[name], layout=layout)}
                seen = {**chosen, **now} if len(chosen) < 64 else _Overlay(chosen, now)
                grown.append((cost + sum(relayout_bytes(op, seen) for op in decidable), now))
        states = sorted(grown, key=lambda state: state[0])[:width]
    before = sum(relayout_bytes(op, chosen) for op in affected)
    if states[0][0] < before:
        chosen.update(states[0][1])


class _Overlay(dict[str, Buffer]):
    """Some buffers in front of many."""

    def __init__(self, behind: dict[str, Buffer], front: dict[str, Buffer]) -> None:
        super().__init__(front)
        self._behind = behind

    def __missing__(self, name: str) -> Buffer:
        return self._behind[name]


def _candidates(buffer: Buffer) -> list[SpyreTensorLayout]:
    """The present layout first, then every dim of the buffer, or of its runs of dims that lie behind each other, on the stick."""
    found = [buffer.layout] if buffer.layout is not None else []
    for size, stride in dict.fromkeys(((buffer.size, buffer.stride), _merged(buffer.size, buffer.stride))):
        for order in _orders(size):
            try:
                layout = SpyreTensorLayout(list(size), list(stride), buffer.dtype, order)
                layout.addressing(buffer.size, buffer.stride)
            except InvalidLayout:
                continue
            if layout not in found:
                found.append(layout)
    return found


def _orders(size: tuple[int, ...]) -> Iterator[list[int]]:
    """Dim orders with each dim last, and the sparse one: one element a stick."""
    for last in [d for d, n in enumerate(size) if n > 1]:
        yield [*(d for d in range(len(size)) if d != last), last]
    yield [*range(len(size)), -1]


def _merged(size: Iterable[int], stride: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dims in the order in which they lie in memory, those that run on into each other as one."""
    runs: list[tuple[int, int]] = []
    for n, s in sorted(((n, s) for n, s in zip(size, stride, strict=True) if n > 1), key=lambda pair: -pair[1]):
        if runs and runs[-1][1] == n * s:
            runs[-1] = (runs[-1][0] * n, s)
        else:
            runs.append((n, s))
    runs = runs or [(1, 1)]
    return tuple(n for n, _ in runs), tuple(s for _, s in runs)
