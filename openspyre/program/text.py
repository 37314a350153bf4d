"""A program as text and back: a line per object, a keyword and its fields as JSON. For caches and people."""

from __future__ import annotations

import json
from collections.abc import Iterator

from openspyre.program.lines import InvalidProgram, Line, Lines
from openspyre.program.model import (
    Contraction,
    LaneBlock,
    Loop,
    Node,
    Operand,
    OperandKind,
    Program,
    Repeat,
    RowStage,
    Space,
    Step,
    StepKind,
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
            case Step():
                yield from (indent + ("  " if number else "") + line for number, line in enumerate(_step_lines(node)))
            case Repeat(count, inner):
                yield indent + _line("repeat", count=count)
                yield from _node_lines(inner, indent + "  ")
                yield indent + _line("end")


def _line(keyword: str, **values: object) -> str:
    return f"{keyword} {_encode(values)}"


def _step_lines(step: Step) -> Iterator[str]:
    yield _line(
        "step",
        name=step.name,
        kind=step.kind,
        combine=step.combine,
        index_stride=step.index_stride,
        index_bound=step.index_bound,
        accumulate=step.accumulate,
        cores=list(step.cores),
    )
    for loop in step.loops:
        yield _line("loop", extent=loop.extent, split=loop.split, reduced=loop.reduced)
    if step.lane is not None:
        lane = step.lane
        flags = {"reduced": lane.reduced, "store_padding": lane.store_padding}
        yield _line("lane", lanes=lane.lanes, extent=lane.extent, block_loop=lane.block_loop, **flags)
    for keyword, operands in (("input", step.inputs), ("output", step.outputs)):
        for operand in operands:
            yield _operand_line(keyword, operand)
    for keyword, code in (("code", step.code), ("finish", step.finish)):
        if code is not None:
            yield from _code_lines(keyword, code)
    for stage in step.stages:
        yield _line("stage", rows=list(stage.rows), target=stage.target, combine=stage.combine)
        yield from _code_lines("code", stage.code)
    if step.row_results:
        yield _line("results", rows=list(step.row_results))
    if step.contraction is not None:
        c = step.contraction
        rows = {"b_row_stride": c.b_row_stride, "b_along_k": c.b_along_k}
        yield _line("contraction", k_extent=c.k_extent, k_lanes=c.k_lanes, **rows)
        for keyword, code in (("a_code", c.a_code), ("b_code", c.b_code)):
            if code is not None:
                yield from _code_lines(keyword, code)
    for view in step.views:
        yield _view_line(view)


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


def _view_line(view: View) -> str:
    return _line(
        "view",
        symbol=view.symbol,
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
        if lines.next_is("step"):
            yield _parse_step(lines)
        elif lines.next_is("repeat"):
            head = lines.take("repeat")
            if depth == SPYRE.max_loop_depth:
                raise head.wrong("repeat", f"depth {depth + 1}", f"at most {SPYRE.max_loop_depth} in each other")
            body = tuple(_parse_nodes(lines, depth + 1))
            lines.take("end")
            yield Repeat(head.integer("count"), body)
        else:
            return


def _parse_step(lines: Lines) -> Step:
    head = lines.take("step")
    combine = head.optional_choice("combine", Fold)
    return Step(
        name=head.text("name"),
        kind=head.choice("kind", StepKind),
        combine=combine,
        index_stride=head.integer("index_stride"),
        index_bound=head.integer("index_bound"),
        accumulate=head.truth("accumulate"),
        cores=head.integers("cores"),
        loops=tuple(line.once(_parse_loop) for line in lines.all("loop")),
        lane=next((line.once(_parse_lane) for line in lines.at_most_one("lane")), None),
        inputs=tuple(line.once(_parse_operand) for line in lines.all("input")),
        outputs=tuple(line.once(_parse_operand) for line in lines.all("output")),
        code=_parse_code(lines, "code"),
        finish=_parse_code(lines, "finish"),
        stages=tuple(_parse_stages(lines)),
        row_results=next((line.integers("rows") for line in lines.at_most_one("results")), ()),
        contraction=_parse_contraction(lines),
        views=tuple(line.once(_parse_view) for line in lines.all("view")),
    )


def _parse_loop(line: Line) -> Loop:
    return Loop(line.integer("extent"), line.integer("split"), line.truth("reduced"))


def _parse_lane(line: Line) -> LaneBlock:
    numbers = (line.integer("lanes"), line.integer("extent"), line.integer("block_loop"))
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


def _parse_code(lines: Lines, keyword: str) -> Code | None:
    for head in lines.at_most_one(keyword):
        inputs, constants, results, result_lanes = head.once(_parse_code_head)
        instructions = tuple(line.once(_parse_instruction) for line in lines.all("do"))
        return Code(inputs, constants, instructions, results, result_lanes)
    return None


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
        combine = head.optional_choice("combine", Fold)
        code = _parse_code(lines, "code")
        if code is None:
            raise head.wrong("code", None, "the code of the stage")
        yield RowStage(rows, code, target, combine)


def _parse_contraction(lines: Lines) -> Contraction | None:
    for line in lines.at_most_one("contraction"):
        extent, k_lanes, stride = (line.integer(name) for name in ("k_extent", "k_lanes", "b_row_stride"))
        along_k = line.truth("b_along_k")
        return Contraction(extent, k_lanes, stride, along_k, _parse_code(lines, "a_code"), _parse_code(lines, "b_code"))
    return None


def _parse_view(line: Line) -> View:
    sizes, strides = line.integers("device_size"), line.integers("stride_map")
    form, arrangement = line.text("data_format"), line.text("arrangement")
    try:
        layout = SpyreTensorLayout(sizes, strides, DataFormats[form], ElementArrangement[arrangement])
    except (SpyreError, KeyError) as error:
        raise line.wrong("device_size", list(sizes), f"a layout ({error})") from None
    return View(
        symbol=line.integer("symbol"),
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
