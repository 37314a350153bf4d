"""What must be true of a program before a card is given it. Reports all problems, each naming step, operand and numbers.

Twin of the card's own check (`csrc/card/program/step_check.cpp`, `row_plan.cpp`), which sees every program when it is loaded. How far a
core reaches, and whether its scratchpad has the room, is asked there alone: that depends on the card.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from openspyre.program.footprint import byte_span
from openspyre.program.kinds import element_text, kind_problems
from openspyre.program.model import (
    LANE_UNIT,
    MAX_DIMS,
    MAX_LANES,
    MAX_OPERANDS,
    Contract,
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
    Scan,
    Scatter,
    Sort,
    Space,
    Step,
    Use,
)
from openspyre.program.registers import has_codec
from openspyre.program.tree import steps_of
from openspyre.spec.formats import DataFormats
from openspyre.spec.machine import SPYRE


def problems(program: Program) -> list[str]:
    """Everything that is wrong with a program; empty if nothing is."""
    found = [*_repeats(program.body, ()), *_steps(program)]
    return found or [*_bounds(program), *_uses(program)]


def _repeats(body: tuple[Node, ...], counts: tuple[int, ...]) -> Iterator[str]:
    """Repeats that end."""
    for node in body:
        if not isinstance(node, Repeat):
            continue
        if not 1 <= node.count <= SPYRE.max_loop_passes or not node.body:
            yield f"a repeat of {len(node.body)} nodes, {node.count} times: it must have some, and run at least once"
        elif prod(counts) * node.count > SPYRE.max_iterations_per_op:
            yield f"repeats run their body {prod(counts) * node.count} times, {SPYRE.max_iterations_per_op} are the most"
        elif len(counts) == SPYRE.max_loop_depth:
            yield f"more than {SPYRE.max_loop_depth} repeats in each other"
        else:
            yield from _repeats(node.body, (*counts, node.count))


def _steps(program: Program) -> Iterator[str]:
    symbols = len(program.symbols) + (1 if program.pool_bytes else 0)
    for number, (step, counts) in enumerate(steps_of(program.body)):
        for what in [*_advances(step, counts), *step_problems(step, symbols, len(program.scalars))]:
            yield f"step {number} {step.name!r}: {what}"


def _advances(step: Step, counts: tuple[int, ...]) -> Iterator[str]:
    for where, operand in named_operands(step):
        if len(operand.advance) > len(counts):
            yield f"{where} moves with {len(operand.advance)} repeats, there are {len(counts)} around the step"
        elif any(operand.advance) and not operand.kind.in_memory:
            yield f"{where} has no memory and cannot move"


def _bounds(program: Program) -> Iterator[str]:
    """No iteration moves an operand out of the front of its buffer, or out of the pool. How large others are is known at the launch."""
    for number, (step, counts) in enumerate(steps_of(program.body)):
        for where, operand in named_operands(step):
            span = byte_span(step, operand, counts) if any(operand.advance) else None
            if span is None:
                continue
            name = program.symbols[operand.symbol] if operand.symbol < len(program.symbols) else "the pool"
            if span[0] < 0:
                yield f"step {number} {step.name!r}: {where} begins {-span[0]} bytes before {name}"
            if operand.symbol == len(program.symbols) and span[1] > program.pool_bytes:
                yield f"step {number} {step.name!r}: {where} reaches byte {span[1] - 1} of the pool, which has {program.pool_bytes}"


def named_operands(step: Step) -> Iterator[tuple[str, Operand]]:
    for kind, operands in (("input", step.inputs), ("output", step.outputs)):
        for place, operand in enumerate(operands):
            yield f"{kind} {place}", operand


def _uses(program: Program) -> Iterator[str]:
    if len(program.uses) not in (0, len(program.symbols)):
        yield f"{len(program.uses)} uses for {len(program.symbols)} symbols"
        return
    for number, step in enumerate(program.steps):
        for operand in step.outputs:
            if operand.space is Space.MEMORY and program.use(operand.symbol) is Use.READ:
                name = program.symbols[operand.symbol]
                yield f"step {number} {step.name!r}: it writes {name!r}, which is said to be only read"


def step_problems(step: Step, symbols: int, scalars: int) -> list[str]:
    """What is wrong with a step of a program that has so many symbols and scalars."""
    if isinstance(step, Relayout):
        return [*_buffers(step, symbols), *kind_problems(step)]
    found = [*_dims(step), *_lanes(step), *_operands(step, symbols, scalars)]
    return found or list(kind_problems(step)) or list(_points(step))


def _points(step: LoopNest) -> Iterator[str]:
    """A step stores every element once, or it would never end. An index may choose a place again."""
    if isinstance(step, Scatter | Scan | Sort):
        return
    points = prod(dim.extent for dim in step.dims if not dim.reduced)
    for place, output in enumerate(step.outputs):
        room = 1 + sum(abs((k.extent - 1) * s) for k, s in zip(step.dims, output.strides, strict=True))
        if output.kind is OperandKind.VECTOR:
            stick = DataFormats[output.data_format].elems_per_stick()
            room += stick - 1 + (step.lane.lanes // stick - 1) * abs(output.tile_stride)
        if points > room:
            yield f"output {place}: {points} points are stored in {room} elements"


def _dims(step: LoopNest) -> Iterator[str]:
    if len(step.dims) > MAX_DIMS:
        yield f"{len(step.dims)} dims, a step has at most {MAX_DIMS}"
    cores = 1
    for place, dim in enumerate(step.dims):
        where = f"dim {place} (extent {dim.extent}, split {dim.split})"
        if not 1 <= dim.extent <= SPYRE.max_loop_passes:
            yield f"{where}: the extent is out of range"
        if not 1 <= dim.split <= SPYRE.cores:
            yield f"{where}: a split is 1 to {SPYRE.cores}"
        elif dim.extent % dim.split:
            yield f"{where}: the split does not divide the extent"
        cores *= max(1, dim.split)
    if prod(max(1, dim.extent) for dim in step.dims) > SPYRE.max_points_per_op:
        yield "its dims have more points together than a card could ever walk"
    if cores > SPYRE.cores:
        yield f"the splits ask for {cores} cores, a card has {SPYRE.cores}"
    if step.cores and len(step.cores) != cores:
        yield f"{len(step.cores)} cores for {cores} slices"
    if len(set(step.cores)) < len(step.cores) or not set(step.cores) <= set(range(SPYRE.cores)):
        yield f"cores {step.cores}, each slice has a core of its own from 0 to {SPYRE.cores - 1}"


def _lanes(step: LoopNest) -> Iterator[str]:
    lane = step.lane
    if lane.lanes % LANE_UNIT or not LANE_UNIT <= lane.lanes <= MAX_LANES:
        yield f"{lane.lanes} lanes, a block has a multiple of {LANE_UNIT} up to {MAX_LANES}"
    if not -1 <= lane.block_dim < len(step.dims):
        yield f"block_dim {lane.block_dim} is not a dim"
        return
    blocks = 1 if lane.block_dim < 0 else step.dims[lane.block_dim].extent
    if not lane.lanes * (blocks - 1) < lane.extent <= lane.lanes * blocks:
        yield f"a lane extent of {lane.extent} does not end in the last of {blocks} blocks of {lane.lanes}"


def _operands(step: LoopNest, symbols: int, scalars: int) -> Iterator[str]:
    if max(len(step.inputs), len(step.outputs)) > MAX_OPERANDS:
        yield f"more than {MAX_OPERANDS} inputs or outputs"
    if not step.outputs:
        yield "there is no output"
    for place, operand in enumerate(step.inputs):
        along_k = isinstance(step, Contract) and (place == 0 or step.b_along_k)
        lanes = step.k_lanes if isinstance(step, Contract) and along_k else step.lane.lanes
        yield from _operand(step, operand, f"input {place}", lanes, symbols, scalars)
    for place, operand in enumerate(step.outputs):
        yield from _operand(step, operand, f"output {place}", step.lane.lanes, symbols, scalars)
        if operand.kind not in (OperandKind.VECTOR, OperandKind.SPLAT):
            yield f"output {place} is not in memory; outputs are Vector or Splat"


def _operand(step: LoopNest, operand: Operand, where: str, lanes: int, symbols: int, scalars: int) -> Iterator[str]:
    if operand.kind is OperandKind.SCALAR:
        if not 0 <= operand.symbol < scalars:
            yield f"{where}: scalar {operand.symbol} of {scalars}"
        return
    if len(operand.strides) != len(step.dims):
        yield f"{where} has {len(operand.strides)} strides for {len(step.dims)} dims"
    if operand.kind is OperandKind.IOTA:
        return
    if operand.space is Space.MEMORY and not 0 <= operand.symbol < symbols:
        yield f"{where}: symbol {operand.symbol} of {symbols}"
    if not has_codec(operand):
        yield f"{where}: {element_text(operand)} cannot be loaded or stored"
        return
    stick = DataFormats[operand.data_format].elems_per_stick()
    if operand.kind is OperandKind.STRIDED:
        yield from _strided(step, where)
    if operand.kind is OperandKind.VECTOR and lanes % stick:
        yield f"{where}: blocks of {lanes} lanes are not whole sticks of {stick} ({element_text(operand)})"
    if operand.space is Space.SCRATCHPAD:
        if not -1 <= operand.owner < SPYRE.cores:
            yield f"{where} lies in the scratchpad of core {operand.owner}, a card has {SPYRE.cores}"
        if operand.owner >= 0 and prod(dim.split for dim in step.dims) > 1:
            yield f"{where} lies in the scratchpad of one core: the step must have one core too"
        for k in (k for k, dim in enumerate(step.dims) if dim.reduced and dim.split > 1):
            yield f"{where} lies in the scratchpad, but dim {k} splits the reduction over cores: they would have to see each other's"


def _strided(step: LoopNest, where: str) -> Iterator[str]:
    """Beyond the last element of a strided operand there is nothing that could be read for padding."""
    if not isinstance(step, Map | Reduce | Rows):
        yield f"{where} has its lanes a stride apart; maps, reductions and rows read such operands"
    lane = step.lane
    if lane.lanes < 1 or lane.extent % lane.lanes == 0:  # no lanes are a problem already
        return
    if not isinstance(step, Map) or (lane.store_padding and lane.extent > lane.lanes):
        yield (
            f"{where} has its lanes a stride apart: blocks of {lane.lanes} must be whole; only a map has a shorter last one, "
            "without storing padding behind it"
        )


def _buffers(step: Relayout, symbols: int) -> Iterator[str]:
    for operand in (*step.inputs, *step.outputs):
        if operand.space is not Space.MEMORY:
            yield "the DMA of a relayout does not reach scratchpads"
        if not 0 <= operand.symbol < symbols:
            yield f"symbol {operand.symbol} of {symbols}"
