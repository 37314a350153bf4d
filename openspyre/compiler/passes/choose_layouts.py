"""Gives every buffer without a layout the one with which the fewest bytes must be moved, over the whole program.

A first choice follows the flow of data. Where that leaves relayouts, the buffers around them are chosen again together: all
combinations where these are few, the best `width` of them at every step where they are many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from openspyre.compiler.ir import Access, Buffer, Op, Program, Role
from openspyre.compiler.legality import layout_cost, misfits
from openspyre.compiler.loops import listed
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.compiler.structure import without_names
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.formats import require_supported
from openspyre.spec.layout import MAX_RANK, SpyreTensorLayout
from openspyre.spec.ops import TABLE, Kind
from openspyre.spec.sharing import Memo


@dataclass(frozen=True, slots=True)
class ChooseLayouts:
    """`width`: combinations of layouts kept from one buffer to the next; 0: the first choice stays. `movable`: inputs whose layouts are chosen anew."""

    width: int = 16
    movable: tuple[str, ...] = ()

    def run(self, program: Program) -> Program:
        open_choices = {buffer.name for buffer in program.buffers if buffer.layout is None}.union(self.movable)
        # Ops that go element by element want the flat buffers they were built with, whatever fills those.
        ops = [op for op, _ in listed(program.body)]
        flat = {access.buffer for op in ops if TABLE[op.row].by_element for access in op.accesses}
        open_choices -= flat
        chosen = _follow_the_flow(program, ops, flat)
        if self.width and (len(ops) > 1 or self.movable):
            _improve(ops, chosen, open_choices, self.width)
        return replace(program, buffers=tuple(chosen.values()))


def _follow_the_flow(program: Program, ops: list[Op], flat: set[str]) -> dict[str, Buffer]:
    """A result lies as the first operand of its shape does, else by the documented rule; that of a contraction and a flat one always."""
    chosen = {buffer.name: buffer for buffer in program.buffers}
    for op in ops:
        for unwritten in (a for a in op.inputs if isinstance(a, Access) and chosen[a.buffer].layout is None):
            buffer = chosen[unwritten.buffer]
            chosen[buffer.name] = replace(buffer, layout=default_layout(buffer))
        for output in op.outputs:
            buffer = chosen[output.buffer]
            if buffer.layout is None:
                follows = TABLE[op.row].kind is not Kind.CONTRACTION and buffer.name not in flat
                operands = [chosen[a.buffer] for a in op.inputs if isinstance(a, Access) and follows]
                may_be_sparse = buffer.role is Role.TEMP and buffer.name not in flat
                sparse = _sparse_layout(buffer) if may_be_sparse and _is_one_a_stick(op, chosen) else None
                chosen[buffer.name] = replace(buffer, layout=sparse or _layout_for(buffer, operands))
    # A result that nobody writes (torch.empty, filled by a later launch) is an argument of the bundle all the same.
    untouched = [b for b in chosen.values() if b.layout is None and b.role is Role.OUTPUT]
    return chosen | {buffer.name: replace(buffer, layout=default_layout(buffer)) for buffer in untouched}


def _is_one_a_stick(op: Op, chosen: Mapping[str, Buffer]) -> bool:
    """Whether results come one to a stick: folded along sticks, or made of such."""
    found = [stick_access(a, op.dims, chosen[a.buffer]) for a in op.inputs if isinstance(a, Access)]
    if TABLE[op.row].kind is Kind.REDUCTION:
        first = found[0] if found else None
        return isinstance(first, StickAccess) and first.lane_dim is not None and op.dims[first.lane_dim].reduced
    if TABLE[op.row].kind is not Kind.POINTWISE or not any(any(a.strides) for a in op.inputs if isinstance(a, Access)):
        return False
    return all(isinstance(each, StickAccess) and each.lane_dim is None for each in found)


def _sparse_layout(buffer: Buffer) -> SpyreTensorLayout | None:
    if len(buffer.size) >= MAX_RANK:
        return None
    return SpyreTensorLayout(list(buffer.size), list(buffer.stride), buffer.dtype, [*range(len(buffer.size)), -1])


def _layout_for(buffer: Buffer, operands: list[Buffer]) -> SpyreTensorLayout:
    for operand in operands:
        same_shape = (operand.size, operand.stride) == (buffer.size, buffer.stride)
        if same_shape and operand.layout and operand.layout.device_dtype == require_supported(buffer.dtype).device:
            return operand.layout
    return default_layout(buffer)


def default_layout(buffer: Buffer) -> SpyreTensorLayout:
    """The documented rule: the last dim on the stick."""
    return _last_on_stick(buffer.size, buffer.stride, buffer.dtype)


@lru_cache(maxsize=4096)
def _last_on_stick(size: tuple[int, ...], stride: tuple[int, ...], dtype: str) -> SpyreTensorLayout:
    return SpyreTensorLayout(list(size), list(stride), dtype, list(range(len(size))))


_TOGETHER = 6  # buffers that are chosen together at most
_SMALL_BYTES = 1 << 20

# --- choosing again ------------------------------------------------------------------------------------------------------


def _improve(ops: list[Op], chosen: dict[str, Buffer], open_choices: set[str], width: int) -> None:
    touching: dict[str, list[Op]] = {}
    for op in ops:
        for name in {access.buffer for access in op.accesses}:
            touching.setdefault(name, []).append(op)
    decided: set[str] = set()
    for op in ops:
        if not layout_cost(op, chosen):
            continue
        own = [name for name in dict.fromkeys(a.buffer for a in op.accesses) if name in open_choices]
        _choose_together([name for name in own if name not in decided], touching, chosen, width)
        if any(misfits(op, chosen)):  # perhaps those next to it would have to turn as well
            next_to = [a.buffer for name in own for other in touching[name] for a in other.accesses]
            around = [name for name in dict.fromkeys([*own, *next_to]) if name in open_choices and name not in decided]
            _choose_together(around[:_TOGETHER], touching, chosen, width)
            decided |= set(around)
        decided |= set(own)


def _choose_together(names: list[str], touching: dict[str, list[Op]], chosen: dict[str, Buffer], width: int) -> None:
    """Give these buffers the layouts that cost least; they keep theirs unless something is strictly better."""
    if not names:
        return
    affected = list({op.name: op for name in names for op in touching[name]}.values())
    layouts = _layouts(names, affected, chosen, width)
    for name, layout in zip(names, layouts, strict=True):
        chosen[name] = replace(chosen[name], layout=layout)


_Layouts = tuple[SpyreTensorLayout | None, ...]
_solved: Memo[_Layouts] = Memo()


def _layouts(names: list[str], ops: list[Op], chosen: dict[str, Buffer], width: int) -> _Layouts:
    """The layouts of the named buffers. What decides them is a problem in which names are numbers: equal layers pose equal ones."""
    touched = dict.fromkeys([*names, *(access.buffer for op in ops for access in op.accesses)])
    number = {name: place for place, name in enumerate(touched)}
    plain = tuple([(without_names(op, number), repr(op.attributes)) for op in ops])
    lying = tuple([(b.dtype, b.size, b.stride, b.role, b.layout) for b in map(chosen.__getitem__, number)])
    return _solved.get((width, len(names), lying, plain), lambda: _solve(names, ops, chosen, width))


def _solve(names: list[str], ops: list[Op], fixed: dict[str, Buffer], width: int) -> _Layouts:
    """Beam search over the open buffers, in order; an op counts once all its open buffers are chosen."""
    last = [max(names.index(a.buffer) for a in op.accesses if a.buffer in names) for op in ops]
    states: list[tuple[int, dict[str, Buffer]]] = [(0, {})]
    for place, name in enumerate(names):
        decidable = [_Cost(op, fixed) for op, when in zip(ops, last, strict=True) if when == place]
        options = [replace(fixed[name], layout=layout) for layout in _candidates(fixed[name])]
        grown = []
        for cost, picked in states:
            for option in options:
                now = {**picked, name: option}
                grown.append((cost + sum([op.given(now) for op in decidable]), now))
        states = sorted(grown, key=lambda state: state[0])[:width]
    before = sum(layout_cost(op, fixed) for op in ops)
    best = states[0][1] if states[0][0] < before else fixed
    return tuple(best[name].layout for name in names)


class _Cost:
    """What an op moves, asked once per combination of its own buffers: most states differ in others."""

    def __init__(self, op: Op, fixed: Mapping[str, Buffer]) -> None:
        self._op = op
        self._buffers = {access.buffer: fixed[access.buffer] for access in op.accesses}
        self._known: dict[tuple[SpyreTensorLayout | None, ...], int] = {}

    def given(self, picked: Mapping[str, Buffer]) -> int:
        """With the buffers picked so far; others are as they were."""
        layouts = tuple([picked.get(name, buffer).layout for name, buffer in self._buffers.items()])
        if layouts not in self._known:
            buffers = {name: picked.get(name, buffer) for name, buffer in self._buffers.items()}
            self._known[layouts] = layout_cost(self._op, buffers)
        return self._known[layouts]


def _candidates(buffer: Buffer) -> list[SpyreTensorLayout]:
    """The present layout first, then every dim of the buffer, or of its runs of dims that lie behind each other, on the stick.

    An input or a constant keeps the layout it gets, so none that is mostly padding, unless it is small.
    """
    found = [buffer.layout] if buffer.layout is not None else []
    stays = buffer.role in (Role.INPUT, Role.CONSTANT)
    present = buffer.layout.device_bytes if buffer.layout is not None and stays else None
    for size, stride in dict.fromkeys(((buffer.size, buffer.stride), *_merged(buffer.size, buffer.stride))):
        for order in _orders(size):
            try:
                layout = SpyreTensorLayout(list(size), list(stride), buffer.dtype, order)
                layout.addressing(buffer.size, buffer.stride)
            except InvalidLayout:
                continue
            if layout not in found and (present is None or layout.device_bytes <= max(2 * present, _SMALL_BYTES)):
                found.append(layout)
    return found


def _orders(size: tuple[int, ...]) -> Iterator[list[int]]:
    """Dim orders with each dim last, and the sparse one: one element a stick."""
    for last in [d for d, n in enumerate(size) if n > 1]:
        yield [*(d for d in range(len(size)) if d != last), last]
    yield [*range(len(size)), -1]


Geometry = tuple[tuple[int, ...], tuple[int, ...]]


def _merged(size: Iterable[int], stride: Iterable[int]) -> Iterator[Geometry]:
    """Dims in the order in which they lie in memory; then, one by one from the last, those that run on into each other as one."""
    runs = sorted(((n, s) for n, s in zip(size, stride, strict=True) if n > 1), key=lambda pair: -pair[1])
    while runs:
        yield tuple(n for n, _ in runs), tuple(s for _, s in runs)
        (outer, step), (inner, unit) = (runs[-2], runs[-1]) if len(runs) > 1 else ((0, 0), runs[-1])
        if step != inner * unit:
            return
        runs = [*runs[:-2], (outer * inner, unit)]
