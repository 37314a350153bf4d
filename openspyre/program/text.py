"""A program as text and back: a line per object, a keyword and its fields as JSON. For caches and people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from openspyre.program.lines import InvalidProgram, Line, Lines
from openspyre.program.model import (
    Contract,
    Dim,
    Gather,
    LaneBlock,
    LoopNest,
    Map,
    Node,
    Operand,
    OperandKind,
    Program,
    Reduce,
    Relayout,
    Repeat,
    Rows,
    RowStage,
    Scan,
    Scatter,
    Sort,
    Space,
    Step,
    Use,
    View,
)
from openspyre.program.registers import SIGNATURES
from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops.expression import Code, Instruction, Lane
from openspyre.spec.ops.row import Fold

_encode = json.JSONEncoder(separators=(", ", ": ")).encode


def print_program(program: Program) -> str:
    lines = [
        _line(
            "program",
            name=program.name,
            symbols=list(program.symbols),
            scalars=list(program.scalars),
            pool_bytes=program.pool_bytes,
            whole_sticks=program.whole_sticks,
            uses=list(program.uses),
        )
    ]
    return "\n".join([*lines, *_node_lines(program.body, ""), ""])


def _node_lines(body: tuple[Node, ...], indent: str) -> Iterator[str]:
    for node in body:
        match node:
            case Repeat(count, inner):
                yield indent + _line("repeat", count=count)
                yield from _node_lines(inner, indent + "  ")
                yield indent + _line("end")
            case step:
                yield from (indent + ("  " if number else "") + line for number, line in enumerate(_step_lines(step)))


def _line(keyword: str, **values: object) -> str:
    return f"{keyword} {_encode(values)}"


def _step_lines(step: Step) -> Iterator[str]:
    """The keyword of a step is its kind; numbers of its own stand in its first line, codes and views behind its operands."""
    match step:
        case Map():
            yield from _nest_lines("map", step)
            yield from _code_lines("code", step.code)
        case Reduce():
            yield from _nest_lines("reduce", step, combine=step.combine)
            yield from _code_lines("code", step.code)
            yield from _code_lines("finish", step.finish)
        case Rows():
            yield from _nest_lines("rows", step, results=list(step.results))
            for stage in step.stages:
                yield _line("stage", rows=list(stage.rows), target=stage.target, combine=stage.combine)
                yield from _code_lines("code", stage.code)
        case Contract():
            b_rows = {"b_row_stride": step.b_row_stride, "b_along_k": step.b_along_k}
            yield from _nest_lines("contract", step, k_extent=step.k_extent, k_lanes=step.k_lanes, **b_rows)
            for keyword, code in (("a_code", step.a_code), ("b_code", step.b_code)):
                if code is not None:
                    yield from _code_lines(keyword, code)
        case Relayout():
            yield _line("relayout", name=step.name)
            yield from _operand_lines(step)
            yield _view_line("source", step.source)
            yield _view_line("target", step.target)
        case Gather():
            yield from _nest_lines("gather", step, index_stride=step.index_stride, index_bound=step.index_bound)
            yield from _code_lines("code", step.code)
        case Scatter():
            index = {"index_stride": step.index_stride, "index_bound": step.index_bound}
            yield from _nest_lines("scatter", step, **index, accumulate=step.accumulate)
            yield from _code_lines("code", step.code)
        case Scan():
            yield from _nest_lines("scan", step, combine=step.combine)
        case Sort():
            yield from _nest_lines("sort", step, combine=step.combine)


def _nest_lines(keyword: str, step: LoopNest, **own: object) -> Iterator[str]:
    yield _line(keyword, name=step.name, **own, cores=list(step.cores))
    for dim in step.dims:
        yield _line("dim", extent=dim.extent, split=dim.split, reduced=dim.reduced)
    lane = step.lane
    flags = {"reduced": lane.reduced, "store_padding": lane.store_padding}
    yield _line("lane", lanes=lane.lanes, extent=lane.extent, block_dim=lane.block_dim, **flags)
    yield from _operand_lines(step)


def _operand_lines(step: LoopNest | Relayout) -> Iterator[str]:
    for keyword, operands in (("input", step.inputs), ("output", step.outputs)):
        for operand in operands:
            yield _operand_line(keyword, operand)


def _operand_line(keyword: str, operand: Operand) -> str:
    return _line(
        keyword,
        kind=operand.kind,
        symbol=operand.symbol,
        offset=operand.offset,
        strides=list(operand.strides),
        tile_stride=operand.tile_stride,
        dtype=operand.dtype,
        data_format=operand.data_format,
        space=operand.space,
        owner=operand.owner,
        advance=list(operand.advance),
    )


def _view_line(keyword: str, view: View) -> str:
    return _line(
        keyword,
        dtype=view.dtype,
        device_size=view.layout.device_size,
        stride_map=view.layout.stride_map,
        data_format=view.layout.device_dtype.name,
        arrangement=view.layout.element_arrangement.name,
        buffer_dtype=view.buffer_dtype,
        buffer_size=list(view.buffer_size),
        buffer_stride=list(view.buffer_stride),
        offset=view.offset,
        size=list(view.size),
        stride=list(view.stride),
    )


def _code_lines(keyword: str, code: Code) -> Iterator[str]:
    yield _line(
        keyword,
        inputs=list(code.inputs),
        constants=list(code.constants),
        results=list(code.results),
        result_lanes=list(code.result_lanes),
    )
    for instruction in code.instructions:
        yield "  " + _line(
            "do", opcode=instruction.opcode, target=instruction.target, sources=list(instruction.sources)
        )


def parse_program(text: str) -> Program:
    """The program a text states; InvalidProgram names the line that states none."""
    lines = Lines(text)
    head = lines.take("program")
    symbols, scalars = head.texts("symbols"), head.texts("scalars")
    name, pool_bytes, whole_sticks = head.text("name"), head.integer("pool_bytes"), head.truth("whole_sticks")
    uses = head.choices("uses", Use)
    body = tuple(_parse_nodes(lines, 0))
    lines.expect_end()
    return Program(name, symbols, scalars, body, pool_bytes, whole_sticks, uses)


def _parse_nodes(lines: Lines, depth: int) -> Iterator[Node]:
    while True:
        if (parse := _STEPS.get(lines.keyword)) is not None:
            yield parse(lines, lines.take(lines.keyword))
        elif lines.next_is("repeat"):
            head = lines.take("repeat")
            if depth == SPYRE.max_loop_depth:
                raise head.wrong("repeat", f"depth {depth + 1}", f"at most {SPYRE.max_loop_depth} in each other")
            body = tuple(_parse_nodes(lines, depth + 1))
            lines.take("end")
            yield Repeat(head.integer("count"), body)
        else:
            return


def _parse_nest(lines: Lines, head: Line) -> LoopNest:
    return LoopNest(
        head.text("name"),
        tuple(line.once(_parse_dim) for line in lines.all("dim")),
        lines.take("lane").once(_parse_lane),
        tuple(line.once(_parse_operand) for line in lines.all("input")),
        tuple(line.once(_parse_operand) for line in lines.all("output")),
        cores=head.integers("cores"),
    )


def _parse_map(lines: Lines, head: Line) -> Map:
    nest = _parse_nest(lines, head)
    return Map(*nest.head, _parse_code(lines, "code"), cores=nest.cores)


def _parse_reduce(lines: Lines, head: Line) -> Reduce:
    nest, combine = _parse_nest(lines, head), head.choice("combine", Fold)
    return Reduce(*nest.head, _parse_code(lines, "code"), combine, _parse_code(lines, "finish"), cores=nest.cores)


def _parse_rows(lines: Lines, head: Line) -> Rows:
    nest = _parse_nest(lines, head)
    return Rows(*nest.head, tuple(_parse_stages(lines)), head.integers("results"), cores=nest.cores)


def _parse_contract(lines: Lines, head: Line) -> Contract:
    nest = _parse_nest(lines, head)
    extent, k_lanes, stride = (head.integer(name) for name in ("k_extent", "k_lanes", "b_row_stride"))
    codes = (_parse_optional_code(lines, "a_code"), _parse_optional_code(lines, "b_code"))
    return Contract(*nest.head, extent, k_lanes, stride, head.truth("b_along_k"), *codes, cores=nest.cores)


def _parse_relayout(lines: Lines, head: Line) -> Relayout:
    return Relayout(
        head.text("name"),
        tuple(line.once(_parse_operand) for line in lines.all("input")),
        tuple(line.once(_parse_operand) for line in lines.all("output")),
        lines.take("source").once(_parse_view),
        lines.take("target").once(_parse_view),
    )


def _parse_gather(lines: Lines, head: Line) -> Gather:
    nest, index = _parse_nest(lines, head), (head.integer("index_stride"), head.integer("index_bound"))
    return Gather(*nest.head, _parse_code(lines, "code"), *index, cores=nest.cores)


def _parse_scatter(lines: Lines, head: Line) -> Scatter:
    nest, index = _parse_nest(lines, head), (head.integer("index_stride"), head.integer("index_bound"))
    return Scatter(*nest.head, _parse_code(lines, "code"), *index, head.truth("accumulate"), cores=nest.cores)


def _parse_scan(lines: Lines, head: Line) -> Scan:
    nest = _parse_nest(lines, head)
    return Scan(*nest.head, head.choice("combine", Fold), cores=nest.cores)


def _parse_sort(lines: Lines, head: Line) -> Sort:
    nest = _parse_nest(lines, head)
    return Sort(*nest.head, head.choice("combine", Fold), cores=nest.cores)


_STEPS: dict[str, Callable[[Lines, Line], Step]] = {
    "map": _parse_map,
    "reduce": _parse_reduce,
    "rows": _parse_rows,
    "contract": _parse_contract,
    "relayout": _parse_relayout,
    "gather": _parse_gather,
    "scatter": _parse_scatter,
    "scan": _parse_scan,
    "sort": _parse_sort,
}


def _parse_dim(line: Line) -> Dim:
    return Dim(line.integer("extent"), line.integer("split"), line.truth("reduced"))


def _parse_lane(line: Line) -> LaneBlock:
    numbers = (line.integer("lanes"), line.integer("extent"), line.integer("block_dim"))
    return LaneBlock(*numbers, line.truth("reduced"), line.truth("store_padding"))


def _parse_operand(line: Line) -> Operand:
    return Operand(
        line.choice("kind", OperandKind),
        line.integer("symbol"),
        line.integer("offset"),
        line.integers("strides"),
        line.integer("tile_stride"),
        line.text("dtype"),
        line.text("data_format"),
        line.choice("space", Space),
        line.integer("owner"),
        line.integers("advance"),
    )


def _parse_code(lines: Lines, keyword: str) -> Code:
    inputs, constants, results, result_lanes = lines.take(keyword).once(_parse_code_head)
    instructions = tuple(line.once(_parse_instruction) for line in lines.all("do"))
    return Code(inputs, constants, instructions, results, result_lanes)


def _parse_optional_code(lines: Lines, keyword: str) -> Code | None:
    return _parse_code(lines, keyword) if lines.next_is(keyword) else None


def _parse_code_head(line: Line) -> tuple[tuple[Lane, ...], tuple[int, ...], tuple[int, ...], tuple[Lane, ...]]:
    return (
        line.choices("inputs", Lane),
        line.integers("constants"),
        line.integers("results"),
        line.choices("result_lanes", Lane),
    )


def _parse_instruction(line: Line) -> Instruction:
    opcode = line.text("opcode")
    if opcode not in SIGNATURES:
        raise line.wrong("opcode", opcode, "a primitive of the vector unit")
    return Instruction(opcode, line.integer("target"), line.integers("sources"))


def _parse_stages(lines: Lines) -> Iterator[RowStage]:
    for head in lines.all("stage"):
        rows, target = head.integers("rows"), head.integer("target")
        yield RowStage(rows, _parse_code(lines, "code"), target, head.optional_choice("combine", Fold))


def _parse_view(line: Line) -> View:
    sizes, strides = line.integers("device_size"), line.integers("stride_map")
    form, arrangement = line.text("data_format"), line.text("arrangement")
    try:
        layout = SpyreTensorLayout(sizes, strides, DataFormats[form], ElementArrangement[arrangement])
    except (SpyreError, KeyError) as error:
        raise line.wrong("device_size", list(sizes), f"a layout ({error})") from None
    return View(
        dtype=line.text("dtype"),
        layout=layout,
        buffer_dtype=line.text("buffer_dtype"),
        buffer_size=line.integers("buffer_size"),
        buffer_stride=line.integers("buffer_stride"),
        offset=line.integer("offset"),
        size=line.integers("size"),
        stride=line.integers("stride"),
    )


__all__ = ["InvalidProgram", "parse_program", "print_program"]
