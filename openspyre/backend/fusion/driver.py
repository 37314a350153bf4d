"""The walk over a program's steps: every step is offered to those that read its results, and moved only where it may be."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.finishes import finished_across, finished_by
from openspyre.backend.fusion.forms import Bound
from openspyre.backend.fusion.maps import inlined, is_cheap, merged
from openspyre.backend.fusion.memory import Listed, Span, in_scratchpads
from openspyre.backend.fusion.nests import is_one_block, narrowed
from openspyre.backend.fusion.operands_of_products import fed_by, fed_by_relayout, read_through
from openspyre.backend.fusion.relayout_chains import RelayoutChains
from openspyre.backend.fusion.row_totals import finished_rows
from openspyre.backend.fusion.rows import appended, beside
from openspyre.backend.fusion.tables import chosen_through
from openspyre.program.model import Contract, Gather, Map, Operand, Reduce, Relayout, Rows
from openspyre.program.reach import itemsize

_INLINING = (Map, Reduce, Rows, Contract, Gather)
_NESTS = (Map, Reduce, Rows)
_FOLDING = (Reduce, Rows)


class Fusion(RelayoutChains):
    """All rules, in their order."""

    def run(self) -> tuple[Bound, ...]:
        self._drop_dead()
        for place in reversed(range(len(self.steps))):  # what a step needs of its operands follows from its results
            self._narrow(place)
        finishes = (self._finish, self._finish_across_relayouts)
        rows = (self._append_a_reader, self._fold_beside, self._finish_rows, self._append_a_reader)
        for rule in (
            *self.chain_rules,
            self._inline_everywhere,
            *finishes,
            *rows,
            self._inline_everywhere,
            self._merge_with_a_reader,
        ):
            for place in range(len(self.steps)):
                while (step := self.steps[place]) is not None and rule(place, step):
                    pass
        self._drop_dead()
        return tuple(step for step in self.steps if step is not None)

    def _narrow(self, place: int) -> None:
        """A map of sticks that have one value each, in lane 0, computes nothing else."""
        maker = self.steps[place]
        if maker is None or not isinstance(maker.subject, Map) or not is_one_block(maker.subject):
            return
        for span, operand in zip(maker.outputs, maker.subject.outputs, strict=True):
            if not self.memory.is_temp(span.symbol):
                return
            read = [r for k in self._readers(place, span) for r in (self.steps[k] or maker).reads]
            size = itemsize(operand.data_format)
            if any((r.low, r.high) != (0, size) for r in read if self.memory.flows(span, r)):
                return
        narrow = self.forms.apply(narrowed, (maker,))
        if narrow is not None:
            self._put(place, narrow)

    # --- a map computed where it is read

    def _inline_everywhere(self, place: int, maker: Bound) -> bool:
        if not isinstance(maker.subject, Map | Relayout) or len(maker.outputs) != 1:
            return False
        (span,) = maker.outputs
        if not self.memory.is_temp(span.symbol) or self.memory.any_flow((span,), maker.reads):
            return False
        readers = list(self._readers(place, span))
        cheap = isinstance(maker.subject, Relayout) or is_cheap(maker.subject)
        if not readers or (len(readers) > 1 and not cheap) or not self._stays(place, maker, readers[-1], span):
            return False
        made = []
        for reader in readers:
            step = self._inlined(reader, span, maker, cheap)
            if step is None:
                return False
            made.append(step)
        for reader, step in zip(readers, made, strict=True):
            self._put(reader, step)
        self._put(place, None)
        return True

    def _inlined(self, reader: int, span: Span, maker: Bound, cheap: bool) -> Bound | None:
        step = self.steps[reader]
        if step is None or not isinstance(step.subject, _INLINING):
            return None
        while step is not None and (place := self._reading(step, span)) is not None:
            step = self.forms.apply(_inlined, (step, maker), place, cheap)
        return step if step is not None and self._keeps_apart(step) else None

    # --- rows

    def _append_a_reader(self, place: int, maker: Bound) -> bool:
        if not isinstance(maker.subject, _FOLDING):
            return False
        for output, span in enumerate(maker.outputs):
            for reader in self._readers(place, span):
                step = self.steps[reader]
                if step is None or not isinstance(step.subject, _NESTS):
                    continue
                reading = self._reading(step, span)
                both = None if reading is None else self.forms.apply(_appended, (maker, step), output, reading)
                if both is not None and self._join(place, maker, reader, both):
                    return True
        return False

    def _finish_rows(self, place: int, maker: Bound) -> bool:
        """A map of nothing but totals of the rows becomes the finish of the last of them."""
        if not isinstance(maker.subject, Rows):
            return False
        for output, span in enumerate(maker.outputs):
            for reader in self._readers(place, span):
                step = self.steps[reader]
                if step is None or not isinstance(step.subject, Map):
                    continue
                reading = self._reading(step, span)
                spare = frozenset(k for k, own in enumerate(maker.outputs) if self._is_for(place, own, reader))
                made = (
                    None if reading is None else self.forms.apply(finished_rows, (maker, step), output, reading, spare)
                )
                if made is not None and self._join(place, maker, reader, made):
                    return True
        return False

    def _is_for(self, place: int, span: Span, reader: int) -> bool:
        """Whether a result is stored for this reader alone."""
        return self.memory.is_temp(span.symbol) and list(self._readers(place, span)) == [reader]

    def _fold_beside(self, place: int, maker: Bound) -> bool:
        """Two folds of the same rows become one step where somebody reads the totals of both."""
        if not isinstance(maker.subject, _FOLDING):
            return False
        for reader in {reader for span in maker.outputs for reader in self._readers(place, span)}:
            read = (self.steps[reader] or maker).reads
            for other in range(place + 1, reader):
                step = self.steps[other]
                if step is None or not isinstance(step.subject, _FOLDING):
                    continue
                if self.memory.any_flow(step.writes, read) and self._joined_beside(place, maker, other, step):
                    return True
        return False

    def _joined_beside(self, place: int, maker: Bound, other: int, step: Bound) -> bool:
        for here, span in enumerate(maker.inputs):
            there = None if span is None else next((k for k, read in enumerate(step.inputs) if read == span), None)
            both = None if there is None else self.forms.apply(beside, (maker, step), here, there)
            if both is not None and self._join(place, maker, other, both):
                return True
        return False

    def _finish(self, place: int, maker: Bound) -> bool:
        """The one map that reads a reduction's totals becomes its finish."""
        if not isinstance(maker.subject, Reduce) or len(maker.outputs) != 1:
            return False
        following = self._only_reader(place, maker)
        step = None if following is None else self.steps[following]
        if following is None or step is None or not isinstance(step.subject, Map):
            return False
        reading = self._reading(step, maker.outputs[0])
        made = None if reading is None else self.forms.apply(finished_by, (maker, step), reading)
        return made is not None and self._join(place, maker, following, made)

    def _finish_across_relayouts(self, place: int, maker: Bound) -> bool:
        """Totals lie one to a stick; a map of them is made of dense ones, and put back. The finish needs neither."""
        if not isinstance(maker.subject, Reduce) or len(maker.outputs) != 1:
            return False
        chain, steps = [place], [maker]
        for kind in (Relayout, Map, Relayout):
            following = self._only_reader(chain[-1], steps[-1])
            step = None if following is None else self.steps[following]
            if following is None or step is None or not isinstance(step.subject, kind):
                return False
            chain.append(following)
            steps.append(step)
        made = self.forms.apply(finished_across, tuple(steps))
        if made is None or any(self._touches(k, steps[-1].writes) for k in self._between(place, chain[-1])):
            return False
        for gone in chain[1:]:
            self._put(gone, None)
        self._put(place, made)
        return True

    def _only_reader(self, place: int, maker: Bound) -> int | None:
        """Who alone reads the only result of a step, if that is a temp that nothing else writes until then."""
        (span, *others) = maker.writes
        readers = list(self._readers(place, span))
        if others or len(readers) != 1 or not self.memory.is_temp(span.symbol):
            return None
        if any(self._meets(step.writes, (span,)) for step in self._between(place, readers[0])):
            return None
        return readers[0]

    # --- two maps side by side

    def _merge_with_a_reader(self, place: int, maker: Bound) -> bool:
        if not isinstance(maker.subject, Map):
            return False
        for output, span in enumerate(maker.outputs):
            for reader in self._readers(place, span):
                step = self.steps[reader]
                if step is None or not isinstance(step.subject, Map):
                    continue
                reading = self._reading(step, span)
                both = None if reading is None else self.forms.apply(_merged, (step, maker), reading, output)
                if both is not None and self._join(place, maker, reader, both):
                    return True
        return False

    def _join(self, place: int, maker: Bound, reader: int, both: Bound) -> bool:
        """Puts the fused step where one of the two was, if no step between them minds."""
        if self.memory.any_flow(maker.writes, both.reads):
            return False
        settled = self._stored_once(self._without_dead_outputs(place, reader, both))
        if settled is None or not self._keeps_apart(settled):
            return False
        mover = next((p for p in ((reader, place), (place, reader)) if self._may_move(p[0], place, reader)), None)
        if mover is None:
            return False
        moved, stays = mover
        self._put(moved, None)
        self._put(stays, settled)
        return True

    def _stored_once(self, both: Bound) -> Bound | None:
        """Of values for the very same place the last is stored; None if two outputs overlap in any other way."""
        last = []
        for number, span in enumerate(both.outputs):
            meeting = [k for k in range(number + 1, len(both.outputs)) if self.memory.meet(span, both.outputs[k])]
            if not all(self._same_place(both, number, k) for k in meeting):
                return None
            if not meeting:
                last.append(number)
        return both if len(last) == len(both.outputs) else self.forms.apply(_storing, (both,), tuple(last))

    def _without_dead_outputs(self, place: int, reader: int, both: Bound) -> Bound:
        """Temps that nothing but the reader read are not stored any more."""
        keeps = [
            k
            for k, span in enumerate(both.outputs)
            if not self.memory.is_temp(span.symbol) or any(other != reader for other in self._readers(place, span))
        ]
        if not keeps or len(keeps) == len(both.outputs):
            return both
        return self.forms.apply(_storing, (both,), tuple(keeps)) or both

    def _may_move(self, moving: int, first: int, last: int) -> bool:
        mine = self.steps[moving]
        return mine is not None and not any(
            self._touches(mine, step.writes) or self._meets(step.reads, mine.writes)
            for step in self._between(first, last)
        )

    def _drop_dead(self) -> None:
        """Steps that write nothing but temps which nothing reads afterwards."""
        read: set[int] = set()
        for place, step in reversed(list(enumerate(self.steps))):
            if step is None:
                continue
            dead = all(self.memory.is_temp(span.symbol) and span.symbol not in read for span in step.writes)
            if dead and step.subject is not None:
                self._put(place, None)
                continue
            read |= {span.symbol for span in step.reads}


def _inlined(
    reader: Map | Reduce | Rows | Contract | Gather, maker: Map | Relayout, place: int, anywhere: bool
) -> Map | Reduce | Rows | Contract | Gather | None:
    if isinstance(maker, Relayout):
        return fed_by_relayout(reader, place, maker) if isinstance(reader, Contract) else None
    if isinstance(reader, Contract):
        return fed_by(reader, place, maker)
    if isinstance(reader, Gather):
        return chosen_through(reader, place, maker)
    return inlined(reader, place, maker, anywhere=anywhere) or read_through(reader, place, maker)


def _appended(maker: Reduce | Rows, reader: Map | Reduce | Rows, output: int, place: int) -> Rows | None:
    return appended(maker, output, reader, place)


def _merged(reader: Map, maker: Map, place: int, output: int) -> Map | None:
    return merged(reader, place, maker, output)


def _storing(step: Map | Rows, chosen: tuple[int, ...]) -> Map | Rows:
    """The step with these of its outputs alone."""
    outputs = tuple(step.outputs[k] for k in chosen)
    if isinstance(step, Rows):
        return replace(step, outputs=outputs, results=tuple(step.results[k] for k in chosen))
    code = replace(
        step.code,
        results=tuple(step.code.results[k] for k in chosen),
        result_lanes=tuple(step.code.result_lanes[k] for k in chosen),
    )
    return replace(step, outputs=outputs, code=code)


def settled(step: Listed) -> Listed:
    """Strides of dims of one pass mean nothing; as zeros they compare equal. Nor does it matter which core has which slice."""
    if not isinstance(step, _NESTS) or in_scratchpads(step):
        return step
    still = [dim.extent == 1 for dim in step.dims]

    def settle(operand: Operand) -> Operand:
        strides = tuple(0 if s else stride for s, stride in zip(still, operand.strides, strict=True))
        return operand if strides == operand.strides else replace(operand, strides=strides)

    return replace(step, inputs=tuple(map(settle, step.inputs)), outputs=tuple(map(settle, step.outputs)), cores=())
