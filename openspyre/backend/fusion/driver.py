"""The walk over a program's steps: every step is offered to those that read its results, and moved only where it may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from openspyre.backend.fusion.finishes import finished_across, finished_by
from openspyre.backend.fusion.maps import inlined, is_cheap, merged
from openspyre.backend.fusion.memory import Memory, Span, Touched, in_memory, input_span, output_span, touched
from openspyre.backend.fusion.rows import appended
from openspyre.program.model import Operand, Step, StepKind

_INLINING = (StepKind.MAP, StepKind.REDUCE, StepKind.ROWS)
_NESTS = (StepKind.MAP, StepKind.REDUCE, StepKind.ROWS)


class Fusion:
    """Steps in order; those that went into others are None."""

    def __init__(self, steps: tuple[Step, ...], memory: Memory) -> None:
        self.memory = memory
        self.steps: list[Step | None] = [_settled(step) for step in steps]
        self.touched: list[Touched] = [touched(step) for step in steps]
        self._reading_symbol: dict[int, set[int]] = {}  # symbol -> steps that read some of it
        for place in range(len(steps)):
            self._note_reads(place)

    def run(self) -> tuple[Step, ...]:
        self._drop_dead()
        rules = (self._inline_everywhere, self._finish, self._finish_across_relayouts, self._append_a_reader)
        for rule in (*rules, self._inline_everywhere, self._merge_with_a_reader):
            for place in range(len(self.steps)):
                while (step := self.steps[place]) is not None and rule(place, step):
                    pass
        self._drop_dead()
        return tuple(step for step in self.steps if step is not None)

    # --- a map computed where it is read

    def _inline_everywhere(self, place: int, maker: Step) -> bool:
        if (
            maker.kind is not StepKind.MAP
            or len(maker.outputs) != 1
            or not self.memory.is_temp(maker.outputs[0].symbol)
        ):
            return False
        span = output_span(maker, 0)
        readers = list(self._readers(place, span))
        cheap = is_cheap(maker)
        if not readers or (len(readers) > 1 and not cheap):
            return False
        if self._meets(self.touched[place].reads, (span,)) or not self._stays(place, readers[-1], span):
            return False
        made = [self._inlined(reader, span, maker, cheap) for reader in readers]
        if any(step is None for step in made):
            return False
        for reader, step in zip(readers, made, strict=True):
            self._put(reader, step)
        self._put(place, None)
        return True

    def _inlined(self, reader: int, span: Span, maker: Step, cheap: bool) -> Step | None:
        step = self.steps[reader]
        if step is None or step.kind not in _INLINING or self._meets(self.touched[reader].writes, (span,)):
            return None
        while step is not None and (place := self._reading(step, span)) is not None:
            step = inlined(step, place, maker, anywhere=cheap)
        return step if step is not None and self._keeps_apart(step) else None

    def _stays(self, place: int, last: int, span: Span) -> bool:
        """What a step reads, and what it stores, is the same until `last`."""
        kept = (*self.touched[place].reads, span)
        return not any(self._meets(self.touched[k].writes, kept) for k in self._between(place, last))

    # --- rows

    def _append_a_reader(self, place: int, maker: Step) -> bool:
        if maker.kind not in (StepKind.REDUCE, StepKind.ROWS):
            return False
        for output in range(len(maker.outputs)):
            span = output_span(maker, output)
            for reader in self._readers(place, span):
                step = self.steps[reader]
                if step is None or step.kind not in _NESTS:
                    continue
                reading = self._reading(step, span)
                both = None if reading is None else appended(maker, output, step, reading)
                if both is not None and self._join(place, reader, both):
                    return True
        return False

    def _finish(self, place: int, maker: Step) -> bool:
        """The one map that reads a reduction's totals becomes its finish."""
        if maker.kind is not StepKind.REDUCE or len(maker.outputs) != 1:
            return False
        following = self._only_reader(place)
        step = None if following is None else self.steps[following]
        if following is None or step is None or step.kind is not StepKind.MAP:
            return False
        reading = self._reading(step, output_span(maker, 0))
        made = None if reading is None else finished_by(maker, step, reading)
        return made is not None and self._join(place, following, made)

    def _finish_across_relayouts(self, place: int, maker: Step) -> bool:
        """Totals lie one to a stick; a map of them is made of dense ones, and put back. The finish needs neither."""
        if maker.kind is not StepKind.REDUCE or len(maker.outputs) != 1:
            return False
        chain = [place]
        for kind in (StepKind.RELAYOUT, StepKind.MAP, StepKind.RELAYOUT):
            following = self._only_reader(chain[-1])
            step = None if following is None else self.steps[following]
            if following is None or step is None or step.kind is not kind:
                return False
            chain.append(following)
        there, reader, back = (self.steps[k] for k in chain[1:])
        if there is None or reader is None or back is None:
            return False
        made = finished_across(maker, there, reader, back)
        last = chain[-1]
        if made is None or any(self._touches(k, self.touched[last].writes) for k in self._between(place, last)):
            return False
        for gone in chain[1:]:
            self._put(gone, None)
        self._put(place, made)
        return True

    def _only_reader(self, place: int) -> int | None:
        """Who alone reads the only result of a step, if that is a temp that nothing else writes until then."""
        (span, *others) = self.touched[place].writes
        readers = list(self._readers(place, span))
        if others or len(readers) != 1 or not self.memory.is_temp(span.symbol):
            return None
        if any(self._meets(self.touched[k].writes, (span,)) for k in self._between(place, readers[0])):
            return None
        return readers[0]

    def _touches(self, place: int, spans: tuple[Span, ...]) -> bool:
        return self._meets((*self.touched[place].reads, *self.touched[place].writes), spans)

    # --- two maps side by side

    def _merge_with_a_reader(self, place: int, maker: Step) -> bool:
        if maker.kind is not StepKind.MAP:
            return False
        for output in range(len(maker.outputs)):
            span = output_span(maker, output)
            for reader in self._readers(place, span):
                step = self.steps[reader]
                if step is None or step.kind is not StepKind.MAP:
                    continue
                reading = self._reading(step, span)
                both = None if reading is None else merged(step, reading, maker, output)
                if both is not None and self._join(place, reader, both):
                    return True
        return False

    def _join(self, place: int, reader: int, both: Step) -> bool:
        """Puts the fused step where one of the two was, if no step between them minds."""
        if self._meets(touched(both).reads, self.touched[place].writes) or not self._keeps_apart(both):
            return False
        settled = self._stored_once(both)
        if settled is None:
            return False
        both = self._without_dead_outputs(place, reader, settled)
        mover = next((p for p in ((reader, place), (place, reader)) if self._may_move(p[0], place, reader)), None)
        if mover is None:
            return False
        moved, stays = mover
        self._put(moved, None)
        self._put(stays, both)
        return True

    def _stored_once(self, both: Step) -> Step | None:
        """Of values for the very same place the last is stored; None if two outputs overlap in any other way."""
        last = []
        for number, output in enumerate(both.outputs):
            later = range(number + 1, len(both.outputs))
            meeting = [k for k in later if self.memory.meet(output_span(both, number), output_span(both, k))]
            if not all(_same_place(output, both.outputs[k]) for k in meeting):
                return None
            if not meeting:
                last.append(number)
        return both if len(last) == len(both.outputs) else _storing(both, last)

    def _without_dead_outputs(self, place: int, reader: int, both: Step) -> Step:
        """Temps that nothing but the reader read are not stored any more."""
        keeps = [
            not self.memory.is_temp(operand.symbol)
            or any(k != reader for k in self._readers(place, output_span(both, number)))
            for number, operand in enumerate(both.outputs)
        ]
        return both if all(keeps) or not any(keeps) else _storing(both, [k for k, keep in enumerate(keeps) if keep])

    def _may_move(self, moving: int, first: int, last: int) -> bool:
        mine = self.touched[moving]
        return not any(
            self._meets(self.touched[k].writes, (*mine.reads, *mine.writes))
            or self._meets(self.touched[k].reads, mine.writes)
            for k in self._between(first, last)
        )

    # --- what the rules ask

    def _keeps_apart(self, step: Step) -> bool:
        """Chunks are read before they are stored: what a step writes it reads at the very same place, or not at all."""
        for number, output in enumerate(step.outputs):
            span = output_span(step, number)
            for place, operand in enumerate(step.inputs):
                if not in_memory(operand) or not self.memory.meet(input_span(step, place), span):
                    continue
                if step.kind is not StepKind.MAP or not _same_place(operand, output):
                    return False
        return True

    def _reading(self, step: Step, span: Span) -> int | None:
        places = (k for k, operand in enumerate(step.inputs) if in_memory(operand))
        return next((k for k in places if self.memory.meet(input_span(step, k), span)), None)

    def _readers(self, place: int, span: Span) -> Iterator[int]:
        alone = self.memory.is_alone(span.symbol)
        candidates = sorted(self._reading_symbol.get(span.symbol, ())) if alone else range(len(self.steps))
        for k in candidates:
            if k > place and self._meets(self.touched[k].reads, (span,)):
                yield k

    def _between(self, first: int, last: int) -> Iterator[int]:
        return (k for k in range(first + 1, last) if self.steps[k] is not None)

    def _meets(self, some: tuple[Span, ...], others: tuple[Span, ...]) -> bool:
        return self.memory.any_meet(some, others)

    def _put(self, place: int, step: Step | None) -> None:
        for span in self.touched[place].reads:
            self._reading_symbol[span.symbol].discard(place)
        self.steps[place] = step
        self.touched[place] = Touched((), ()) if step is None else touched(step)
        self._note_reads(place)

    def _note_reads(self, place: int) -> None:
        for span in self.touched[place].reads:
            self._reading_symbol.setdefault(span.symbol, set()).add(place)

    def _drop_dead(self) -> None:
        """Steps that write nothing but temps which nothing reads afterwards."""
        read: set[int] = set()
        for place in reversed(range(len(self.steps))):
            if self.steps[place] is None:
                continue
            written = {span.symbol for span in self.touched[place].writes}
            if all(self.memory.is_temp(symbol) and symbol not in read for symbol in written):
                self._put(place, None)
            read |= {span.symbol for span in self.touched[place].reads}


def _storing(step: Step, chosen: list[int]) -> Step:
    """The step with these of its outputs alone."""
    outputs = tuple(step.outputs[k] for k in chosen)
    if step.code is None:
        return replace(step, outputs=outputs, row_results=tuple(step.row_results[k] for k in chosen))
    code = replace(
        step.code,
        results=tuple(step.code.results[k] for k in chosen),
        result_lanes=tuple(step.code.result_lanes[k] for k in chosen),
    )
    return replace(step, outputs=outputs, code=code)


def _same_place(one: Operand, other: Operand) -> bool:
    keys = [(o.kind, o.symbol, o.offset, o.strides, o.tile_stride, o.data_format) for o in (one, other)]
    return keys[0] == keys[1]


def _settled(step: Step) -> Step:
    """Strides of loops of one pass mean nothing; as zeros they compare equal."""
    if step.kind not in _NESTS:
        return step
    still = [loop.extent == 1 for loop in step.loops]

    def settle(operand: Operand) -> Operand:
        strides = tuple(0 if s else stride for s, stride in zip(still, operand.strides, strict=True))
        return operand if strides == operand.strides else replace(operand, strides=strides)

    return replace(step, inputs=tuple(map(settle, step.inputs)), outputs=tuple(map(settle, step.outputs)))
