"""Rules for totals of rows: what is computed from them alone is a finish, too; folds of the same rows are made side by side."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.codes import INPUT, Link, Piece, Source, link_between, sees_signs_of_nan, weave
from openspyre.backend.fusion.finishes import maps_totals
from openspyre.backend.fusion.inputs import Gathered
from openspyre.backend.fusion.maps import renamed, row_count, row_lane, rows_fit, scalar_count
from openspyre.backend.fusion.nests import Fit, Reference, fit
from openspyre.backend.fusion.rows import rounded
from openspyre.program.kinds import target_of
from openspyre.program.model import MAX_OPERANDS, MAX_STAGE_CONSTANTS, ROW_SCALAR, Map, OperandKind, Rows, RowStage


def finished_rows(maker: Rows, reader: Map, output: int, place: int, spare: frozenset[int]) -> Rows | None:
    """The reader's code behind the last fold whose total it reads; the totals that are `spare` nobody else reads."""
    if maker.results[output] < ROW_SCALAR or reader.lane.store_padding or len(reader.outputs) != 1:
        return None
    found = fit(maker, Reference(True, output), reader, Reference(False, place))
    if found is None or not maps_totals(found):
        return None
    return _Finish(found).step(spare)


class _Finish:
    def __init__(self, found: Fit[Rows, Map]) -> None:
        self.frame, self.guest = found.frame, found.guest
        self.output = found.carried(self.guest.outputs[0])
        self.given = [found.carried(operand) for operand in self.guest.inputs]
        self.totals: dict[int, tuple[int, Link]] = {}  # guest's input -> the frame's output, and what reading it does
        for number, operand in enumerate(self.given):
            for k, stored in enumerate(self.frame.outputs):
                link = link_between(stored, operand)
                per_row = self.frame.results[k] >= ROW_SCALAR
                if per_row and link is not None and replace(stored, dtype=operand.dtype) == operand:
                    self.totals[number] = (k, link)

    def _is_taken(self) -> bool:
        """Whether all that the guest reads are totals and the launch's scalars."""
        links = {link for _, link in self.totals.values()}
        others = [o for n, o in enumerate(self.given) if n not in self.totals]
        if any(operand.kind is not OperandKind.SCALAR for operand in others) or Link.TRUTH in links:
            return False
        return not (Link.NONE in links and sees_signs_of_nan(self.guest.code))

    def step(self, spare: frozenset[int]) -> Rows | None:
        if not self._is_taken():
            return None
        frame, gathered = self.frame, Gathered()
        names = dict(enumerate(gathered.place(o, row_lane(o)) for o in frame.inputs))
        lanes = self.guest.code.inputs
        scalars = {n: gathered.place(o, lanes[n]) for n, o in enumerate(self.given) if n not in self.totals}
        more = len(gathered.operands) - len(frame.inputs)
        stages = [renamed(stage, len(frame.inputs), more, names) for stage in self._rounded()]
        made = {target_of(stage): k for k, stage in enumerate(stages)}
        last = max(self.totals.values(), key=lambda total: made[frame.results[total[0]]])[0]
        name = frame.results[last]
        stage = self._finish(stages[made[name]], last, scalars)
        alone = last in spare and not any(name in other.rows for other in stages)
        results = [r if r >= ROW_SCALAR else r + more for r in frame.results]
        outputs = list(frame.outputs)
        if stage is None or not gathered.fits:
            return None
        if alone:
            stages[made[name]], outputs[last] = stage, self.output
        else:
            stages.append(replace(stage, target=scalar_count(frame)))
            outputs.append(self.output)
            results.append(target_of(stages[-1]))
        step = replace(
            frame,
            name=self.guest.name,
            inputs=tuple(gathered.operands),
            outputs=tuple(outputs),
            stages=tuple(stages),
            results=tuple(results),
        )
        return step if _is_possible(step) else None

    def _rounded(self) -> list[RowStage]:
        """Totals are rounded where they are made, if nobody reads them otherwise: others may then read them too."""
        stages = list(self.frame.stages)
        for total, link in self.totals.values():
            if link is not Link.NONE:
                stages = rounded(stages, self.frame.results[total], link) or stages
        return stages

    def _finish(self, stage: RowStage, last: int, scalars: dict[int, int]) -> RowStage | None:
        """The fold whose finish goes on with the guest's code, other totals and scalars behind its own."""
        rows, lanes = list(stage.rows), list(stage.code.inputs)
        code, sources = self.guest.code, []
        for number in range(len(self.given)):
            total, link = self.totals.get(number, (-1, Link.NONE))
            if total == last:
                sources.append(Source(0, 0, link))
                continue
            row = scalars[number] if total < 0 else self.frame.results[total]
            if row not in rows[1:]:
                rows.append(row)
                lanes.append(code.inputs[number])
            sources.append(Source(INPUT, rows.index(row, 1), link))
        own = Piece(stage.code, tuple(Source(INPUT, k) for k in range(len(stage.code.inputs))))
        pieces = (own, Piece(code, tuple(sources)))
        woven = weave(tuple(lanes), (False,) * len(lanes), pieces, (Source(1, 0),))
        return None if woven is None else replace(stage, rows=tuple(rows), code=woven)


def _is_possible(step: Rows) -> bool:
    constants = sum(len(stage.code.constants) for stage in step.stages)
    fits = rows_fit(row_count(step), scalar_count(step)) and constants <= MAX_STAGE_CONSTANTS
    return fits and len(step.outputs) <= MAX_OPERANDS
