"""What our compiler was asked to plan, kept beside its bundle, so that the plan can be explained, and made anew for another machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.mlir_writer import function_text
from openspyre.compiler import ir, pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.loops import listed
from openspyre.compiler.passes.plan_by_clock import PlanByClock
from openspyre.compiler.passes.plan_scratchpads import PlanScratchpads
from openspyre.compiler.passes.tile_by_clock import TileByClock
from openspyre.compiler.text import parse_program, print_program
from openspyre.compiler.timed.tile_search import TiledChain
from openspyre.spec.errors import InvalidArgument, SpyreError
from openspyre.spec.machine import SPYRE, Machine
from openspyre.spec.planning import Planning
from openspyre.tools.explaining.records import KeptOut, Tiled

GRAPH, PLANNING = "graph.ir", "planning.json"
_OFF = "scratchpads are not planned (LX_PLANNING=0)"


@dataclass(frozen=True, slots=True)
class Asked:
    """A graph before the compiler's passes, and how it was to be planned."""

    graph: ir.Program
    machine: Machine
    planning: Planning


@dataclass(frozen=True, slots=True)
class NamedChain:
    """Ops that share a loop, by name, and what was known of them."""

    ops: tuple[str, ...]
    chain: TiledChain


@dataclass(frozen=True, slots=True)
class Plan:
    """What the compiler makes of it. `reasons`: by the name of a buffer, why it is in no scratchpad. `tiled`: loops that the clock asked for."""

    asked: Asked
    lowered: ir.Program
    emitted: Emitted
    reasons: Mapping[str, str]
    tiled: tuple[NamedChain, ...] = ()

    @property
    def ops(self) -> list[ir.Op]:
        """In the order of the bundle's executions."""
        return [op for op, _ in listed(self.lowered.body)]


def write_asked(directory: Path, asked: Asked) -> None:
    machine = {
        "cores": asked.machine.cores,
        "scratchpad_reserved_fraction": asked.machine.scratchpad_reserved_fraction,
    }
    (directory / GRAPH).write_text(print_program(asked.graph), encoding="utf-8")
    told = json.dumps(machine | {"planning": asdict(asked.planning)}, indent=2)
    (directory / PLANNING).write_text(told + "\n", encoding="utf-8")


def read_asked(directory: Path) -> Asked | None:
    """None where no compiler of ours left it, or another version did."""
    try:
        told = json.loads((directory / PLANNING).read_text(encoding="utf-8"))
        fraction = float(told["scratchpad_reserved_fraction"])
        machine = replace(SPYRE, cores=int(told["cores"]), scratchpad_reserved_fraction=fraction)
        graph = parse_program((directory / GRAPH).read_text(encoding="utf-8"))
        return Asked(graph, machine, Planning(**told["planning"]))
    except (OSError, ValueError, KeyError, TypeError, SpyreError):
        return None


def plan_for(asked: Asked, machine: Machine) -> Plan:
    """The compiler's whole pipeline for a machine; InvalidArgument if that has no plan."""
    program, reasons, chains = asked.graph, dict[str, str](), tuple[NamedChain, ...]()
    try:
        for step in pipeline.passes(machine, asked.planning):
            if isinstance(step, PlanScratchpads | PlanByClock):
                reasons = dict(step.plan(program).reasons)
            if isinstance(step, TileByClock):
                chains = tuple(
                    NamedChain(tuple(program.ops[number].name for number, _ in chain.dims), chain)
                    for chain in step.chains(program)
                )
            program = step.run(program)
        emitted = emit_bundle(program, k_fast=asked.planning.k_fast)
    except SpyreError as error:
        raise InvalidArgument(f"{asked.graph.name} cannot be planned for this machine: {error}") from error
    if not asked.planning.scratchpads:
        reasons = {buffer.name: _OFF for buffer in program.buffers}
    return Plan(asked, program, emitted, reasons, chains)


def plan_of(bundle: Bundle, asked: Asked | None) -> Plan | None:
    """The plan that a bundle is; None if it is another one by now."""
    if asked is None:
        return None
    plan = plan_for(asked, asked.machine)
    made = plan.emitted.bundle
    same = made.ops == bundle.ops and function_text(made.function) == function_text(bundle.function)
    return plan if same else None


def names_of_temps(plan: Plan) -> tuple[dict[int, str], ...]:
    """Per execution, what lies where in the pool."""
    buffers = {buffer.name: buffer for buffer in plan.lowered.buffers}
    return tuple(
        {
            place.byte: access.buffer
            for access in op.accesses
            if isinstance(place := buffers[access.buffer].place, ir.InPool)
        }
        for op in plan.ops
    )


def tiled_of(plan: Plan) -> Iterator[Tiled]:
    """Loops that the clock asked for, with their executions: also copies and moves that stand between their ops."""
    loops = [node for node in plan.lowered.body if isinstance(node, ir.Loop)]
    numbers = {id(op): number for number, op in enumerate(plan.ops)}
    for named in plan.tiled:
        own = set(named.ops)
        inside = [[op for op, _ in listed((loop,))] for loop in loops]
        ops = max(inside, key=lambda ops: sum(op.name in own for op in ops), default=[])
        gain = named.chain.gain
        executions = tuple(numbers[id(op)] for op in ops)
        large = (named.chain.large, named.chain.bytes)
        yield Tiled(named.ops, executions, gain.count, *large, gain.before_us, gain.after_us, gain.error_us)


def kept_out_of(plan: Plan) -> Iterator[KeptOut]:
    """Tensors that executions hand on, or read several times, through memory."""
    written: dict[str, list[int]] = {}
    read: dict[str, list[int]] = {}
    for number, op in enumerate(plan.ops):
        for access in op.outputs:
            written.setdefault(access.buffer, []).append(number)
        for name in dict.fromkeys(operand.buffer for operand in op.inputs if isinstance(operand, ir.Access)):
            read.setdefault(name, []).append(number)
    for buffer in plan.lowered.buffers:
        why = plan.reasons.get(buffer.name)
        if why is None or isinstance(buffer.place, ir.InScratchpad) or buffer.layout is None:
            continue
        writers, readers = written.get(buffer.name, []), read.get(buffer.name, [])
        if len(readers) < (1 if writers else 2):
            continue  # it comes or goes through memory in any plan
        place = buffer.place
        where = f"pool+{place.byte}" if isinstance(place, ir.InPool) else buffer.name
        first = writers[0] if writers else None
        yield KeptOut(buffer.name, where, buffer.layout.device_bytes, first, tuple(readers), why)
