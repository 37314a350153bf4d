"""Rules for rows: reductions, and what is computed from their totals over the same rows, become stages of one step."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from openspyre.backend.fusion.codes import INPUT, Link, Piece, Source, link_between, sees_signs_of_nan, weave, written
from openspyre.backend.fusion.inputs import Gathered
from openspyre.backend.fusion.maps import moving, renamed, row_count, row_lane, rows_fit, scalar_count
from openspyre.backend.fusion.nests import Fit, Reference, fit
from openspyre.program.kinds import target_of
from openspyre.program.model import (
    MAX_OPERANDS,
    MAX_STAGE_CONSTANTS,
    ROW_SCALAR,
    LoopNest,
    Map,
    Operand,
    OperandKind,
    Reduce,
    Rows,
    RowStage,
)
from openspyre.spec.ops.expression import Code
from openspyre.spec.ops.row import Fold

_FOLDS = (Fold.SUM, Fold.PROD, Fold.MAX, Fold.MIN)
_LONGEST_ROW = 1 << 16  # lanes; rows are kept in 32 bits while they are worked on


def as_rows(step: Map | Reduce | Rows) -> Rows | None:
    """The same step in stages; None where rows cannot do what it does."""
    match step:
        case Rows():
            return step
        case Map():
            return _map_in_stages(step)
        case Reduce():
            return _reduction_in_stages(step)


def _map_in_stages(step: Map) -> Rows | None:
    """A stage per result; an input that is returned as it is gets a copy."""
    inputs, stages = len(step.inputs), []
    code = step.code
    rows = tuple(range(inputs))
    for number in range(len(step.outputs)):
        piece = Piece(code, tuple(Source(INPUT, k) for k in rows))
        part = weave(code.inputs, (False,) * inputs, (piece,), (Source(0, number),))
        if part is None:
            return None
        stages.append(_stage(inputs, part, inputs + number))
    results = tuple(range(inputs, inputs + len(stages)))
    return Rows(*step.head, tuple(stages), results, cores=step.cores)


def _stage(inputs: int, code: Code, target: int) -> RowStage:
    """A map that takes none but the rows its code reads."""
    read = {source for instruction in code.instructions for source in instruction.sources} | set(code.results)
    rows = tuple(k for k in range(inputs) if k in read)
    lanes = tuple(code.inputs[k] for k in rows)
    sources = tuple(Source(INPUT, rows.index(k) if k in read else 0) for k in range(inputs))
    smaller = weave(lanes, (False,) * len(lanes), (Piece(code, sources),), (Source(0, 0),))
    if smaller is None:
        return RowStage(tuple(range(inputs)), written(code), target)
    return RowStage(rows, written(smaller), target)


def _reduction_in_stages(step: Reduce) -> Rows | None:
    along = [dim for dim in step.dims if dim.reduced and dim.extent > 1]
    in_runs = all(dim.split == 1 for dim in along[1:])  # the slices of a row are runs of it
    if step.combine not in _FOLDS or not in_runs or len(step.outputs) != 1:
        return None
    code, inputs, stages = step.code, len(step.inputs), []
    row = code.results[0]
    if code.instructions or row >= inputs:
        row = inputs
        stages.append(_stage(inputs, code, row))
    scalars = tuple(k for k, operand in enumerate(step.inputs) if operand.kind is OperandKind.SCALAR)
    # The finish of a reduction also gets an index, which folds of these kinds do not use.
    sources = (Source(INPUT, 0), Source(INPUT, 0), *(Source(INPUT, 1 + k) for k in range(len(scalars))))
    lanes = (step.finish.inputs[0], *step.finish.inputs[2:])
    finish = weave(lanes, (False,) * len(lanes), (Piece(step.finish, sources),), (Source(0, 0),))
    if finish is None:
        return None
    fold = RowStage((row, *scalars), finish, 0, step.combine)
    return Rows(*step.head, (*stages, fold), (ROW_SCALAR,), cores=step.cores)


def appended(maker: Reduce | Rows, output: int, reader: Map | Reduce | Rows, place: int) -> Rows | None:
    """The reader's stages behind the maker's, over the maker's rows; the results of both are stored."""
    if isinstance(reader, Map):
        reader = moving(reader, maker.outputs[output])
    frame, guest = as_rows(maker), as_rows(reader)
    if frame is None or guest is None or maker.lane.store_padding or reader.lane.store_padding:
        return None
    if _row_lanes(frame) > _LONGEST_ROW:
        return None
    per_row = frame.results[output] >= ROW_SCALAR
    found = fit(frame, Reference(True, output), guest, Reference(False, place), free=per_row)
    if found is None or not found.exact or not _same_rows(found, isinstance(reader, Map)):
        return None
    return _Joined(found).step()


def beside(first: Reduce | Rows, second: Reduce | Rows, here: int, there: int) -> Rows | None:
    """The stages of both over rows that both read, as inputs `here` and `there`; the results of both are stored."""
    frame, guest = as_rows(first), as_rows(second)
    if frame is None or guest is None or first.lane.store_padding or second.lane.store_padding:
        return None
    if first.lane.lanes != second.lane.lanes or _row_lanes(frame) > _LONGEST_ROW:
        return None
    found = fit(frame, Reference(False, here), guest, Reference(False, there))
    if found is None or not found.exact or not _same_rows(found, False):
        return None
    return _Joined(found).step()


def _row_lanes(step: Rows) -> int:
    lanes = step.lane.lanes if step.lane.reduced else 1
    return lanes * prod(dim.extent for dim in step.dims if dim.reduced)


def _same_rows(found: Fit[LoopNest, LoopNest], is_map: bool) -> bool:
    """Whether the guest folds along the frame's rows, in the same order; a map folds nothing."""
    frame, guest = found.frame, found.guest
    if is_map:
        return True
    if frame.lane.reduced != guest.lane.reduced:
        return False
    matched = [(dim, step) for dim, step in zip(frame.dims, found.steps, strict=True) if step is not None]
    if any(dim.reduced != guest.dims[step[0]].reduced for dim, step in matched):
        return False
    if any(dim.reduced and dim.split != guest.dims[step[0]].split for dim, step in matched):
        return False  # their sums have other slices
    along = [step for dim, step in matched if dim.reduced]
    return all(factor == 1 for _, factor in along) and along == sorted(along)


class _Joined:
    """The guest's registers renamed: to the frame's where they are its results, to new ones otherwise."""

    def __init__(self, found: Fit[Rows, Rows]) -> None:
        self.frame, self.guest = found.frame, found.guest
        self.outputs = [found.carried(operand) for operand in self.guest.outputs]
        self.gathered = Gathered()
        self.kept = [self.gathered.place(o, row_lane(o)) for o in self.frame.inputs]
        self.linked: dict[int, Link] = {}  # the frame's results that the guest reads
        self.sources: list[int | None] = []  # of each guest input: the frame's output, None for a new input
        self.new: dict[int, int] = {}
        for number, operand in enumerate(self.guest.inputs):
            carried = found.carried(operand)
            source = self._result_read(carried)
            self.sources.append(source)
            if source is None:
                self.new[number] = self.gathered.place(carried, row_lane(carried))

    def _result_read(self, operand: Operand) -> int | None:
        for number, output in enumerate(self.frame.outputs):
            link = link_between(output, operand)
            if link is not None and replace(output, dtype=operand.dtype) == operand:
                self.linked[number] = link
                return number
        return None

    def step(self) -> Rows | None:
        frame, guest, inputs = self.frame, self.guest, len(self.gathered.operands)
        sees_signs = any(sees_signs_of_nan(stage.code) for stage in guest.stages)
        if Link.TRUTH in self.linked.values() or (Link.NONE in self.linked.values() and sees_signs):
            return None
        stages = self._rounded_stages()
        if stages is None or len(frame.outputs) + len(self.outputs) > MAX_OPERANDS or not self.gathered.fits:
            return None
        more = inputs - len(frame.inputs)
        names = dict(enumerate(self.kept))
        first = tuple(renamed(stage, len(frame.inputs), more, names) for stage in stages)
        results = tuple(r if r >= ROW_SCALAR else r + more for r in frame.results)
        given = {k: self.new[k] if s is None else results[s] for k, s in enumerate(self.sources)}
        base, scalars = row_count(frame) + more - len(guest.inputs), scalar_count(frame)
        second = tuple(self._behind(stage, given, base, scalars) for stage in guest.stages)
        total = row_count(frame) + more + row_count(guest) - len(guest.inputs)
        constants = sum(len(stage.code.constants) for stage in (*first, *second))
        if not rows_fit(total, scalars + scalar_count(guest)) or constants > MAX_STAGE_CONSTANTS:
            return None
        behind = tuple(r + scalars if r >= ROW_SCALAR else r + base for r in guest.results)
        if any(row >= ROW_SCALAR for stage in second if stage.combine is not None for row in stage.rows[:1]):
            return None
        return replace(
            frame,
            name=guest.name,
            inputs=tuple(self.gathered.operands),
            outputs=(*frame.outputs, *self.outputs),
            stages=(*first, *second),
            results=(*results, *behind),
        )

    def _behind(self, stage: RowStage, given: dict[int, int], base: int, scalars: int) -> RowStage:
        def name(row: int) -> int:
            if row >= ROW_SCALAR:
                return row + scalars
            return given[row] if row in given else row + base

        target = stage.target + (base if stage.combine is None else scalars)
        return replace(stage, rows=tuple(name(row) for row in stage.rows), target=target)

    def _rounded_stages(self) -> list[RowStage] | None:
        """The frame's stages, what the guest reads of them rounded as its store would have done."""
        stages: list[RowStage] | None = list(self.frame.stages)
        for output, link in self.linked.items():
            if link is not Link.NONE and stages is not None:
                stages = rounded(stages, self.frame.results[output], link)
        return stages


def rounded(stages: list[RowStage], name: int, link: Link) -> list[RowStage] | None:
    """Stages of which one gives its result as a store and a load would; None if others read it as it was."""
    at = max(k for k, stage in enumerate(stages) if target_of(stage) == name)
    code = stages[at].code
    if _is_rounded(code):
        return stages
    if any(name in stage.rows for stage in stages):
        return None
    piece = Piece(code, tuple(Source(INPUT, k) for k in range(len(code.inputs))))
    made = weave(code.inputs, (False,) * len(code.inputs), (piece,), (Source(0, 0, link),))
    return None if made is None else [*stages[:at], replace(stages[at], code=made), *stages[at + 1 :]]


def _is_rounded(code: Code) -> bool:
    made = [i.opcode for i in code.instructions if i.target == code.results[0]]
    return made[-1:] == ["round_sen169"]
