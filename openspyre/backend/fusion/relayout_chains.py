"""Rules for relayouts one behind the other: they read and write through the temps between them."""

from __future__ import annotations

from collections.abc import Callable

from openspyre.backend.fusion.forms import Bound
from openspyre.backend.fusion.memory import Span
from openspyre.backend.fusion.relayouts import covered, moves_nothing, read_through, rolled, steady, written_through
from openspyre.backend.fusion.steps import Steps
from openspyre.program.model import Relayout


class RelayoutChains(Steps):
    """A relayout may read where it writes: the card then reads all of it first."""

    @property
    def chain_rules(self) -> tuple[Callable[[int, Bound], bool], ...]:
        through = self._write_through_a_relayout
        return through, self._read_through_a_relayout, through, self._roll, self._roll

    def _read_through_a_relayout(self, place: int, maker: Bound) -> bool:
        """Relayouts of what a relayout alone wrote read what it read."""
        if not isinstance(maker.subject, Relayout) or not self.memory.is_temp(maker.outputs[0].symbol):
            return False
        (span,) = maker.outputs
        changed = False
        for reader in list(self._readers(place, span)):
            step = self.steps[reader]
            if step is None or not isinstance(step.subject, Relayout) or self._writers(reader, step) != [place]:
                continue
            if not self._stays(place, maker, reader, span):
                continue
            made = self.forms.apply(read_through, (step, maker))
            if made is not None:
                self._put(reader, made)
                changed = True
        if changed and not any(self._readers(place, span)):
            self._put(place, None)
        return False

    def _write_through_a_relayout(self, place: int, reader: Bound) -> bool:
        """Relayouts into a temp that one relayout reads write where that one does."""
        if not isinstance(reader.subject, Relayout) or reader.inputs[0] is None:
            return False
        span = reader.inputs[0]
        writers = self._writers(place, reader)
        if not writers or not self.memory.is_temp(span.symbol):
            return False
        made: dict[int, Bound] = {}
        kept: Bound | None = None  # what was there before, if it is read first
        for k in writers:
            step = self.steps[k]
            if (
                step is None
                or not isinstance(step.subject, Relayout)
                or list(self._readers(k, step.outputs[0])) != [place]
            ):
                return False
            through = self.forms.apply(written_through, (step, reader))
            if through is None:
                return False
            if k == writers[0] and self._moves_nothing(through):
                kept = through
            else:
                made[k] = through
        whole = writers[:1] if kept is not None else writers
        parts = [s.subject for k in whole if (s := self.steps[k]) is not None and isinstance(s.subject, Relayout)]
        if not covered(reader.subject, parts) or not self._may_write_earlier(writers[0], place, reader, list(made)):
            return False
        for k in (*writers, place):
            self._put(k, made.get(k))
        if kept is not None:
            self._rename(reader.outputs[0].symbol, kept.inputs[0])
        return True

    def _may_write_earlier(self, first: int, last: int, reader: Bound, writers: list[int]) -> bool:
        """Whether nobody minds that these write what a relayout at `last` would have written."""
        for k in range(first + 1, last):
            step = self.steps[k]
            if step is None or k == min(writers, default=last):
                continue
            if self._meets(step.reads, reader.writes) or (k not in writers and self._meets(step.writes, reader.writes)):
                return False
        return True

    def _moves_nothing(self, bound: Bound) -> bool:
        source, target = bound.inputs[0], bound.outputs[0]
        same = source is not None and (source.home, source.begin) == (target.home, target.begin)
        return same and isinstance(bound.subject, Relayout) and moves_nothing(bound.subject)

    def _rename(self, old: int, span: Span | None) -> None:
        """Two values in the same bytes are one."""
        for place, step in enumerate(self.steps):
            if span is not None and step is not None and old in step.symbols and old != span.symbol:
                symbols = tuple(span.symbol if symbol == old else symbol for symbol in step.symbols)
                self._put(place, Bound(step.form, symbols, step.name, self.forms.homes, step.origin, step.members))

    def _roll(self, place: int, first: Bound) -> bool:
        """Relayouts in a row that go on by equal steps are one."""
        if not isinstance(first.subject, Relayout) or not self._keeps_apart(first):
            return False
        row: list[tuple[int, Bound]] = []
        relayouts: list[Relayout] = []
        for k, step in enumerate(self.steps[place:], place):
            if step is None:
                continue
            if not isinstance(step.subject, Relayout) or step.symbols != first.symbols:
                break
            row.append((k, step))
            relayouts.append(step.subject)
        count = steady(relayouts)
        made = self.forms.apply(rolled, tuple(step for _, step in row[:count])) if count > 1 else None
        if made is None:
            return False
        for k, _ in row[:count]:
            self._put(k, None)
        self._put(place, made)
        return True

    def _writers(self, place: int, reader: Bound) -> list[int]:
        """Steps before a relayout whose results it may read."""
        alone = all(self.memory.is_alone(span.symbol) for span in reader.reads)
        near = (
            {k for span in reader.reads for k in self._writing_symbol.get(span.symbol, ())} if alone else range(place)
        )
        return [
            k
            for k in sorted(near)
            if k < place and (step := self.steps[k]) is not None and self.memory.any_flow(step.writes, reader.reads)
        ]
