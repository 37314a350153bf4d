"""Relayouts one behind the other: elements go at once where they end up, whatever temps stand between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import prod

from openspyre.program.model import Step, View


@dataclass(frozen=True, slots=True)
class _Dim:
    """A dim of a relayout: its size, and its steps on both sides."""

    size: int
    here: int
    there: int


def read_through(reader: Step, maker: Step) -> Step | None:
    """A relayout of what another one moved, reading what that one read."""
    here, there = maker.views[1], maker.views[0]
    if not _same_buffer(reader.views[0], here) or reader.inputs[0].offset != maker.outputs[0].offset:
        return None
    source = _rebased(reader.views[0], here, there)
    return None if source is None else replace(reader, inputs=maker.inputs, views=(source, reader.views[1]))


def written_through(writer: Step, reader: Step) -> Step | None:
    """A relayout into what another one moves on, writing where that one writes."""
    here, there = reader.views
    if not _same_buffer(writer.views[1], here) or writer.outputs[0].offset != reader.inputs[0].offset:
        return None
    target = _rebased(writer.views[1], here, there)
    return None if target is None else replace(writer, outputs=reader.outputs, views=(writer.views[0], target))


def moves_nothing(step: Step) -> bool:
    """Whether every element comes from where it goes, if both sides begin at the same byte."""
    source, target = step.views
    here, there = step.inputs[0], step.outputs[0]
    return source == replace(target, symbol=source.symbol) and here == replace(there, symbol=here.symbol)


def covered(reader: Step, writers: Sequence[Step]) -> bool:
    """Whether relayouts write, each its own part, all that another one reads."""
    source = reader.views[0]
    return any(_cover(_dims(source, source, joined=joined), source, writers) for joined in (False, True))


def _cover(dims: list[_Dim] | None, source: View, writers: Sequence[Step]) -> bool:
    if dims is None:
        return False
    ranges: list[list[range]] = []
    for writer in writers:
        view = writer.views[1]
        found = _index(view, source, dims)
        if found is None or any(n > 1 and not s for n, s in zip(view.size, view.stride, strict=True)):
            return False
        ends = [start + sum(s * (n - 1) for s, n in zip(steps, view.size, strict=True)) for start, steps in found]
        ranges.append([range(start, end + 1) for (start, _), end in zip(found, ends, strict=True)])
    apart = all(any(not _meet(a, b) for a, b in zip(*pair, strict=True)) for pair in combinations(ranges, 2))
    moved = sum(prod(writer.views[1].size) for writer in writers)
    return apart and moved == prod(dim.size for dim in dims)


def _meet(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def steady(steps: Sequence[Step]) -> int:
    """How many relayouts, from the first on, differ in nothing but where they begin, and that by the same steps each time."""
    views = [step.views for step in steps]
    steps_on = [(b[0].offset - a[0].offset, b[1].offset - a[1].offset) for a, b in pairwise(views)]
    count = 1
    for step, on in zip(steps[1:], steps_on, strict=True):
        like = replace(step, name=steps[0].name, views=_from_begin(step))
        if on != steps_on[0] or min(on) < 0 or on[1] == 0 or like != replace(steps[0], views=_from_begin(steps[0])):
            break
        count += 1
    return count


def rolled(*steps: Step) -> Step:
    """Such relayouts as one."""
    first, second = steps[0].views, steps[1].views
    views = tuple(
        replace(view, size=(len(steps), *view.size), stride=(other.offset - view.offset, *view.stride))
        for view, other in zip(first, second, strict=True)
    )
    return replace(steps[0], views=views)


def _from_begin(step: Step) -> tuple[View, ...]:
    return tuple(replace(view, offset=0) for view in step.views)


def _same_buffer(one: View, other: View) -> bool:
    return _buffer(one) == _buffer(other)


def _buffer(view: View) -> tuple[object, ...]:
    return (view.symbol, view.dtype, view.layout, view.buffer_dtype, view.buffer_size, view.buffer_stride)


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


def _dims(here: View, there: View, *, joined: bool = True) -> list[_Dim] | None:
    """Dims by decreasing steps on this side, joined where both sides count on; None if elements lie on each other here."""
    found: list[_Dim] = []
    sides = zip(here.size, here.stride, there.stride, strict=True)
    for dim in sorted([_Dim(*each) for each in sides if each[0] > 1], key=lambda dim: -dim.here):
        last = found[-1] if found else None
        if dim.here <= 0:
            return None
        if joined and last is not None and (last.here, last.there) == (dim.size * dim.here, dim.size * dim.there):
            found[-1] = _Dim(last.size * dim.size, dim.here, dim.there)
        else:
            found.append(dim)
    return found


def _index(view: View, here: View, dims: Sequence[_Dim]) -> list[tuple[int, list[int]]] | None:
    """Where a view begins and how it steps along the dims of a relayout; None where it leaves them, or carries from one to another."""
    rest = view.offset - here.offset
    left = [0 if size == 1 else step for size, step in zip(view.size, view.stride, strict=True)]
    if rest < 0 or any(step < 0 for step in left):
        return None
    found = []
    for dim in dims:
        start, rest = divmod(rest, dim.here)
        steps = [step // dim.here for step in left]
        left = [step % dim.here for step in left]
        if start + sum(step * (size - 1) for step, size in zip(steps, view.size, strict=True)) >= dim.size:
            return None
        found.append((start, steps))
    return None if rest or any(left) else found
