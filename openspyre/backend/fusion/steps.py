"""Steps in order, and what rules ask of them: who reads what, who minds if a step is moved."""

from __future__ import annotations

from collections.abc import Iterator

from openspyre.backend.fusion.forms import Bound, Forms
from openspyre.backend.fusion.memory import Memory, Span
from openspyre.program.model import Map
from openspyre.program.reach import itemsize


class Steps:
    """Those that went into others are None."""

    def __init__(self, steps: tuple[Bound, ...], memory: Memory, forms: Forms) -> None:
        self.memory, self.forms = memory, forms
        self.steps: list[Bound | None] = [*steps]
        self._reading_symbol: dict[int, set[int]] = {}  # symbol -> steps that read some of it
        self._writing_symbol: dict[int, set[int]] = {}
        for place in range(len(steps)):
            self._note(place)

    def _keeps_apart(self, bound: Bound) -> bool:
        """Chunks are read before they are stored: what a step writes it reads at the very same place, or not at all."""
        for output, written in enumerate(bound.outputs):
            for place, read in enumerate(bound.inputs):
                if read is None or not self.memory.meet(read, written):
                    continue
                if not isinstance(bound.subject, Map) or not self._same_place(bound, output, place, read=True):
                    return False
        return True

    def _same_place(self, bound: Bound, output: int, other: int, *, read: bool = False) -> bool:
        """Whether an output walks the very bytes of another output, or of an input, in the same order."""
        step = bound.form.step
        spans = (bound.outputs[output], bound.inputs[other] if read else bound.outputs[other])
        operands = (step.outputs[output], step.inputs[other] if read else step.outputs[other])
        keys = [
            (
                o.kind,
                span.home,
                span.begin + o.offset * itemsize(o.data_format),
                o.strides,
                o.tile_stride,
                o.data_format,
            )
            for o, span in zip(operands, spans, strict=True)
            if span is not None
        ]
        return len(keys) == 2 and keys[0] == keys[1]

    def _reading(self, step: Bound, span: Span) -> int | None:
        flows = self.memory.flows
        return next((k for k, read in enumerate(step.inputs) if read is not None and flows(span, read)), None)

    def _readers(self, place: int, span: Span) -> Iterator[int]:
        flows = self.memory.flows
        alone = self.memory.is_alone(span.symbol)
        for k in sorted(self._reading_symbol.get(span.symbol, ())) if alone else range(place + 1, len(self.steps)):
            if k > place and (step := self.steps[k]) is not None:
                for read in step.reads:
                    if flows(span, read):
                        yield k
                        break

    def _between(self, first: int, last: int) -> Iterator[Bound]:
        return (step for step in self.steps[first + 1 : last] if step is not None)

    def _meets(self, some: tuple[Span, ...], others: tuple[Span, ...]) -> bool:
        return self.memory.any_meet(some, others)

    def _put(self, place: int, step: Bound | None) -> None:
        gone = self.steps[place]
        for span in () if gone is None else gone.reads:
            self._reading_symbol[span.symbol].discard(place)
        for span in () if gone is None else gone.writes:
            self._writing_symbol[span.symbol].discard(place)
        self.steps[place] = step
        self._note(place)

    def _note(self, place: int) -> None:
        step = self.steps[place]
        for span in () if step is None else step.reads:
            self._reading_symbol.setdefault(span.symbol, set()).add(place)
        for span in () if step is None else step.writes:
            self._writing_symbol.setdefault(span.symbol, set()).add(place)

    def _stays(self, place: int, maker: Bound, last: int, span: Span) -> bool:
        """What a step reads, and what it stores, is the same until `last`."""
        kept = (*maker.reads, span)
        return not any(self._meets(step.writes, kept) for step in self._between(place, last))

    def _touches(self, step: Bound, spans: tuple[Span, ...]) -> bool:
        return self._meets(step.reads, spans) or self._meets(step.writes, spans)
