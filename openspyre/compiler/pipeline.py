"""The pipeline: the list of passes, in order, and how they are run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Protocol

from openspyre.compiler.ir import Program
from openspyre.compiler.passes.choose_layouts import ChooseLayouts
from openspyre.compiler.passes.co_optimise import CoOptimise
from openspyre.compiler.passes.decompose_relayouts import DecomposeRelayouts
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.passes.drop_dead import DropDead
from openspyre.compiler.passes.eliminate_copies import EliminateCopies
from openspyre.compiler.passes.expand_composites import ExpandComposites
from openspyre.compiler.passes.fold_constants import FoldConstants
from openspyre.compiler.passes.hoist_moves import HoistMoves
from openspyre.compiler.passes.insert_relayouts import InsertRelayouts
from openspyre.compiler.passes.limit_spans import LimitSpans
from openspyre.compiler.passes.name_dims import NameDims
from openspyre.compiler.passes.order_by_use import OrderByUse
from openspyre.compiler.passes.order_sums import OrderSums
from openspyre.compiler.passes.outer_tables import OuterTables
from openspyre.compiler.passes.pack_indices import PackIndices
from openspyre.compiler.passes.place_buffers import PlaceBuffers
from openspyre.compiler.passes.plan_by_clock import PlanByClock
from openspyre.compiler.passes.plan_scratchpads import PlanScratchpads
from openspyre.compiler.passes.propagate_layouts import PropagateLayouts
from openspyre.compiler.passes.stage_products import StageProducts
from openspyre.compiler.passes.tile_by_clock import Passes, TileByClock
from openspyre.compiler.passes.tile_ops import TileOps
from openspyre.compiler.passes.unify_formats import UnifyFormats
from openspyre.compiler.text import print_program
from openspyre.compiler.verify import Verifier
from openspyre.spec import logs, progress
from openspyre.spec.errors import InternalError, InvalidArgument
from openspyre.spec.machine import SPYRE, Machine
from openspyre.spec.planning import PLANNING, Planning

_log = logging.getLogger("spyre.compiler")


class Pass(Protocol):
    """A frozen dataclass; its fields are its options."""

    def run(self, program: Program) -> Program: ...


def passes(machine: Machine = SPYRE, planning: Planning = PLANNING) -> tuple[Pass, ...]:
    scratchpads = PlanScratchpads(
        machine.scratchpad_planned_bytes_per_core, planning.solver, planning.relayout, planning.all_ops, planning.k_fast
    )
    documented, timed = planning.strategy == "documented", planning.strategy == "timed"
    co_optimise = CoOptimise(
        machine,
        planning.solver in ("exact", "cpsat"),
        planning.relayout and planning.solver == "greedy",
        planning.all_ops,
        planning.k_fast,
    )
    planned = (
        PropagateLayouts() if documented else ChooseLayouts(16 if planning.whole_layouts else 0),
        InsertRelayouts(documented),
        OuterTables(),
        PackIndices(),
        StageProducts(documented),
        DecomposeRelayouts(),
        HoistMoves(),
        LimitSpans(machine.cores, machine.max_span_bytes_per_core_and_tensor),
        DivideWork(machine.cores, machine.max_span_bytes_per_core_and_tensor),
    )
    by_clock = PlanByClock(machine, scratchpads, planning.scratchpads)
    tile_by_clock = TileByClock(machine, Passes(planned, by_clock))
    return (
        ExpandComposites(),
        *([OrderByUse()] if documented else []),
        UnifyFormats(),
        OrderSums(),
        FoldConstants(),
        *([EliminateCopies(documented)] if planning.drop_copies else []),
        DropDead(),
        NameDims(planning.ignore_hints),
        TileOps(
            planning.reduction_tiling, machine.max_span_bytes_per_core_and_tensor if planning.span_tiling else None
        ),
        *([tile_by_clock] if timed and planning.clock_tiling and planning.scratchpads else []),
        *planned,
        *([co_optimise] if planning.co_optimise and planning.scratchpads and not timed else []),
        *([by_clock] if timed else []),
        *([scratchpads] if planning.scratchpads and not timed else []),
        PlaceBuffers(shared=planning.pool, documented=documented),
    )


Observer = Callable[[str, Program, float], None]  # name of a pass, what it returned, seconds it took


def name_of(step: object) -> str:
    return type(step).__name__


def purpose_of(step: object) -> str:
    """What a pass is for: the first line of its module."""
    return (sys.modules[type(step).__module__].__doc__ or "").splitlines()[0]


def run(
    program: Program,
    machine: Machine = SPYRE,
    planning: Planning = PLANNING,
    *,
    verify: bool = False,
    observe: Observer | None = None,
) -> Program:
    """All passes; with `verify`, what comes in and what each of them returns is checked."""
    start = perf_counter()
    if logs.get_log_passes():
        _check_log_passes(machine, planning)
    for step, after in stages(program, passes(machine, planning), machine, verify=verify):
        program = after
        if logs.logs_pass(name_of(step)) and _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s after %s\n%s", program.name, name_of(step), print_program(program))
        if observe is not None:
            observe(name_of(step), program, perf_counter() - start)
            start = perf_counter()
    return program


def _check_log_passes(machine: Machine, planning: Planning) -> None:
    known = [name_of(step) for step in passes(machine, planning)]
    if unknown := logs.unknown_log_passes(known):
        raise InvalidArgument(
            f"SPYRE_LOG_PASSES or set_log_passes asks for {', '.join(unknown)}; the passes are {', '.join(known)}, or all"
        )


def stages(
    program: Program, steps: Sequence[Pass], machine: Machine = SPYRE, *, verify: bool = False
) -> Iterator[tuple[Pass, Program]]:
    """Each pass and what it returned, one at a time. After the last pass of the pipeline a program must be lowered."""
    if verify:
        _check("what the passes were given", program, Verifier(machine.cores))
    last = name_of(passes(machine)[-1])
    for step in steps:
        progress.stage(name_of(step), f"{len(program.body)} ops")
        program = step.run(program)
        if verify:
            lowered = name_of(step) == last
            _check(f"what {name_of(step)} returned", program, Verifier(machine.cores, lowered=lowered))
        yield step, program


def _check(what: str, program: Program, verifier: Verifier) -> None:
    problems = verifier.problems(program)
    if problems:
        raise InternalError("\n".join([f"{what} is no valid program {program.name!r}:", *problems]))
