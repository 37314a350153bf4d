"""Fusion in programs with repeats: steps one behind the other are fused, in the body of a repeat too.

What is not fused with them stands in their list as bytes that are read and bytes that are written, which stay: the repeats among them,
and behind them all that the rest of the program, or the next iteration, may still read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from openspyre.backend.fusion.memory import Listed, Span, Touch, adds, in_memory, span_of
from openspyre.backend.fusion.values import lies_in, values_of, writes_all
from openspyre.program.model import Dim, LaneBlock, Node, Operand, OperandKind, Repeat, Step, Use
from openspyre.program.reach import itemsize, pieces
from openspyre.program.tree import steps_of

_ONE_LANE = LaneBlock(64, 1, -1)
_Listed = TypeVar("_Listed", bound=Listed)
Fuse = Callable[
    [Sequence[Listed], tuple[Use, ...]], Sequence[Listed] | None
]  # a list of steps; None: it stays as it is


@dataclass(frozen=True, slots=True)
class TreeFusion:
    """`uses` of the program's symbols, the pool's among them."""

    uses: tuple[Use, ...]
    fuse: Fuse

    def body(
        self, body: tuple[Node, ...], counts: tuple[int, ...] = (), later: Sequence[Touch] = ()
    ) -> tuple[Node, ...]:
        """A body in repeats of these counts; `later` reads what lies in scratch memory."""
        nodes: list[Node] = []
        for place, node in enumerate(body):
            if isinstance(node, Repeat):
                around = [*later, *self._reads((*body[:place], *body[place + 1 :]), counts)]
                inner = self.body(node.body, (*counts, node.count), around)
                nodes += [node] if inner is node.body else [Repeat(node.count, inner)] if inner else []
            else:
                nodes.append(node)
        found = self._run(nodes, counts, later)
        if found is not None:
            return found
        same = len(nodes) == len(body) and all(new is old for new, old in zip(nodes, body, strict=True))
        return body if same else tuple(nodes)

    @property
    def _scratch(self) -> frozenset[int]:
        return frozenset(symbol for symbol, use in enumerate(self.uses) if use is Use.SCRATCH)

    def _reads(self, nodes: Iterable[Node], counts: tuple[int, ...]) -> list[Touch]:
        """What nodes read of scratch memory in any iteration."""
        found = [touch for step, around in steps_of(nodes, counts) for touch in _touches(step, around, writes=False)]
        return [touch for touch in found if lies_in(touch.inputs[0], self._scratch)]

    def _run(self, nodes: Sequence[Node], counts: tuple[int, ...], later: Sequence[Touch]) -> tuple[Node, ...] | None:
        listed: list[Listed] = []
        summed: dict[str, Repeat] = {}  # by the name of what stands for it
        for node in nodes:
            if not isinstance(node, Repeat):
                listed.append(node)
                continue
            name = f"repeat {len(summed)}"
            summed[name] = node
            listed += [replace(touch, name=name) for touch in _summary(node, len(counts))]
        if len(nodes) - len(summed) < 2:
            return None
        classes = _Classes.of(listed, counts, self.uses) if counts else _Classes(self.uses, {})
        if classes is None:
            return None
        apart = [classes.apart(step) for step in listed]
        behind = [*later, *_exposed(apart, len(classes.uses), self._scratch)] if counts else []
        fused = self.fuse([*apart, *(replace(step, name="later") for step in behind)], classes.uses)
        if fused is None:
            return None
        found: list[Node] = []
        for step in fused:
            if not isinstance(step, Touch):
                found.append(classes.together(step))
            elif step.name in summed:
                found.append(summed.pop(step.name))
        return tuple(found)


def _summary(repeat: Repeat, depth: int) -> Iterator[Touch]:
    """First all that it reads, then all that it writes: no iteration reads less, and in the end all of it is written."""
    inner = list(steps_of(repeat.body, (repeat.count,)))
    yield Touch("", (), _ONE_LANE, (), ())  # it stands somewhere, whatever it touches
    for writes in (False, True):
        for step, counts in inner:
            yield from _touches(step, (*(1,) * depth, *counts), writes=writes, depth=depth)


def _touches(step: Listed, counts: tuple[int, ...], *, writes: bool, depth: int = 0) -> Iterator[Touch]:
    """The bytes a step reads, or writes, in all iterations of all repeats but the outer `depth`."""
    exact = not writes or writes_all(step)
    for output, place in _sides(step, writes=writes):
        operand = (step.outputs if output else step.inputs)[place]
        advance = (*operand.advance, *(0,) * len(counts))[: len(counts)]
        moves = list(zip(counts, advance, strict=True))[depth:]
        for piece in pieces(step, place, output=output):
            axes = [*moves, *piece.grid, (piece.run, 1)]
            at = replace(
                operand,
                kind=OperandKind.SPLAT,
                offset=operand.offset + piece.first,
                strides=tuple(stride for _, stride in axes),
                tile_stride=0,
                advance=advance[:depth],
            )
            dims = tuple(Dim(count) for count, _ in axes)
            inputs, outputs = ((), (at,)) if writes else ((at,), ())
            yield Touch("", dims, _ONE_LANE, inputs, outputs, exact)


def _sides(step: Listed, *, writes: bool) -> Iterator[tuple[bool, int]]:
    """Whether it is an output, and which, of all operands in memory that are written, or read: a scatter that adds reads its target."""
    if not writes:
        yield from ((False, place) for place, operand in enumerate(step.inputs) if in_memory(operand))
    if writes or adds(step):
        yield from ((True, place) for place, operand in enumerate(step.outputs) if in_memory(operand))


def _exposed(steps: Sequence[Listed], symbols: int, scratch: frozenset[int]) -> list[Touch]:
    """What is read of scratch memory before it is written: the last iteration's, or what lay there before all of them."""
    ends: dict[int, int] = {}
    for step in steps:
        for span in _spans(step):
            ends[span.symbol] = max(ends.get(span.symbol, 0), span.end)
    old = [_all_bytes(symbol, end) for symbol, end in ends.items() if symbol in scratch]
    values = values_of([*old, *steps], symbols, scratch)
    found: list[Touch] = []
    for place, step in enumerate(steps, len(old)):
        if values is not None:
            read = (*values.inputs[place], *(values.outputs[place] if adds(step) else ()))
            if {made for (made,) in values.outputs[: len(old)]}.isdisjoint(read):
                continue
        found += [touch for touch in _touches(step, (), writes=False) if lies_in(touch.inputs[0], scratch)]
    return found


def _all_bytes(symbol: int, end: int) -> Touch:
    target = Operand(OperandKind.SPLAT, symbol, 0, (1,), 0, "int8", "SENINT8")
    return Touch("", (Dim(end),), _ONE_LANE, (), (target,))


def _spans(step: Listed) -> Iterator[Span]:
    for output, operands in ((False, step.inputs), (True, step.outputs)):
        for place in range(len(operands)):
            if (span := span_of(step, place, output=output)) is not None:
                yield span


@dataclass(frozen=True, slots=True)
class _Classes:
    """Operands that repeats move differently are on symbols of their own: what is true of a symbol's bytes in one iteration is so in
    all. `uses` of all symbols: what moves through scratch memory is never left out."""

    uses: tuple[Use, ...]
    numbers: dict[tuple[int, tuple[int, ...]], int]  # symbol and advance -> symbol

    @classmethod
    def of(cls, steps: Sequence[Listed], counts: tuple[int, ...], uses: tuple[Use, ...]) -> _Classes | None:
        """None if parts of one memory that move differently meet."""
        found: dict[tuple[int, tuple[int, ...]], list[tuple[int, int]]] = {}
        for step in steps:
            operands = (o for o in (*step.inputs, *step.outputs) if in_memory(o))
            for operand, span in zip(operands, _spans(step), strict=True):
                steps_of_bytes = [by * itemsize(operand.data_format) for by in operand.advance]
                reaches = [(count - 1) * by for count, by in zip(counts, steps_of_bytes, strict=False)]
                first, end = span.first + sum(min(0, r) for r in reaches), span.end + sum(max(0, r) for r in reaches)
                found.setdefault(_class(operand), []).append((first, end))
        alone = [symbol for symbol, use in enumerate(uses) if use in (Use.SCRATCH, Use.FRESH)]
        for symbol in alone:
            if _meet([spans for (other, _), spans in found.items() if other == symbol]):
                return None
        moving = [key for key in found if any(key[1])]
        numbers = {key: len(uses) + place for place, key in enumerate(moving)}
        more = [Use.FRESH if uses[symbol] is Use.SCRATCH else uses[symbol] for symbol, _ in moving]
        return cls((*uses, *more), numbers)

    def apart(self, step: Listed) -> Listed:
        if not self.numbers:
            return step
        return _on_symbols(step, lambda operand: self.numbers.get(_class(operand), operand.symbol))

    def together(self, step: Step) -> Step:
        if not self.numbers:
            return step
        real = {number: symbol for (symbol, _), number in self.numbers.items()}
        return _on_symbols(step, lambda operand: real.get(operand.symbol, operand.symbol))


def _class(operand: Operand) -> tuple[int, tuple[int, ...]]:
    """In bytes, without repeats at the end that do not move it."""
    advance = [by * itemsize(operand.data_format) for by in operand.advance]
    while advance and advance[-1] == 0:
        advance.pop()
    return operand.symbol, tuple(advance)


def _meet(groups: Sequence[Sequence[tuple[int, int]]]) -> bool:
    """Whether bytes of one group lie among those of another."""
    spans = sorted((first, end, number) for number, group in enumerate(groups) for first, end in group)
    reached, owner = -1, -1
    for first, end, number in spans:
        if first < reached and number != owner:
            return True
        if end > reached:
            reached, owner = end, number
    return False


def _on_symbols(step: _Listed, chosen: Callable[[Operand], int]) -> _Listed:
    def moved(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(o, symbol=chosen(o)) if in_memory(o) else o for o in operands)

    return replace(step, inputs=moved(step.inputs), outputs=moved(step.outputs))
