"""Relayouts one behind the other: elements go at once where they end up, whatever temps stand between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import prod

from openspyre.program.model import Operand, Relayout, View
from openspyre.spec.addressing import Along, along, joined


@dataclass(frozen=True, slots=True)
class _Dim:
    """A dim of a relayout: its size, and its steps on both sides."""

    size: int
    here: int
    there: int


def read_through(reader: Relayout, maker: Relayout) -> Relayout | None:
    """A relayout of what another one moved, reading what that one read."""
    if not _same_buffer(reader.inputs[0], reader.source, maker.outputs[0], maker.target):
        return None
    source = _rebased(reader.source, maker.target, maker.source)
    return None if source is None else _ordered(replace(reader, inputs=maker.inputs), source, reader.target)


def written_through(writer: Relayout, reader: Relayout) -> Relayout | None:
    """A relayout into what another one moves on, writing where that one writes."""
    if not _same_buffer(writer.outputs[0], writer.target, reader.inputs[0], reader.source):
        return None
    target = _rebased(writer.target, reader.source, reader.target)
    return None if target is None else _ordered(replace(writer, outputs=reader.outputs), writer.source, target)


def moves_nothing(step: Relayout) -> bool:
    """Whether every element comes from where it goes, if both sides begin at the same byte."""
    here, there = step.inputs[0], step.outputs[0]
    return step.source == step.target and here == replace(there, symbol=here.symbol)


def covered(reader: Relayout, writers: Sequence[Relayout]) -> bool:
    """Whether relayouts write, each its own part, all that another one reads."""
    source = reader.source
    return any(_cover(_dims(source, source, join=join), source, writers) for join in (False, True))


def _cover(dims: list[_Dim] | None, source: View, writers: Sequence[Relayout]) -> bool:
    if dims is None:
        return False
    ranges: list[list[range]] = []
    for writer in writers:
        view = writer.target
        found = _index(view, source, dims)
        if found is None or any(n > 1 and not s for n, s in zip(view.size, view.stride, strict=True)):
            return False
        ends = [start + sum(s * (n - 1) for s, n in zip(steps, view.size, strict=True)) for start, steps in found]
        ranges.append([range(start, end + 1) for (start, _), end in zip(found, ends, strict=True)])
    apart = all(any(not _meet(a, b) for a, b in zip(*pair, strict=True)) for pair in combinations(ranges, 2))
    moved = sum(prod(writer.target.size) for writer in writers)
    return apart and moved == prod(dim.size for dim in dims)


def _meet(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def steady(steps: Sequence[Relayout]) -> int:
    """How many relayouts, from the first on, differ in nothing but where they begin, and that by the same steps each time."""
    steps_on = [(b.source.offset - a.source.offset, b.target.offset - a.target.offset) for a, b in pairwise(steps)]
    first, count = _from_begin(steps[0]), 1
    for step, on in zip(steps[1:], steps_on, strict=True):
        like = replace(_from_begin(step), name=first.name)
        if on != steps_on[0] or min(on) < 0 or on[1] == 0 or like != first:
            break
        count += 1
    return count


def rolled(*steps: Relayout) -> Relayout:
    """Such relayouts as one."""
    first, second = steps[:2]
    sides = ((first.source, second.source), (first.target, second.target))
    source, target = (
        replace(view, size=(len(steps), *view.size), stride=(other.offset - view.offset, *view.stride))
        for view, other in sides
    )
    return _ordered(first, source, target)


def _ordered(step: Relayout, source: View, target: View) -> Relayout:
    """The DMA goes by the order of dims: the target's, so that its sticks are written one after the other."""
    order = sorted(range(len(target.size)), key=lambda d: -target.stride[d])

    def ordered(view: View) -> View:
        return replace(view, size=tuple(view.size[d] for d in order), stride=tuple(view.stride[d] for d in order))

    return replace(step, source=ordered(source), target=ordered(target))


def _from_begin(step: Relayout) -> Relayout:
    return replace(step, source=replace(step.source, offset=0), target=replace(step.target, offset=0))


def _same_buffer(one: Operand, view: View, other: Operand, there: View) -> bool:
    """Whether two views of relayouts are of the same buffer, which begins where their operands do."""
    return (one.symbol, one.offset) == (other.symbol, other.offset) and _buffer(view) == _buffer(there)


def _buffer(view: View) -> tuple[object, ...]:
    return (view.dtype, view.layout, view.buffer_dtype, view.buffer_size, view.buffer_stride)


def _rebased(view: View, here: View, there: View) -> View | None:
    """A view of the buffer of `here` as one of that of `there`, whose elements the same relayout has."""
    dims = _dims(here, there) if here.dtype == there.dtype else None
    found = None if dims is None else _index(view, here, dims)
    if dims is None or found is None:
        return None
    strides = [0] * len(view.size)
    for dim, (_, steps) in zip(dims, found, strict=True):
        strides = [stride + step * dim.there for stride, step in zip(strides, steps, strict=True)]
    offset = there.offset + sum(start * dim.there for dim, (start, _) in zip(dims, found, strict=True))
    return replace(there, offset=offset, size=view.size, stride=tuple(strides))


def _dims(here: View, there: View, *, join: bool = True) -> list[_Dim] | None:
    """Dims by decreasing steps on this side, joined where both sides count on; None if elements lie on each other here."""
    sides = [each for each in zip(here.size, here.stride, there.stride, strict=True) if each[0] > 1]
    if any(stride <= 0 for _, stride, _ in sides):
        return None
    return [_Dim(*each) for each in (joined(sides) if join else sorted(sides, key=lambda each: -each[1]))]


def _index(view: View, here: View, dims: Sequence[_Dim]) -> list[Along] | None:
    """Where a view begins and how it steps along the dims of a relayout; None where it leaves them, or carries from one to another."""
    if any(step < 0 for size, step in zip(view.size, view.stride, strict=True) if size > 1):
        return None
    found, whole = along(view.offset - here.offset, view.stride, view.size, [(dim.here, dim.size) for dim in dims])
    return found if whole else None
