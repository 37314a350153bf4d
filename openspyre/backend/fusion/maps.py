"""Rules for maps: into the step that reads their result, or side by side with it in one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openspyre.backend.fusion.codes import INPUT, Link, Piece, Source, link_between, sees_signs_of_nan, weave, written
from openspyre.backend.fusion.inputs import Gathered
from openspyre.backend.fusion.memory import in_memory
from openspyre.backend.fusion.nests import Fit, Reference, fit, has_tail
from openspyre.program.model import (
    MAX_OPERANDS,
    MAX_ROW_SCALARS,
    MAX_ROWS,
    ROW_SCALAR,
    LoopNest,
    Map,
    Operand,
    OperandKind,
    Reduce,
    Rows,
    RowStage,
    Step,
)
from openspyre.program.reach import itemsize
from openspyre.spec.ops.expression import Code, Lane

# Cheap enough to be computed by every reader instead of being stored once.
_CHEAP = ("add", "sub", "mul", "neg", "abs", "int_to_float", "bool_to_float", "float_to_bool", "int_to_bool", "copy")
_CHEAP_INSTRUCTIONS = 2


def is_cheap(step: Map) -> bool:
    """Reads no more than it stores, and computes next to nothing."""
    code = step.code
    moving = [operand for operand in step.inputs if operand.kind is OperandKind.VECTOR]
    few = len(code.instructions) <= _CHEAP_INSTRUCTIONS and len(moving) <= 1
    return few and all(instruction.opcode in _CHEAP for instruction in code.instructions)


def inlined(reader: Map | Reduce | Rows, place: int, maker: Map, *, anywhere: bool) -> Map | Reduce | Rows | None:
    """The reader with its input computed instead of loaded; `anywhere`: also where lanes or dims share a value."""
    maker = moving(maker, reader.inputs[place])
    if isinstance(reader, Map):
        reader = moving(reader, maker.outputs[0])
    found = fit(reader, Reference(False, place), maker, Reference(True, 0))
    if found is None or (not anywhere and repeats(found)):
        return None
    frame = found.frame
    across = any(operand.kind is OperandKind.STRIDED for operand in found.guest.inputs)
    if across and has_tail(frame) and not isinstance(frame, Map):
        return None  # behind the last element of a strided operand nothing can be loaded
    link = link_between(found.guest.outputs[0], frame.inputs[place])
    if link is None or maker.lane.store_padding:
        return None
    carried = [found.carried(operand) for operand in found.guest.inputs]
    match frame:
        case Rows():
            return _into_rows(frame, place, link, found.guest.code, carried)
        case Reduce():
            return _into_reduction(frame, place, link, found.guest.code, carried)
        case Map():
            return _into_map(frame, place, link, found.guest.code, carried)


def moving(step: Map, like: Operand) -> Map:
    """A map that only moves bits moves elements of any format of that size: those that its reader takes them for, or its maker stores."""
    if not moves_bits(step) or itemsize(step.outputs[0].data_format) != itemsize(like.data_format):
        return step
    lane = row_lane(like)
    (source,), (target,) = step.inputs, step.outputs
    return replace(
        step,
        inputs=(replace(source, dtype=like.dtype, data_format=like.data_format),),
        outputs=(replace(target, dtype=like.dtype, data_format=like.data_format),),
        code=Code((lane,), (), (), (0,), (lane,)),
    )


def moves_bits(step: Step) -> bool:
    """Whether it is a map that stores what it loads."""
    if not isinstance(step, Map) or (len(step.inputs), len(step.outputs)) != (1, 1):
        return False
    (source,), (target,), code = step.inputs, step.outputs, step.code
    same = (source.dtype, source.data_format) == (target.dtype, target.data_format)
    return same and in_memory(source) and not code.instructions and code.results == (0,)


def repeats(found: Fit[LoopNest, Map]) -> bool:
    shared = any(step is None and dim.extent > 1 for step, dim in zip(found.steps, found.frame.dims, strict=True))
    return shared or (found.one_lane and found.frame.lane.extent > 1)


def _into_map(frame: Map, place: int, link: Link, first: Code, read: Sequence[Operand]) -> Map | None:
    found = _woven(frame, place, link, first, read)
    return None if found is None else replace(frame, inputs=tuple(found[0].operands), code=found[1])


def _into_reduction(frame: Reduce, place: int, link: Link, first: Code, read: Sequence[Operand]) -> Reduce | None:
    found = _woven(frame, place, link, first, read)
    finish = None if found is None else _finish_with(frame, found[0])
    if found is None or finish is None:
        return None
    return replace(frame, inputs=tuple(found[0].operands), code=found[1], finish=finish)


def _woven(
    frame: Map | Reduce, place: int, link: Link, first: Code, read: Sequence[Operand]
) -> tuple[Gathered, Code] | None:
    """The frame's code with one of its inputs computed by another, `first`, from what that read; and the inputs it then has."""
    code = frame.code
    if link is Link.NONE and sees_signs_of_nan(code):
        return None
    same = [frame.inputs[place] == operand for operand in frame.inputs]
    gathered = Gathered()
    kept = {k: gathered.place(o, code.inputs[k]) for k, o in enumerate(frame.inputs) if not same[k]}
    carried = gathered.places(read, first.inputs)
    if not gathered.fits:
        return None
    computed = Piece(first, tuple(Source(INPUT, k) for k in carried))
    sources = tuple(Source(0, 0, link) if same[k] else Source(INPUT, kept[k]) for k in range(len(frame.inputs)))
    results = tuple(Source(1, k) for k in range(len(code.results)))
    woven = weave(tuple(gathered.lanes), gathered.grid, (computed, Piece(code, sources)), results)
    return None if woven is None else (gathered, woven)


def _finish_with(step: Reduce, inputs: Gathered) -> Code | None:
    """A reduction's finish, given the scalars among these inputs behind the total and the index."""
    scalars = [operand for operand in inputs.operands if operand.kind is OperandKind.SCALAR]
    known = [operand for operand in step.inputs if operand.kind is OperandKind.SCALAR]
    given = zip(inputs.operands, inputs.lanes, strict=True)
    kinds = [lane for operand, lane in given if operand.kind is OperandKind.SCALAR]
    places = (0, 1, *(2 + scalars.index(operand) for operand in known))
    piece = Piece(step.finish, tuple(Source(INPUT, place) for place in places))
    registers = (*step.finish.inputs[:2], *kinds)
    results = tuple(Source(0, k) for k in range(len(step.finish.results)))
    return weave(registers, (False,) * len(registers), (piece,), results)


def _into_rows(frame: Rows, place: int, link: Link, first: Code, read: Sequence[Operand]) -> Rows | None:
    """A first stage makes the row that was loaded."""
    gathered = Gathered()
    gone = [frame.inputs[place] == operand for operand in frame.inputs]
    lanes = [row_lane(operand) for operand in frame.inputs]
    kept = {k: gathered.place(o, lanes[k]) for k, o in enumerate(frame.inputs) if not gone[k]}
    carried = gathered.places(read, first.inputs)
    if not gathered.fits:
        return None
    more = len(gathered.operands) - len(frame.inputs)
    computed = len(gathered.operands) + row_count(frame) - len(frame.inputs)
    rows = list(dict.fromkeys(carried))
    piece = Piece(first, tuple(Source(INPUT, rows.index(k)) for k in carried))
    grid = tuple(gathered.grid[k] for k in rows)
    woven = weave(tuple(gathered.lanes[k] for k in rows), grid, (piece,), (Source(0, 0, link),))
    if woven is None or not rows_fit(computed + 1, 0):
        return None
    if link is Link.NONE and any(sees_signs_of_nan(stage.code) for stage in frame.stages):
        return None
    names = {k: computed if gone[k] else kept[k] for k in range(len(frame.inputs))}
    stages = (
        RowStage(tuple(rows), written(woven), computed),
        *(renamed(s, len(frame.inputs), more, names) for s in frame.stages),
    )
    results = tuple(_name(r, len(frame.inputs), more, names) for r in frame.results)
    return replace(frame, inputs=tuple(gathered.operands), stages=stages, results=results)


def row_lane(operand: Operand) -> Lane:
    if operand.kind is OperandKind.IOTA:
        return Lane.INT
    return Lane.FLOAT if operand.dtype == "bool" or "float" in operand.dtype else Lane.INT


def rows_fit(rows: int, scalars: int) -> bool:
    return rows <= MAX_ROWS and scalars <= MAX_ROW_SCALARS


def row_count(step: Rows) -> int:
    """Row registers in use, inputs among them."""
    return max([len(step.inputs), *(stage.target + 1 for stage in step.stages if stage.combine is None)])


def scalar_count(step: Rows) -> int:
    return max([0, *(stage.target + 1 for stage in step.stages if stage.combine is not None)])


def _name(register: int, inputs: int, more: int, names: dict[int, int]) -> int:
    if register >= ROW_SCALAR:
        return register
    return names[register] if register < inputs else register + more


def renamed(stage: RowStage, inputs: int, more: int, names: dict[int, int]) -> RowStage:
    """A stage whose step's inputs are now found under other names, computed rows `more` further."""
    rows = tuple(_name(row, inputs, more, names) for row in stage.rows)
    return replace(stage, rows=rows, target=stage.target + (more if stage.combine is None else 0))


def merged(reader: Map, place: int, maker: Map, output: int) -> Map | None:
    """Both maps in the reader's dims; every result of both is stored."""
    found = fit(reader, Reference(False, place), maker, Reference(True, output))
    if found is None or not found.exact or maker.lane.store_padding:
        return None
    frame, guest = found.frame, found.guest
    code, first = frame.code, guest.code
    stored = [found.carried(operand) for operand in guest.outputs]
    gathered = Gathered()
    carried = gathered.places(map(found.carried, guest.inputs), first.inputs)
    sources = []
    for operand, lane in zip(frame.inputs, code.inputs, strict=True):
        source = _from_maker(operand, stored, code) or Source(INPUT, gathered.place(operand, lane))
        sources.append(source)
    if not gathered.fits or len(frame.outputs) + len(stored) > MAX_OPERANDS:
        return None
    pieces = (Piece(first, tuple(Source(INPUT, k) for k in carried)), Piece(code, tuple(sources)))
    results = [Source(0, k) for k in range(len(first.results))] + [Source(1, k) for k in range(len(code.results))]
    woven = weave(tuple(gathered.lanes), gathered.grid, pieces, tuple(results))
    if woven is None:
        return None
    return replace(frame, inputs=tuple(gathered.operands), outputs=(*stored, *frame.outputs), code=woven)


def _from_maker(operand: Operand, stored: list[Operand], code: Code) -> Source | None:
    for k, output in reversed(list(enumerate(stored))):  # the last one stored is the one that is there
        if replace(output, dtype=operand.dtype) == operand:
            link = link_between(output, operand)
            if link is not None and not (link is Link.NONE and sees_signs_of_nan(code)):
                return Source(0, k, link)
    return None
