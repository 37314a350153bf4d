"""What must be true of a step of each kind: its code writes every result, with registers of the right types."""

from __future__ import annotations

from collections.abc import Iterator

from openspyre.program.model import (
    MAX_ROW_SCALARS,
    MAX_ROWS,
    MAX_STAGE_CONSTANTS,
    ROW_SCALAR,
    Contract,
    Gather,
    LoopNest,
    Map,
    Operand,
    OperandKind,
    Reduce,
    Relayout,
    Rows,
    RowStage,
    Scan,
    Scatter,
    Sort,
    Step,
)
from openspyre.program.registers import (
    Register,
    can_store,
    folded_type,
    is_written,
    loaded_type,
    result_types,
)
from openspyre.spec.ops.expression import MAX_REGISTERS, Code
from openspyre.spec.ops.row import Fold

_ROW_FOLDS = (Fold.SUM, Fold.PROD, Fold.MAX, Fold.MIN)


def kind_problems(step: Step) -> Iterator[str]:
    """What is wrong with a step for one of its kind; its dims, lanes and operands are known to be sound."""
    match step:
        case Map():
            return _map(step)
        case Reduce():
            return _reduce(step)
        case Rows():
            return _rows(step)
        case Contract():
            return _contract(step)
        case Relayout():
            return _relayout(step)
        case Gather():
            return _gather(step)
        case Scatter():
            return _scatter(step)
        case Scan():
            return _runs(step, 1, (Fold.SUM, Fold.PROD))
        case Sort():
            return _sort(step)


def element_text(operand: Operand) -> str:
    return f"{operand.dtype} in {operand.data_format}"


def _results(step: LoopNest, found: list[Register]) -> Iterator[str]:
    if len(found) != len(step.outputs):
        yield f"{len(found)} results for {len(step.outputs)} outputs"
    for place, (kind, output) in enumerate(zip(found, step.outputs, strict=False)):
        if not can_store(output, kind):
            yield f"output {place}: {kind} has no way into {element_text(output)}; convert it in the code first"


def _not_reduced(step: LoopNest) -> Iterator[str]:
    if step.lane.reduced or any(dim.reduced for dim in step.dims):
        yield "only reductions and rows have reduced dims or lanes"


def _map(step: Map) -> Iterator[str]:
    yield from _not_reduced(step)
    yield from _coded(step, step.code, [loaded_type(operand) for operand in step.inputs])


def _coded(step: LoopNest, code: Code, inputs: list[Register]) -> Iterator[str]:
    found: list[str] = []
    types = result_types(code, inputs, "code", found)
    yield from found
    yield from _results(step, types)


def _reduced_lanes(step: LoopNest) -> Iterator[str]:
    lane = step.lane
    if lane.block_dim >= 0 and step.dims[lane.block_dim].reduced != lane.reduced:
        yield "the lanes and the dim over their blocks must both be reduced, or neither"


def _reduce(step: Reduce) -> Iterator[str]:
    yield from _reduced_lanes(step)
    for place, output in enumerate(step.outputs):
        for number, dim in enumerate(step.dims):
            if dim.reduced and output.strides[number]:
                yield f"output {place} moves with the reduced dim {number}"
    found: list[str] = []
    types = result_types(step.code, [loaded_type(operand) for operand in step.inputs], "code", found)
    yield from found
    if len(types) != 1:
        yield f"the code of a reduction has one result, found {len(types)}"
        return
    scalars = [Register.ANY for operand in step.inputs if operand.kind is OperandKind.SCALAR]
    inputs = [folded_type(step.combine, types[0]), Register.INT, *scalars]
    totals = result_types(step.finish, inputs, "finish", found := [])
    yield from found
    yield from _results(step, totals)


def _rows(step: Rows) -> Iterator[str]:
    yield from _reduced_lanes(step)
    along = [number for number, dim in enumerate(step.dims) if dim.reduced and dim.extent > 1]
    for number in along[1:]:
        if step.dims[number].split != 1:
            yield f"dim {number} runs along the rows, of which only the outermost dim can be split"
    known = {place: loaded_type(operand) for place, operand in enumerate(step.inputs)}
    if not step.stages:
        yield "there are no stages"
    for place, stage in enumerate(step.stages):
        found = [f"stage {place}: {what}" for what in _stage(step, stage, known)]
        if not found:
            inputs = [known[row] for row in stage.rows]
            if stage.combine is not None:
                inputs[0] = folded_type(stage.combine, inputs[0])
            types = result_types(stage.code, inputs, f"stage {place}", found)
            known[target_of(stage)] = types[0]
        yield from found
        if found:
            return
    if sum(len(stage.code.constants) for stage in step.stages) > MAX_STAGE_CONSTANTS:
        yield f"the stages have more than {MAX_STAGE_CONSTANTS} constants"
    yield from _row_results(step, known)


def target_of(stage: RowStage) -> int:
    """The name of the row, or row scalar, that a stage writes."""
    return stage.target + (0 if stage.combine is None else ROW_SCALAR)


def _stage(step: Rows, stage: RowStage, known: dict[int, Register]) -> Iterator[str]:
    maps = stage.combine is None
    if not 0 <= stage.target < (MAX_ROWS if maps else MAX_ROW_SCALARS):
        yield f"the target {stage.target} is beyond the last row register or scalar"
    if maps and stage.target < len(step.inputs):
        yield f"writes row register {stage.target}, an input"
    if maps and not is_written(stage.code):
        yield "no instruction writes its row; copy what it shall be"
    if len(stage.code.results) != 1:
        yield f"has {len(stage.code.results)} results, one is needed"
    if not maps and (not stage.rows or stage.rows[0] >= ROW_SCALAR):
        yield "folds no row register"
    if not maps and stage.combine not in _ROW_FOLDS:
        yield "rows are folded by Sum, Prod, Max or Min"
    if len(stage.rows) > MAX_REGISTERS:
        yield f"reads more than {MAX_REGISTERS} registers"
    for place, row in enumerate(stage.rows):
        if row not in known:
            yield f"reads {row}, which nothing has set"
        elif not maps and place and row < ROW_SCALAR and not _is_scalar(step, row):
            yield "a finish reads row scalars and the launch's scalars only"


def _is_scalar(step: Rows, row: int) -> bool:
    return row < len(step.inputs) and step.inputs[row].kind is OperandKind.SCALAR


def _row_results(step: Rows, known: dict[int, Register]) -> Iterator[str]:
    results, written = step.results, {target_of(stage) for stage in step.stages}
    if len(results) != len(step.outputs):
        yield f"{len(results)} row results for {len(step.outputs)} outputs"
    for place, (row, output) in enumerate(zip(results, step.outputs, strict=False)):
        if row in results[:place]:
            yield f"output {place} repeats the row result of another"
        if row not in written:
            yield f"output {place} is not the target of a stage"
        elif not can_store(output, known[row]):
            yield f"output {place}: its format cannot hold the row result"


def _indexed(step: Gather | Scatter) -> Iterator[str]:
    yield from _not_reduced(step)
    if len(step.inputs) != 2 or len(step.outputs) != 1:
        yield "needs two inputs (table or values, and index) and one output"
        return
    if step.inputs[0].kind not in (OperandKind.VECTOR, OperandKind.SPLAT):
        yield "its values must be in memory"
    index = step.inputs[1]
    if index.kind is OperandKind.SCALAR or loaded_type(index) is not Register.INT:
        yield "the index must be an integer operand"
    if step.index_bound < 1:
        yield f"index_bound is {step.index_bound}, at least 1 is needed"
    yield from _coded(step, step.code, [loaded_type(step.inputs[0])])


def _gather(step: Gather) -> Iterator[str]:
    yield from _indexed(step)
    yield from _per_lane(step, step.inputs[:1], "read")


def _per_lane(step: Gather | Scatter, tables: tuple[Operand, ...], used: str) -> Iterator[str]:
    if len(step.inputs) == 2 and step.inputs[1].kind is OperandKind.VECTOR:
        if any(table.kind is not OperandKind.SPLAT for table in tables):
            yield f"an index per lane needs a table {used} as Splat"
        if step.lane.store_padding:
            yield "padding lanes have no index: an index per lane cannot store them"


def _scatter(step: Scatter) -> Iterator[str]:
    yield from _indexed(step)
    for number, dim in enumerate(step.dims):
        if dim.split != 1 and step.outputs and not step.outputs[0].strides[number]:
            yield f"dim {number} chooses the scattered row and cannot be split over cores"
    yield from _per_lane(step, step.outputs, "written")


def _runs(step: Scan | Sort, last: int, folds: tuple[Fold, ...]) -> Iterator[str]:
    """Rows go from front to back, so neighbours in a row are neighbours in memory. `last`: the dim along a row of the results."""
    if len(step.inputs) != 1 or len(step.outputs) != last or len(step.dims) != last + 1:
        yield f"needs one input, {last} output(s) and {last + 1} dims"
        return
    if step.combine not in folds:
        yield "this combination of elements is none of its own"
    (source,), first = step.inputs, step.outputs[0]
    if source.strides[1] != 1 or any(o.strides[last] != 1 or o.kind is not OperandKind.SPLAT for o in step.outputs):
        yield "the elements of a row must lie one behind the other"
    if (first.dtype, first.data_format) != (source.dtype, source.data_format):
        yield "values keep their format"
    if step.dims[last].split != 1 or step.dims[1].split != 1:
        yield "a row cannot be split over cores"


def _sort(step: Sort) -> Iterator[str]:
    found = list(_runs(step, 2, (Fold.MAX, Fold.MIN)))
    yield from found
    if found:
        return
    if step.dims[2].extent > step.dims[1].extent:
        yield "more elements are kept than a row has"
    if step.outputs[1].dtype not in ("int32", "int64") or step.outputs[1].data_format != "IEEE_INT32":
        yield "places are int32"


def _contract(step: Contract) -> Iterator[str]:
    if len(step.inputs) != 2 or len(step.outputs) != 1:
        yield "a contraction has two inputs and one output"
        return
    for name, code in (("A", step.a_code), ("B", step.b_code)):
        if code is None:
            continue
        found: list[str] = []
        types = result_types(code, [Register.FLOAT], f"the code of {name}", found)
        yield from found
        if len(types) != 1 or types[0] is Register.INT:
            yield f"the code of {name} has one result, a number to be multiplied"


def _relayout(step: Relayout) -> Iterator[str]:
    if len(step.inputs) != 1 or len(step.outputs) != 1:
        yield "a relayout has one input and one output"
    if any(len(view.size) != len(view.stride) for view in (step.source, step.target)):
        yield "a view has as many strides as sizes"
    if step.source.size != step.target.size:
        yield "source and target of a relayout have different sizes"
